"""Traces: each step of a message shows, with its reason, to whoever asked for it and to nobody else."""

from typing import Any

import pytest

from braidmq.broker.events import Acknowledged, ConnectRefused, Delivered, Event, MemberSelected, Published
from braidmq.broker.tracing import Trace, add_trace, remove_trace
from braidmq.wire import (
    V311,
    Connack,
    Connect,
    Properties,
    Puback,
    Publish,
    Subscribe,
    Subscription,
    Unsubscribe,
    Will,
)
from tests.broker.world import World


def kind_of(event: Event) -> str:
    return str(event.__struct_config__.tag)


class Onlooker:
    """Somebody who writes down what is told."""

    def __init__(self, world: World, *, client_id: str | None = None, filter: str | None = None) -> None:
        self.events: list[Any] = []
        self.trace = Trace(self.events.append, client_id=client_id, filter=filter)
        self._broker = world.broker
        add_trace(self._broker, self.trace)

    def leave(self) -> None:
        remove_trace(self._broker, self.trace)

    def said(self) -> list[tuple[str, str | None, str | None]]:
        """(kind, client, why) of what was told since the last time."""
        found = [
            (kind_of(event), getattr(event, "client_id", None), getattr(event, "why", None))
            for event in self.events
        ]
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
    published, delivered, acknowledged = onlooker.events
    assert published == Published(
        topic="a/b", publisher="writer", qos=1, payload_bytes=2, payload=b"12", packet_id=7
    )
    assert delivered == Delivered(
        topic="a/b", publisher="writer", qos=1, payload_bytes=2, client_id="reader", packet_id=sent.packet_id
    )
    assert acknowledged == Acknowledged(
        client_id="reader", packet="PUBACK", packet_id=sent.packet_id, topic="a/b", publisher="writer"
    )


def test_a_client_is_followed_through_its_life() -> None:
    world = World()
    onlooker = Onlooker(world, client_id="me")
    me, other = world.connect("me", will=Will("gone", b"")), world.connect("other")
    me.send(Subscribe(1, (Subscription("mine"), Subscription("wrong/#/filter"))), Unsubscribe(2, ("mine",)))
    other.subscribe("gone", "others")
    other.send(Publish("others", b"not about me"))
    me.vanish()
    told = [
        (kind_of(e), getattr(e, "filter", None), getattr(e, "reason", None) or getattr(e, "why", None))
        for e in onlooker.events
    ]
    assert told == [
        ("session_established", None, None),
        ("subscribed", "mine", None),
        ("subscribed", "wrong/#/filter", 0x8F),
        ("unsubscribed", "mine", None),
        ("disconnected", None, "cut by the test"),
        ("will_sent", None, None),
        ("delivered", None, None),  # its will, to the other
        ("session_ended", None, "not_kept"),
    ]


def test_why_a_message_did_not_arrive_is_told() -> None:
    world = World(queue_messages_max=1, overflow="refuse")
    for name in ("away", "away too"):
        world.connect(name, V311, clean_start=False).subscribe("a" if name == "away" else "b", qos=1)
        world.broker.sessions[name].outlet.lost("cut")  # type: ignore[union-attr]
    writer = world.connect("writer")
    onlooker = Onlooker(world, client_id="writer")
    writer.send(*(Publish("a", b"x", 1, packet_id=number) for number in (1, 2)), Publish("a", b"x"))
    writer.send(Publish("b", b"x", 2, packet_id=3), Publish("b", b"x", 2, packet_id=4))
    writer.send(Publish("$SYS/a", b"x"))
    assert [said for said in onlooker.said() if said[0] != "published"] == [
        ("queued", "away", "the client is away"),
        ("dropped", "away", "queue_full"),
        ("dropped", "away", "away"),
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
    chosen = [(event.client_id, event.group) for event in onlooker.events if type(event) is MemberSelected]
    assert chosen == [("m1", "crew"), ("m2", "crew")]
    assert [said[:2] for said in onlooker.said()[:3]] == [
        ("published", None),
        ("member_selected", "m1"),
        ("delivered", "m1"),
    ]


def test_a_client_that_is_not_let_in_is_told() -> None:
    world = World()
    onlooker = Onlooker(world, client_id="liar")
    client = world.open()
    client.send(Connect("liar", will=Will("$SYS/x", b"")))
    assert client.expect(Connack).reason == 0x87
    [event] = onlooker.events
    assert (type(event), event.reason) == (ConnectRefused, 0x87)


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
    assert world.broker.hub.watching.audience is None
    assert world.broker.hub.watching.message_audience is None
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
    assert [(kind_of(event), event.topic) for event in onlooker.events] == [
        ("delivered", "news"),
        ("member_selected", "jobs"),
        ("delivered", "jobs"),
        ("acknowledged", "news"),
        ("acknowledged", "jobs"),
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
    kinds = [kind_of(event) for event in onlooker.events]
    assert kinds == ["published", "delivered"] * 2 + ["acknowledged"] * 2
    assert {event.topic for event in onlooker.events} == {"seen"}


def test_what_leaves_a_queue_later_shows_and_what_expires_there() -> None:
    world = World()
    away = world.connect("away", V311, clean_start=False)
    away.subscribe("a", qos=1)
    away.vanish()
    onlooker = Onlooker(world, filter="a")
    expiring = Publish("a", b"old", 1, packet_id=1, properties=Properties(message_expiry_s=5))
    world.connect("writer").send(expiring, Publish("a", b"new", 1, packet_id=2))
    onlooker.said()
    world.pass_time(6)
    world.resume("away", V311)
    assert onlooker.said() == [("dropped", "away", "expired"), ("delivered", "away", None)]
    world.broker.sessions["away"].outlet.lost("cut")  # type: ignore[union-attr]
    world.resume("away", V311)
    [again] = onlooker.events
    assert (again.client_id, again.is_repeated) == ("away", True)
