"""How connections end: every farewell can be written, and whatever happens to it, the connection closes."""

from collections.abc import Callable

import pytest

from braidmq.access.verdicts import Admitted, Pending, Refused
from braidmq.broker.access import BuiltInGate
from braidmq.scram import METHOD, make_credential
from braidmq.wire import (
    V5,
    V31,
    V311,
    Auth,
    Connack,
    Connect,
    Disconnect,
    PacketType,
    Pingreq,
    Pingresp,
    Properties,
    Publish,
    ReasonCode,
    encode,
    nearest_fault,
)
from braidmq.wire.reasons import ALLOWED_REASONS
from tests.broker.world import Client, World
from tests.support.scram import Scram

CREDENTIAL = make_credential("pencil", b"a salt", 4096)
ALIAS_0 = b"\x30\x08\x00\x01t\x03\x23\x00\x00x"


def test_every_fault_has_one_that_the_packet_may_carry() -> None:
    for kind in (PacketType.CONNACK, PacketType.DISCONNECT):
        for reason in range(256):
            carried = nearest_fault(reason, kind)
            assert carried in ALLOWED_REASONS[kind]
            assert carried >= 0x80
            if reason >= 0x80 and reason in ALLOWED_REASONS[kind]:
                assert carried == reason


@pytest.mark.parametrize("version", [V31, V311, V5])
def test_a_second_connect_of_any_version_ends_the_connection(version: int) -> None:
    for second in (V31, V311, V5, 6):
        world = World()
        client = world.connect("c", version)
        frame = bytearray(encode(Connect("c", version=min(second, V5)), V5))
        frame[frame.index(b"MQ") + (6 if second == V31 else 4)] = second
        client.send_bytes(bytes(frame))
        assert client.is_closed
        if version == V5:
            assert client.expect(Disconnect).reason == ReasonCode.PROTOCOL_ERROR  # [MQTT-3.1.0-2]


def test_what_cannot_come_yet_is_not_looked_into() -> None:
    """An alias of 0 has a reason that no CONNACK may carry."""
    world = World(gate=BuiltInGate({"anna": CREDENTIAL}))
    client = world.open()
    client.send(Connect("c", properties=scram_properties(Scram("anna", "pencil").first())))
    client.expect(Auth)
    client.send_bytes(ALIAS_0)
    assert client.is_closed
    assert client.expect(Connack).reason == ReasonCode.PROTOCOL_ERROR


@pytest.mark.parametrize("method", ["x" * 30_000, "\x01" * 30_000, "ü" * 30_000, "\U0001f511" * 16_000])
def test_a_reason_string_is_cut_to_what_fits(method: str) -> None:
    world = World()
    client = world.open()
    client.send(Connect("c", properties=Properties(authentication_method=method)))
    assert client.is_closed
    answer = client.expect(Connack)
    assert answer.reason == ReasonCode.BAD_AUTHENTICATION_METHOD
    assert 0 < len((answer.properties.reason_string or "").encode()) <= 1024


def test_shutting_down_while_a_client_comes_in() -> None:
    world = World(gate=BuiltInGate({"anna": CREDENTIAL}))
    client = world.open()
    client.send(Connect("c", properties=scram_properties(Scram("anna", "pencil").first())))
    client.expect(Auth)
    world.broker.shut_down(world.now)
    assert client.is_closed
    assert client.expect(Connack).reason == ReasonCode.SERVER_UNAVAILABLE


@pytest.mark.parametrize("level", [0, 2, 6, 7, 127, 131, 132])
def test_an_unknown_level_is_refused_in_words_of_mqtt_3(level: int) -> None:
    world = World()
    client = world.open(V311)
    frame = bytearray(encode(Connect("c", version=V311), V311))
    frame[frame.index(b"MQTT") + 4] = level
    client.send_bytes(bytes(frame))
    assert client.is_closed
    assert client.read_bytes() == bytes((0x20, 2, 0, 1))


def scram_properties(data: bytes) -> Properties:
    return Properties(authentication_method=METHOD, authentication_data=data)


class Fickle:
    """A policy that lets a client in once and thinks long about it the next time."""

    def __init__(self, second: Callable[[], Admitted | Refused]) -> None:
        self.second = second
        self.exchanges = 0
        self.checks_topics = False

    def admit(self, connect: object, visitor: object) -> Admitted:
        return Admitted()

    def exchange(self, method: str, connect: object, visitor: object) -> "Fickle":
        self.exchanges += 1
        return self

    def step(self, data: bytes | None) -> Admitted | Pending:
        return Admitted() if self.exchanges == 1 else Pending(self.second, "policy")

    def still_admits(self, admitted: Admitted) -> bool:
        return True

    may_publish = may_subscribe = may_read = lambda *_: True
    overflow = lambda *_: None  # noqa: E731


@pytest.mark.parametrize("reason", [0, 1, 0x84, 0x85, 0x86, 0x87, 0x88, 0x8A, 0x8C, 0x92, 0xFF, 1000])
def test_a_refused_re_authentication_closes(reason: int) -> None:
    """[MQTT-4.12.1-2], also if DISCONNECT has no such reason and the policy's words can't be written."""
    world = World(gate=Fickle(lambda: Refused(reason, "no \0 \ud800 way" + "y" * 70_000)))
    client, other = logged_in(world, "c"), world.connect("other")
    client.subscribe("t")
    client.send(Auth(ReasonCode.RE_AUTHENTICATE, scram_properties(b"again")))
    assert client.is_closed
    assert client.expect(Disconnect).reason in ALLOWED_REASONS[PacketType.DISCONNECT]
    other.send(Publish("t", b"not for strangers"))
    assert client.read() == []


def test_what_comes_while_it_is_decided_waits() -> None:
    world = World(gate=Fickle(Admitted))
    client = logged_in(world, "c")
    client.connection.receive(
        encode(Auth(ReasonCode.RE_AUTHENTICATE, scram_properties(b"again")), V5) + encode(Pingreq(), V5),
        world.now,
    )
    assert client.is_paused
    assert client.read() == []
    world.run_deferred()
    assert [type(packet) for packet in client.read()] == [Auth, Pingresp]
    assert not client.is_paused


def logged_in(world: World, client_id: str) -> Client:
    client = world.open()
    client.send(Connect(client_id, properties=scram_properties(b"first")))
    client.expect(Connack)
    return client


def test_the_connect_is_not_kept() -> None:
    """It may be as large as connect_bytes_max, and has the password in it."""
    world = World()
    client = world.connect("c", username="anna", password=b"secret")
    admission = client.connection.admission
    assert not any(isinstance(getattr(admission, name), Connect) for name in admission.__slots__)
