"""Retained messages after partitions: the same everywhere, the newest of each topic, nothing deleted."""

import pytest

from braidmq.cluster.effects import SendControl
from braidmq.cluster.frames import FrameError, control
from braidmq.cluster.retained import (
    AskTopics,
    Buckets,
    Differing,
    Drop,
    Healing,
    Topics,
    Want,
)
from tests.cluster.healing_world import BrokersShelf, Entry, Shelf, World

DAY_S = 86_400.0


@pytest.mark.parametrize("shelf", [Shelf, BrokersShelf])
@pytest.mark.parametrize("seed", range(12))
def test_all_nodes_end_with_the_newest_of_each_topic(seed: int, shelf: type[Shelf]) -> None:
    world = World(4, seed, shelf=shelf)
    for _ in range(600):
        world.step()
    world.cut_all()
    world.link_all()
    world.run(20)
    expected = {topic: entry.payload for topic, entry in world.published.items() if entry.payload}
    assert expected
    for node in world.nodes.values():
        assert node.shelf.living() == expected


def test_equal_nodes_exchange_two_messages() -> None:
    world = World(2, 1)
    for number in range(50):
        world.publish(1, b"t/%d" % number, b"x")
    world.link(1, 2)
    world.deliver(1, 2)
    world.pass_time(0.2)
    assert len(world.pipes[1, 2].controls) == 1
    world.deliver(1, 2)
    assert len(world.pipes[2, 1].controls) == 1
    world.run(5)
    assert world.nodes[1].part.counts.repaired == world.nodes[2].part.counts.repaired == 0


def test_what_is_on_its_way_is_waited_for_but_not_for_ever() -> None:
    world = World(2, 1)
    part = world.nodes[1].part = Healing(
        1, world.nodes[1].shelf, world.nodes[1].clock, DAY_S, world.now, lambda peer: world.now < busy_until_s
    )  # type: ignore[call-arg,arg-type]
    busy_until_s = world.now + 3.5
    world.link(1, 2)
    for seconds in range(6):
        assert part.counts.rounds == (seconds > 3)
        world.pass_time(1)
    world.cut(1, 2)
    busy_until_s = world.now + 1000
    world.link(1, 2)
    for _ in range(29):
        world.pass_time(1)
    assert part.counts.rounds == 1
    world.pass_time(1)
    assert part.counts.rounds == 2


def test_a_joiner_gets_100_000_messages_in_bounded_steps() -> None:
    world = World(2, 1, skew_s=0.0)
    for number in range(100_000):
        world.nodes[2].shelf.keep(Entry(b"site/%d/value" % number, b"x", (number + 1, 2)))
    frames_bytes_max = 0
    world.link(1, 2)
    begun_s = world.now
    while sum(map(len, world.nodes[1].shelf.buckets)) < 100_000:
        world.pass_time(0.005)
        for pipe in world.pipes.values():
            frames_bytes_max = max([frames_bytes_max, *map(len, pipe.controls)])
        world.deliver(2, 1)
        world.deliver(1, 2)
        assert world.now < begun_s + 5, "of virtual time"
    assert frames_bytes_max < 65_536
    assert max(node.effects_at_a_time_max for node in world.nodes.values()) < 1000


def test_who_was_away_for_too_long_does_not_bring_back_what_was_deleted() -> None:
    world = World(3, 1, tombstone_s=DAY_S)
    world.link_all()
    for name in (b"stays", b"goes", b"changes"):
        world.publish(1, name, b"old")
    world.run(10)
    world.pass_time(120)
    world.cut(1, 3)
    world.cut(2, 3)
    world.publish(3, b"alone", b"from who was away")
    world.publish(1, b"goes", b"")
    world.publish(1, b"changes", b"new")
    for pipe in world.pipes.values():
        if pipe is not world.pipes[1, 2]:
            pipe.entries.clear()  # given up for the dead
    world.run(10)
    for _ in range(60):
        world.pass_time(3600)
    assert b"goes" not in {entry.topic for entry in world.nodes[1].shelf.entries}, "nobody knows of it"
    world.link(1, 3)
    world.run(10)
    world.link(2, 3)
    world.run(10)
    expected = {b"stays": b"old", b"changes": b"new", b"alone": b"from who was away"}
    for node in world.nodes.values():
        assert node.shelf.living() == expected
    assert world.nodes[3].part.counts.dropped == 1


