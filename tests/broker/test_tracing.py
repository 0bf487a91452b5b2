"""Traces: each step of a message shows, with its reason, to whoever asked for it and to nobody else."""

import pytest

from braidmq.broker.tracing import Trace, TraceEvent, add_trace, remove_trace
from braidmq.wire import V311, Connack, Connect, Puback, Publish, Subscribe, Subscription, Unsubscribe, Will
from tests.broker.world import World


class Onlooker:
    """Somebody who writes down what is told."""

    def __init__(self, world: World, *, client_id: str | None = None, filter: str | None = None) -> None:
        self.events: list[TraceEvent] = []
        self.trace = Trace(self.events.append, client_id=client_id, filter=filter)
        self._broker = world.broker
        add_trace(self._broker, self.trace)

    def leave(self) -> None:
        remove_trace(self._broker, self.trace)

    def said(self) -> list[tuple[str, str | None, str | None]]:
        """(kind, client, why) of what was told since the last time."""
        found = [(event.kind, event.client_id, event.why) for event in self.events]
        self.events.clear()
        return found


def test_a_message_is_followed_from_its_publisher_to_the_acknowledgement() -> None:
    world = World()
    reader, writer = world.connect("reader"), world.connect("writer")
    reader.subscribe("a/+", qos=1)
    onlooker = Onlooker(world, filter="a/#")
    writer.send(Publish("a/b", b"12", 1, packet_id=7), Publish("else", b"x", 1, packet_id=8))
    sent = next(packet for packet in reader.read() if isinstance(packet, Publish))
    reader.send(Puback(sent.packet_id))
    received, delivered, acknowledged = onlooker.events
    assert (received.kind, received.client_id, received.packet_id) == ("received", "writer", 7)
    assert (received.topic, received.qos, received.payload_bytes) == ("a/b", 1, 2)
    assert (delivered.kind, delivered.client_id, delivered.publisher) == ("sent", "reader", "writer")
    assert (acknowledged.kind, acknowledged.why, acknowledged.topic) == ("acknowledged", "PUBACK", "a/b")


def test_a_client_is_followed_through_its_life() -> None:
    world = World()
    onlooker = Onlooker(world, client_id="me")
    me, other = world.connect("me", will=Will("gone", b"")), world.connect("other")
    me.send(Subscribe(1, (Subscription("mine"), Subscription("wrong/#/filter"))), Unsubscribe(2, ("mine",)))
    other.subscribe("gone", "others")
    other.send(Publish("others", b"not about me"))
    me.vanish()
    assert [(e.kind, e.filter, e.reason) for e in onlooker.events] == [
        ("connected", None, None),
        ("subscribed", "mine", 0),
        ("subscribed", "wrong/#/filter", 0x8F),
        ("unsubscribed", "mine", 0),
        ("disconnected", None, None),
        ("sent", None, None),  # its will, to the other
    ]
    assert onlooker.events[4].why == "cut by the test"


def test_why_a_message_did_not_arrive_is_told() -> None:
    world = World(queue_messages_max=1)
    for name in ("away", "away too"):
        world.connect(name, V311, clean_start=False).subscribe("a" if name == "away" else "b", qos=1)
        world.broker.sessions[name].outlet.lost("cut")  # type: ignore[union-attr]
    writer = world.connect("writer")
    onlooker = Onlooker(world, client_id="writer")
    writer.send(*(Publish("a", b"x", 1, packet_id=number) for number in (1, 2)), Publish("a", b"x"))
    writer.send(Publish("b", b"x", 2, packet_id=3), Publish("b", b"x", 2, packet_id=4))
    writer.send(Publish("$SYS/a", b"x"))
    assert [said for said in onlooker.said() if said[0] != "received"] == [
        ("queued", "away", "the client is away"),
        ("dropped", "away", "queue_full"),
        ("dropped", "away", "the client is away, and QoS 0 is not queued"),
        ("queued", "away too", "the client is away"),
        ("dropped", None, "queue_full"),
        ("dropped", None, "not_authorized"),
    ]


