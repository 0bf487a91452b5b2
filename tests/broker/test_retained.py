"""Retained messages: what they hold, and what they give back."""

from braidmq.wire import Properties, Publish
from tests.broker.world import World

EXPIRING = Properties(message_expiry_s=3600)


def test_overwriting_a_message_that_expires_leaves_nothing_behind() -> None:
    world = World()
    client = world.connect("c")
    for number in range(1_000):
        client.send(Publish("t", b"%d" % number, retain=True, properties=EXPIRING))
    assert len(world.broker.retained._expiries) < 200
    assert world.broker.retained.held_bytes == len("t") + len("999")
    client.send(Publish("t", b"", retain=True))
    assert (len(world.broker.retained), world.broker.retained.held_bytes) == (0, 0)


def test_the_newest_expiry_counts() -> None:
    world = World()
    client = world.connect("c")
    client.send(Publish("later", b"1", retain=True, properties=Properties(message_expiry_s=10)))
    client.send(Publish("later", b"2", retain=True, properties=Properties(message_expiry_s=500)))
    client.send(Publish("never", b"1", retain=True, properties=Properties(message_expiry_s=10)))
    client.send(Publish("never", b"2", retain=True))
    world.pass_time(100)
    assert len(world.broker.retained) == 2
    world.pass_time(500)
    assert [topic for topic, _ in world.broker.retained.all()] == [b"never"]
    assert world.broker.retained.held_bytes == len("never2")