@pytest.mark.parametrize("shelf", [Shelf, BrokersShelf])
@pytest.mark.parametrize("breaks", [False, True])
def test_both_halves_of_a_long_partition_keep_what_they_published(breaks: bool, shelf: type[Shelf]) -> None:
    world = World(2, 1, tombstone_s=DAY_S, shelf=shelf)
    world.link_all()
    for name in (b"both", b"deleted at 1", b"deleted at 2"):
        world.publish(1, name, b"old")
    world.run(10)
    world.pass_time(120)
    world.cut_all()
    world.publish(1, b"deleted at 1", b"")
    world.publish(2, b"deleted at 2", b"")
    world.publish(1, b"new at 1", b"x")
    world.publish(2, b"new at 2", b"x")
    for pipe in world.pipes.values():
        pipe.entries.clear()
    for _ in range(60):
        world.pass_time(3600)
    world.link_all()
    if breaks:  # before anything was compared; the absence was no shorter for that
        world.cut_all()
        world.pass_time(60)
        world.link_all()
    world.run(10)
    for node in world.nodes.values():
        assert node.shelf.living() == {b"both": b"old", b"new at 1": b"x", b"new at 2": b"x"}


def test_a_new_node_gives_and_gets_everything() -> None:
    """It was never away, however old its messages are."""
    world = World(2, 1, tombstone_s=DAY_S)
    world.nodes[1].shelf.keep(Entry(b"a", b"x", (1, 1)))
    world.nodes[2].shelf.keep(Entry(b"b", b"x", (1, 2)))
    world.link_all()
    world.run(10)
    for node in world.nodes.values():
        assert node.shelf.living() == {b"a": b"x", b"b": b"x"}


def test_now_and_then_one_peer_is_compared_without_a_new_link() -> None:
    world = World(3, 1)
    world.link_all()
    world.run(10)
    rounds = world.nodes[1].part.counts.rounds
    world.nodes[2].shelf.keep(Entry(b"b", b"x", (1, 2)))
    for _ in range(2):
        world.pass_time(600)
        world.run(3)
    assert world.nodes[1].part.counts.rounds == rounds + 2
    assert world.nodes[1].shelf.living() == world.nodes[3].shelf.living() == {b"b": b"x"}


def test_a_large_bucket_is_told_in_ranges() -> None:
    shelf, other = Shelf(), Shelf()
    for number in range(5000):
        shelf.buckets[0][number * 1024] = Entry(b"t", b"x", (number + 1, 2))
    part = Healing(2, shelf, World(1, 1).nodes[1].clock, DAY_S, 0.0)  # type: ignore[arg-type]
    told = [
        effect.control for effect in part.received(1, AskTopics((0,)), 0.0) if isinstance(effect, SendControl)
    ]
    assert all(len(control(topics)) < 65_536 for topics in told)
    assert len(told) == 3
    asking = Healing(1, other, World(1, 1).nodes[1].clock, DAY_S, 0.0)  # type: ignore[arg-type]
    other.buckets[0][1024 * 77] = shelf.buckets[0][1024 * 77]
    wanted = [effect for topics in told for effect in asking.received(2, topics, 0.0)]
    assert (
        sum(len(effect.control.topics) // 8 for effect in wanted if isinstance(effect, SendControl)) == 4999
    )


@pytest.mark.parametrize(
    "wrong",
    [
        Buckets(b"short", 0),
        Differing((5000,), 0),
        AskTopics(tuple(range(100))),
        AskTopics((1024,)),
        Topics(-1, 0, 1, b""),
        Topics(1, 0, 1, b"cut"),
        Want(b"cut"),
        Drop(b"cut"),
    ],
)
def test_nonsense_ends_the_link(wrong: object) -> None:
    part = World(2, 1).nodes[1].part
    with pytest.raises(FrameError):
        list(part.received(2, wrong, 0.0))