def test_the_member_of_a_group_that_was_chosen_is_told() -> None:
    world = World()
    for name in ("m1", "m2"):
        world.connect(name).subscribe("$share/crew/jobs", qos=0)
    onlooker = Onlooker(world, filter="jobs")
    world.connect("boss").send(Publish("jobs"), Publish("jobs"))
    told = [(event.client_id, event.group) for event in onlooker.events if event.kind == "sent"]
    assert told == [("m1", "crew"), ("m2", "crew")]


def test_a_client_that_is_not_let_in_is_told() -> None:
    world = World()
    onlooker = Onlooker(world, client_id="liar")
    client = world.open()
    client.send(Connect("liar", will=Will("$SYS/x", b"")))
    assert client.expect(Connack).reason == 0x87
    [event] = onlooker.events
    assert (event.kind, event.reason) == ("refused", 0x87)


@pytest.mark.parametrize("count", [1, 3])
def test_what_is_sent_is_the_same_with_a_trace_and_without(count: int) -> None:
    def run(traced: bool) -> bytes:
        world = World()
        readers = [world.connect(f"r{number}") for number in range(2)]
        for number, reader in enumerate(readers):
            reader.subscribe("a/#", "$share/g/b", qos=number)
        onlooker = Onlooker(world, filter="#") if traced else None
        writer = world.connect("writer")
        for number in range(1, count + 1):
            topic = "a/b" if number % 2 else "b"
            writer.send(Publish(topic, b"0"), Publish(topic, b"1", 1, packet_id=number))
        assert onlooker is None or onlooker.events
        return b"|".join(client.read_bytes() for client in (*readers, writer))

    assert run(True) == run(False)


def test_without_an_onlooker_everybody_is_fast_again() -> None:
    world = World()
    before = world.connect("before")
    first, second = Onlooker(world, client_id="x"), Onlooker(world, filter="y")
    during = world.connect("during")
    assert not before.connection.takes_fast_lane
    assert not during.connection.takes_fast_lane
    first.leave()
    first.leave()
    assert not before.connection.takes_fast_lane
    second.leave()
    assert world.broker.router.observer is None
    assert before.connection.takes_fast_lane
    assert during.connection.takes_fast_lane
    assert world.connect("after").connection.takes_fast_lane


def test_what_a_followed_client_is_sent_shows_whoever_publishes_it() -> None:
    world = World()
    me, other = world.connect("me"), world.connect("other")
    for client in (me, other):
        client.subscribe("news", "$share/crew/jobs", qos=1)
    onlooker = Onlooker(world, client_id="me")
    writer = world.connect("writer")
    writer.send(*(Publish(topic, b"x", 1, packet_id=1) for topic in ("news", "jobs", "jobs")))
    for packet in me.read():
        me.send(Puback(packet.packet_id))
    for packet in other.read():
        other.send(Puback(packet.packet_id))
    assert [(event.kind, event.topic, event.group) for event in onlooker.events] == [
        ("sent", "news", None),
        ("sent", "jobs", "crew"),
        ("acknowledged", "news", None),
        ("acknowledged", "jobs", None),
    ]


def test_acknowledgements_of_other_messages_in_between_are_not_told() -> None:
    world = World()
    reader, writer = world.connect("reader"), world.connect("writer")
    reader.subscribe("#", qos=2)
    onlooker = Onlooker(world, filter="seen")
    topics = ["else", "seen", "else", "seen", "else"]
    writer.send(*(Publish(topic, b"x", 1, packet_id=number) for number, topic in enumerate(topics, start=1)))
    for packet in reversed(reader.read()):
        reader.send(Puback(packet.packet_id))
    assert [event.kind for event in onlooker.events] == ["received", "sent"] * 2 + ["acknowledged"] * 2
    assert {event.topic for event in onlooker.events} == {"seen"}
