"""Observers: what happens is told once, in order, to those who want it; their mistakes harm nobody."""

from collections import Counter
from typing import Any

import msgspec
import pytest

from braidmq.access.rules import Rule, Rules
from braidmq.broker import events
from braidmq.broker.access import BuiltInGate
from braidmq.broker.counters import DROP_NAMES
from braidmq.broker.events import (
    EVERY_MESSAGE,
    OF_MESSAGES,
    Dropped,
    Event,
    PacketRead,
    PacketSent,
    QosCompleted,
    Queued,
    Retained,
    SessionEnded,
    SessionEstablished,
)
from braidmq.broker.rights import replace_gate
from braidmq.wire import (
    V5,
    V311,
    Connect,
    Disconnect,
    Pingreq,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Subscribe,
    Subscription,
    Unsubscribe,
    Will,
)
from tests.broker.world import World

KINDS = frozenset(
    kind
    for kind in vars(events).values()
    if isinstance(kind, type) and issubclass(kind, Event) and kind not in (Event, events.AboutMessage)
)
TOLD_BY_THE_NODE = {events.Started, events.Stopped}


class Recorder:
    """An observer that writes down what it is told."""

    def __init__(self, world: World, *wants: type[Event]) -> None:
        self.wants = frozenset(wants) or KINDS
        self.events: list[Any] = []
        world.broker.add_observer(self)

    def observe(self, event: Event) -> None:
        self.events.append(event)

    def kinds(self) -> list[str]:
        return [type(event).__name__ for event in self.events]


def live_a_little(world: World) -> None:
    """Something of everything that can happen in the core."""
    reader, other = world.connect("reader"), world.connect("other")
    reader.subscribe("a/#", "$share/crew/jobs", qos=2)
    reader.send(Unsubscribe(2, ("a/none",)))
    other.send(Publish("a/1", b"x", retain=True), Publish("a/1", b"y", 1, packet_id=1), Publish("jobs", b"z"))
    other.send(Publish("a/2", b"x", 2, packet_id=2), Pubrel(2))
    for packet in [packet for packet in reader.read() if isinstance(packet, Publish) and packet.qos]:
        answers = [Puback(packet.packet_id)] if packet.qos == 1 else []
        reader.send(*(answers or [Pubrec(packet.packet_id), Pubcomp(packet.packet_id)]))
    last_wish = Will("a/will", b"gone", 1, retain=False)
    brief = world.connect("brief", properties=Properties(session_expiry_s=5), will=last_wish)
    brief.subscribe("a/#", qos=1)
    brief.vanish()
    other.send(Publish("a/3", b"kept", 1, packet_id=3), Publish("a/3", b"not kept"))
    world.pass_time(6)
    world.open().send(Connect("liar", will=Will("$SYS/x", b"")))
    reader.send(Pingreq(), Disconnect(0))


def test_everything_that_the_core_can_tell_is_told() -> None:
    world = World()
    recorder = Recorder(world)
    live_a_little(world)
    assert {type(event) for event in recorder.events} == KINDS - TOLD_BY_THE_NODE
    completed = Counter((e.is_inbound, e.qos) for e in recorder.events if isinstance(e, QosCompleted))
    assert completed == {(True, 1): 2, (True, 2): 1, (False, 1): 1, (False, 2): 1}
    [ended] = [e for e in recorder.events if isinstance(e, SessionEnded) and e.client_id == "brief"]
    assert ended.why == "expired"


def test_a_client_is_told_of_in_the_order_of_its_life() -> None:
    world = World()
    recorder = Recorder(world, *(KINDS - {PacketRead, PacketSent}))
    me = world.connect("me")
    me.send(Subscribe(1, (Subscription("a"),)), Publish("a", b"x"), Disconnect(0))
    assert recorder.kinds() == [
        "ConnectReceived",
        "Authenticated",
        "SessionEstablished",
        "SubscribeReceived",
        "Subscribed",
        "Published",
        "Delivered",
        "Disconnected",
        "SessionEnded",
    ]


@pytest.mark.parametrize("version", [V311, V5])
def test_each_packet_is_told_with_its_size(version: int) -> None:
    world = World()
    recorder = Recorder(world, PacketRead, PacketSent)
    me = world.connect("me", version)
    me.send(Subscribe(1, (Subscription("a", 1),)), Publish("a", b"x", 1, packet_id=1), Pingreq())
    me.send(Puback(1))
    counters = world.broker.hub.counters.by_name()
    sent = [event for event in recorder.events if isinstance(event, PacketSent)]
    read = [event for event in recorder.events if isinstance(event, PacketRead)]
    assert [event.packet for event in read] == ["CONNECT", "SUBSCRIBE", "PUBLISH", "PINGREQ", "PUBACK"]
    assert [event.packet for event in sent] == ["CONNACK", "SUBACK", "PUBLISH", "PUBACK", "PINGRESP"]
    assert counters["packets_received"] == len(read)
    assert counters["packets_sent"] == len(sent)
    assert sum(event.size_bytes for event in read) == counters["bytes_received"]
    # The CONNACK was read by `connect`; the rest waits in the output.
    assert sum(event.size_bytes for event in sent[1:]) == len(me.read_bytes())
    assert {event.client_id for event in recorder.events[1:]} == {"me"}


