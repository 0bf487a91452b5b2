"""The chain of authenticators, and a broker that waits for their decision without stopping for the others."""

import pytest

from braidmq.access.verdicts import Admitted, Claim, Refused, Slow
from braidmq.broker.access import BuiltInGate, Errand
from braidmq.wire import Connack, Connect, Pingreq, Pingresp, Suback, Subscribe, Subscription
from tests.broker.world import World

Decision = Admitted | Refused | None
NO = Refused(0x86, "no")


class Quick:
    """Decides at once."""

    def __init__(self, decision: Decision) -> None:
        self.decision = decision
        self.asked: list[Claim] = []

    def judge(self, claim: Claim) -> Admitted | Refused | Slow | None:
        self.asked.append(claim)
        return self.decision

    def still_holds(self, admitted: Admitted) -> bool:
        return True


class Late(Quick):
    """Decides when its work is done."""

    def judge(self, claim: Claim) -> Slow:
        self.asked.append(claim)
        return Slow(lambda: self.decision)


class Patient:
    """Does the work of others when the test says so."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.waiting: list[Errand] = []
        world.broker.run_aside = self.waiting.append

    def work(self) -> None:
        for errand in self.waiting:
            errand.run()
        self.waiting.clear()
        self.world.run_deferred()
        self.world.broker.hub.end_turn()


def answer(*chain: Quick, username: str | None = "ada", allow_anonymous: bool = False) -> Connack:
    world = World(gate=BuiltInGate(authenticators=chain, allow_anonymous=allow_anonymous))
    client = world.open()
    client.send(Connect("c", username=username, password=b"x" if username else None))
    found = client.read()[0]
    assert isinstance(found, Connack)
    return found


@pytest.mark.parametrize("kind", [Quick, Late])
def test_the_first_decision_counts(kind: type[Quick]) -> None:
    yes = Admitted("ada")
    assert answer(kind(yes), kind(NO)).reason == 0
    assert answer(kind(None), kind(yes)).reason == 0
    assert answer(kind(None), Quick(None), kind(None), Quick(yes)).reason == 0
    assert answer(kind(NO), kind(yes)).reason == 0x86
    assert answer(kind(None), kind(NO)).reason == 0x86


@pytest.mark.parametrize("kind", [Quick, Late])
def test_who_is_known_to_nobody_stays_out_also_where_strangers_may_come_in(kind: type[Quick]) -> None:
    assert answer(kind(None)).reason == 0x86
    assert answer(kind(None), allow_anonymous=True).reason == 0x86


def test_a_client_that_claims_nothing_is_anonymous() -> None:
    asked = Quick(Admitted("x"))
    assert answer(asked, username=None, allow_anonymous=True).reason == 0
    assert answer(asked, username=None).reason == 0x87
    assert asked.asked == []


def test_what_a_client_sends_before_the_decision_waits_for_it() -> None:
    world = World(gate=BuiltInGate(authenticators=[Late(Admitted("ada"))], allow_anonymous=True))
    patient = Patient(world)
    client = world.open()
    client.send(Connect("c", username="ada"), Subscribe(1, (Subscription("t"),)), Pingreq())
    assert client.is_paused
    assert client.read() == []
    other = world.connect("other")
    other.send(Pingreq())
    other.expect(Pingresp)
    patient.work()
    assert [type(packet) for packet in client.read()] == [Connack, Suback, Pingresp]
    assert not client.is_paused
    assert world.broker.sessions["c"].owner == "ada"


def test_a_refusal_that_comes_late_closes() -> None:
    world = World(gate=BuiltInGate(authenticators=[Late(NO)]))
    patient = Patient(world)
    client = world.open()
    client.send(Connect("c", username="ada"), Pingreq())
    patient.work()
    assert client.expect(Connack).reason == 0x86
    assert client.is_closed
    assert not world.broker.sessions


@pytest.mark.parametrize("decision", [Admitted("ada"), NO])
def test_a_decision_about_a_client_that_has_gone_changes_nothing(decision: Admitted | Refused) -> None:
    world = World(gate=BuiltInGate(authenticators=[Late(decision)]))
    patient = Patient(world)
    gone, timed_out = world.open(), world.open()
    for client in (gone, timed_out):
        client.send(Connect("c", username="ada"))
    gone.vanish()
    world.pass_time(11)
    assert timed_out.is_closed
    patient.work()
    assert not world.broker.sessions
    assert not world.broker.connections
