"""Retained messages: what they hold, and what they give back."""

import gc
import tracemalloc
from collections.abc import Iterator

from braidmq.broker.receiver import Target
from braidmq.wire import (
    V5,
    Properties,
    Publish,
    Suback,
    Subscribe,
    Subscription,
    Unsuback,
    Unsubscribe,
    encode,
)
from tests.broker.world import Client, TickingStopwatch, World

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


def read_all(client: Client) -> list[Publish]:
    """What the client gets until nothing more comes."""
    found: list[Publish] = []
    while True:
        packets = client.read()
        found += [packet for packet in packets if isinstance(packet, Publish)]
        client.world.run_deferred()
        if not packets and not len(client.connection.output):
            return found


def retain(world: World, count: int) -> None:
    client = world.connect("writer")
    client.send(*(Publish(f"r/{number}", b"%d" % number, retain=True) for number in range(count)))
    client.vanish()


def test_many_replays_cost_no_more_memory_than_one() -> None:
    """Twenty subscriptions to everything, by a client that reads nothing."""
    world = World(output_bytes_max=4096)
    retain(world, 20_000)
    client = world.connect("c")
    gc.collect()
    tracemalloc.start()
    for packet_id in range(1, 21):
        client.send(Subscribe(packet_id, (Subscription("r/#"), Subscription("r/+"), Subscription("#"))))
    gc.collect()
    held_bytes = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert held_bytes < 200_000
    assert len({packet.topic for packet in read_all(client)}) == 20_000


def test_a_filter_that_is_named_often_is_replayed_once() -> None:
    world = World()
    retain(world, 10)
    client = world.connect("c")
    client.send(Subscribe(1, (Subscription("r/#"),) * 50))
    suback, *rest = client.read()
    assert isinstance(suback, Suback)
    assert len(suback.reasons) == 50
    assert len(rest) == 10


def test_a_filter_that_is_given_up_is_replayed_no_longer() -> None:
    world = World()
    retain(world, 1000)
    client = world.connect("c")
    client.connection.receive(encode(Subscribe(1, (Subscription("r/#"),)), V5), world.now)
    before = client.read()
    client.connection.receive(encode(Unsubscribe(2, ("r/#",)), V5), world.now)
    *rest, answer = client.read()
    assert isinstance(answer, Unsuback)
    assert 0 < len(before) + len(rest) < 1000
    assert read_all(client) == []


def test_a_shared_subscription_that_is_given_up_stops_no_replay() -> None:
    world = World()
    retain(world, 1000)
    client = world.connect("c")
    client.connection.receive(encode(Subscribe(1, (Subscription("r/#"),)), V5), world.now)
    client.connection.receive(encode(Subscribe(2, (Subscription("$share/g/r/#"),)), V5), world.now)
    client.connection.receive(encode(Unsubscribe(3, ("$share/g/r/#",)), V5), world.now)
    assert len(read_all(client)) == 1000


def test_a_replay_goes_on_however_slow_the_machine_is() -> None:
    world = World(stopwatch=TickingStopwatch(1.0))
    retain(world, 10)
    client = world.connect("c")
    client.connection.receive(encode(Subscribe(1, (Subscription("r/#"),)), V5), world.now)
    turns = 0
    while world.deferred and turns < 100:
        world.deferred.pop(0)()
        turns += 1
    assert len(client.payloads()) == 10


def test_what_changes_during_a_replay() -> None:
    """Each message comes once: as a retained one if it was there, as a new one if it came since."""
    world = World()
    retain(world, 2000)
    client, writer = world.connect("c"), world.connect("writer")
    client.connection.receive(encode(Subscribe(1, (Subscription("r/#"),)), V5), world.now)
    writer.connection.receive(
        b"".join(
            encode(packet, V5)
            for packet in (
                *(Publish(f"r/{number}", b"changed", retain=True) for number in range(0, 2000, 7)),
                *(Publish(f"r/{number}", b"", retain=True) for number in range(1, 2000, 7)),
                *(Publish(f"r/{number}", b"new", retain=True) for number in range(2000, 2100)),
            )
        ),
        world.now,
    )
    found = read_all(client)
    replayed = [packet for packet in found if packet.retain]
    assert len({packet.topic for packet in replayed}) == len(replayed)
    assert not {packet.payload for packet in replayed} & {b"changed", b"new", b""}
    untouched = {f"r/{number}" for number in range(2000) if number % 7 > 1}
    assert untouched <= {packet.topic for packet in replayed}
    changed = [packet.topic for packet in found if packet.payload == b"changed"]
    assert changed == [f"r/{number}" for number in range(0, 2000, 7)]
    world.broker.retained._tree.check()


def test_a_reader_that_may_read_nothing_holds_up_nobody() -> None:
    """Looking is work, too: it is done over turns."""
    world = World()
    client = world.connect("c")
    target = Target(client.connection.session, 0)
    looked_at = 0

    def nothing() -> Iterator[None]:
        nonlocal looked_at
        while looked_at < 2000:
            looked_at += 1
            yield None

    client.connection.session.send_retained(b"r/#", nothing(), target)
    assert 0 < looked_at < 500
    world.run_deferred()
    assert looked_at == 2000