def test_each_drop_is_told_and_counted_once() -> None:
    world = World(queue_messages_max=1)
    recorder = Recorder(world, Dropped)
    away = world.connect("away", V311, clean_start=False)
    away.subscribe("a", qos=1)
    away.vanish()
    brief = world.connect("brief", properties=Properties(session_expiry_s=5))
    brief.subscribe("b", qos=2)
    brief.vanish()
    writer = world.connect("writer")
    expiring = Publish("a", b"x", 1, packet_id=1, properties=Properties(message_expiry_s=1))
    writer.send(expiring, Publish("a", b"x", 1, packet_id=2), Publish("a", b"x"), Publish("$SYS/x", b""))
    writer.send(Publish("b", b"x", 2, packet_id=3), Publish("b", b"x", 2, packet_id=4))
    world.pass_time(6)
    world.resume("away", V311)
    told = Counter(event.why for event in recorder.events)
    counters = world.broker.hub.counters.by_name()
    assert told == {"expired": 1, "queue_full": 2, "away": 1, "not_authorized": 1, "session_ended": 1}
    assert told == Counter({name: counters[f"dropped_{name}"] for name in DROP_NAMES})
    assert {event.client_id for event in recorder.events} == {"away", "brief", None}


def test_a_revoked_right_is_told() -> None:
    world = World()
    world.connect("reader").subscribe("a", qos=1)
    recorder = Recorder(world, events.Unsubscribed)
    replace_gate(world.broker, BuiltInGate(rules=Rules([Rule("b", allow=("subscribe",))])))
    assert [(event.filter, event.reason) for event in recorder.events] == [("a", 0x87)]


@pytest.mark.parametrize("wanted", [SessionEstablished, Retained, Queued, QosCompleted])
def test_only_who_wants_to_see_each_message_makes_them_slower(wanted: type[Event]) -> None:
    assert wanted not in EVERY_MESSAGE
    world = World()
    before = world.connect("before")
    recorder = Recorder(world, wanted)
    assert before.connection.takes_fast_lane
    assert (world.broker.hub.watching.message_audience is None) is (wanted not in OF_MESSAGES)
    every = Recorder(world, events.Published)
    assert not before.connection.takes_fast_lane
    world.broker.remove_observer(every)
    assert world.connect("after").connection.takes_fast_lane
    world.broker.remove_observer(recorder)
    assert world.broker.hub.watching.audience is None


def test_nobody_is_told_what_they_do_not_want() -> None:
    world = World()
    recorder, all_seeing = Recorder(world, Retained), Recorder(world)
    live_a_little(world)
    assert {type(event) for event in recorder.events} == {Retained}
    assert len(all_seeing.events) > len(recorder.events)


class Failing:
    wants = KINDS

    def observe(self, event: Event) -> None:
        raise RuntimeError(type(event).__name__)


def test_an_observer_that_fails_harms_nobody() -> None:
    def run(*, failing: bool) -> tuple[bytes, int]:
        world = World()
        if failing:
            world.broker.add_observer(Failing())
        reader, writer = world.connect("reader"), world.connect("writer")
        reader.subscribe("a", qos=1)
        writer.send(Publish("a", b"0"), Publish("a", b"1", 1, packet_id=1, retain=True), Pingreq())
        sent = reader.read_bytes() + writer.read_bytes()
        return sent, world.broker.audience.failures

    calm, none = run(failing=False)
    assert none == 0
    sent, failures = run(failing=True)
    assert sent == calm
    assert failures > 10


def test_the_others_hear_what_a_failing_one_heard() -> None:
    world = World()
    world.broker.add_observer(Failing())
    recorder = Recorder(world, SessionEstablished)
    world.connect("me")
    assert [event.client_id for event in recorder.events] == ["me"]


def test_events_are_json_that_says_what_it_is() -> None:
    event = SessionEstablished(client_id="me", peer="127.0.0.1:9", user="ada", is_resumed=True)
    decoded = msgspec.json.decode(msgspec.json.encode(event))
    expected = {"client_id": "me", "peer": "127.0.0.1:9", "user": "ada", "is_resumed": True}
    assert decoded == {"kind": "session_established", **expected}
