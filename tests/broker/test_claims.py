"""Others may have a client's session: they are asked before it is used here, and the client waits."""

from collections.abc import Callable

import pytest

from braidmq.access.verdicts import Refused
from braidmq.broker.access import BuiltInGate
from braidmq.broker.admission import SessionClaim
from braidmq.broker.rights import replace_gate
from braidmq.wire import (
    V5,
    Connack,
    Connect,
    Disconnect,
    Pingreq,
    Pingresp,
    Properties,
    ReasonCode,
    encode,
)
from tests.broker.world import Client, World


class Others:
    """Answers when the test says so."""

    def __init__(self, world: World) -> None:
        self.asked: list[tuple[SessionClaim, Callable[[Refused | None], None]]] = []
        self.withdrawn = 0
        world.broker.claims = self

    def ask(
        self, claim: SessionClaim, answered: Callable[[Refused | None], None]
    ) -> Callable[[], None] | None:
        self.asked.append((claim, answered))
        return self.withdraw

    def withdraw(self) -> None:
        self.withdrawn += 1

    def answer(self, refused: Refused | None = None) -> None:
        self.asked.pop(0)[1](refused)


class Nobody:
    """Says at once that nobody has it."""

    def ask(self, claim: SessionClaim, answered: Callable[[Refused | None], None]) -> None:
        answered(None)


def asking(world: World, client_id: str = "c", clean_start: bool = True) -> Client:
    client = world.open()
    client.send(Connect(client_id, clean_start, properties=Properties(session_expiry_s=100)))
    return client


def test_the_client_waits_for_the_answer_and_so_does_what_it_sends() -> None:
    world = World()
    others = Others(world)
    client = world.open()
    client.send_bytes(encode(Connect("c"), V5) + encode(Pingreq(), V5))
    assert client.is_paused
    assert client.read() == []
    assert [claim for claim, _ in others.asked] == [SessionClaim("c", None, True)]
    assert not world.broker.sessions
    others.answer()
    assert [type(packet) for packet in client.read()] == [Connack, Pingresp]
    assert not client.is_paused
    assert others.withdrawn == 0


def test_an_answer_may_come_at_once() -> None:
    world = World()
    world.broker.claims = Nobody()
    client = world.connect("c")
    client.send(Pingreq())
    client.expect(Pingresp)
    assert not client.is_paused


def test_an_id_that_the_server_chose_is_claimed_and_told() -> None:
    world = World()
    others = Others(world)
    client = world.open()
    client.send(Connect(""))
    assert others.asked[0][0].client_id == "made-1"
    others.answer()
    assert client.expect(Connack).properties.assigned_client_id == "made-1"


@pytest.mark.parametrize("reason", [0x87, 0x88, 0x89])
def test_a_claim_that_is_refused_is_told(reason: int) -> None:
    world = World()
    others = Others(world)
    client = asking(world)
    others.answer(Refused(reason, "somebody else has it"))
    assert client.is_closed
    assert client.expect(Connack).reason == reason
    assert not world.broker.sessions


def test_a_claim_that_takes_too_long_is_given_up() -> None:
    world = World(connect_timeout_s=10)
    others = Others(world)
    client = asking(world)
    world.pass_time(11)
    assert client.is_closed
    assert client.expect(Connack).reason == ReasonCode.SERVER_UNAVAILABLE
    assert others.withdrawn == 1
    others.answer()  # too late
    assert client.read() == []
    assert not world.broker.sessions


def test_a_client_that_vanishes_takes_its_claim_back() -> None:
    world = World()
    others = Others(world)
    client = asking(world)
    client.vanish()
    assert others.withdrawn == 1
    others.answer()
    assert not world.broker.sessions
    assert not world.broker.connections


def test_of_two_who_claim_the_same_session_the_last_one_answered_has_it() -> None:
    world = World()
    others = Others(world)
    first, second = asking(world), asking(world, clean_start=False)
    others.answer()
    first.expect(Connack)
    others.answer()
    assert second.expect(Connack).session_present
    assert first.expect(Disconnect).reason == ReasonCode.SESSION_TAKEN_OVER
    world.check()


def test_who_is_not_let_in_any_more_when_the_answer_comes_is_refused() -> None:
    world = World()
    others = Others(world)
    client = asking(world)
    replace_gate(world.broker, BuiltInGate(allow_anonymous=False))
    others.answer()
    assert client.expect(Connack).reason == ReasonCode.NOT_AUTHORIZED
    assert client.is_closed
