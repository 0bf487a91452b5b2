"""One door for every publication: what is retained, who gets it, and what its publisher is told."""

from braidmq.messages.message import Message
from braidmq.wire import Publish, ReasonCode, Will
from tests.broker.world import World


def test_the_outcome_says_what_became_of_it() -> None:
    world = World(retained_messages_max=1)
    publish = world.broker.publishing.publish
    nobody = publish(Message(b"t", b"1"))
    assert (nobody.reason, nobody.is_matched) == (ReasonCode.NO_MATCHING_SUBSCRIBERS, False)
    world.connect("s").subscribe("t")
    somebody = publish(Message(b"t", b"2", 1, retain=True))
    assert (somebody.reason, somebody.is_matched, somebody.is_refused) == (0, True, False)
    full = publish(Message(b"u", b"3", 1, retain=True))
    assert (full.reason, full.is_refused, full.lacks_retained_room) == (0x97, True, True)
    assert world.broker.hub.counters.by_name()["dropped_retained_full"] == 1


def test_a_refusal_comes_before_anybody_has_it_and_what_nobody_can_be_told_happens() -> None:
    world = World(retained_messages_max=0)
    subscriber = world.connect("s")
    subscriber.subscribe("t")
    message = Message(b"t", b"x", 1, retain=True)
    assert world.broker.publishing.publish(message).reason == ReasonCode.RETAIN_NOT_SUPPORTED
    assert subscriber.payloads() == []
    world.broker.publishing.publish_anyway(message)
    assert subscriber.payloads() == [b"x"]


def test_what_the_broker_says_counts_towards_no_limit() -> None:
    world = World(retained_messages_max=1)
    for number in range(3):
        world.broker.publishing.publish_anyway(Message(b"$SYS/%d" % number, b"x", retain=True))
    assert len(world.broker.retained) == 3


def test_clients_and_wills_come_through_the_same_door() -> None:
    world = World(retained_messages_max=2)
    subscriber = world.connect("s")
    subscriber.subscribe("#")
    world.connect("p").send(Publish("a", b"1", retain=True))
    world.connect("w", will=Will("b", b"2", retain=True)).vanish()
    world.connect("v", will=Will("c", b"3", retain=True)).vanish()  # no room to retain it; still delivered
    assert subscriber.payloads() == [b"1", b"2", b"3"]
    assert {topic for topic, _ in world.broker.retained.all()} == {b"a", b"b"}
