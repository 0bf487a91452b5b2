"""Routing tables: what they keep, against a brute-force reading of the order of tables."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from braidmq.overlay.keys import Kind, key_of, kind_of, topic_of
from braidmq.overlay.table import Peer, RoutingTable, Shape, Side

TOPICS = ("a", "m", "z")


def peer(topic: str, kind: Kind, pid: int, boot: int = 0) -> Peer:
    return Peer(key_of(topic, kind, pid), f"b{pid}", boot)


def filled(seed: int, size: int, near_count: int = 1, entries_max: int | None = None) -> RoutingTable:
    rng = Random(seed)
    owner = peer("m", rng.choice(list(Kind)), rng.randrange(1000))
    table = RoutingTable(owner, entries_max or size + 5, near_count)
    while len(table) < size:
        table.add(peer(rng.choice(TOPICS), rng.choice(list(Kind)), rng.randrange(1000)))
    return table


def worth(table: RoutingTable, gone: int) -> tuple[int, ...]:
    """The table without one entry, as the propositions see it: greater is better."""
    levels = [level for index, level in enumerate(table.levels) if index != gone]
    counts = [levels.count(level) for level in range(max(levels) + 1)]
    fullest = [level for level, count in enumerate(counts) if count == max(counts)]
    subscribers = sum(is_subscriber(table, index) for index in range(len(table)) if index != gone)
    return (max(levels), -counts.count(0), subscribers, -max(counts), -len(fullest), min(fullest))


def is_subscriber(table: RoutingTable, index: int) -> bool:
    key = table.keys[index]
    return topic_of(key) == topic_of(table.owner.key) and kind_of(key) is Kind.SUBSCRIBER


def best_victims(table: RoutingTable) -> set[int]:
    sticky = {one.key for side in Side for one in table.near(side)}
    worths = {index: worth(table, index) for index in range(len(table)) if table.keys[index] not in sticky}
    return {index for index, value in worths.items() if value == max(worths.values())}


@settings(max_examples=300)
@given(st.integers(0, 10**9), st.integers(8, 20), st.integers(1, 3))
def test_the_victim_is_one_of_the_best_by_brute_force(seed: int, size: int, near_count: int) -> None:
    table = filled(seed, size, near_count)
    best, victim = best_victims(table), table.victim()
    assert victim in best
    same_level = [
        index
        for index in best
        if table.levels[index] == table.levels[victim]
        and is_subscriber(table, index) == is_subscriber(table, victim)
    ]
    own = sum(key < table.owner.key for key in table.keys)
    left, right = [i for i in same_level if i < own], [i for i in same_level if i >= own]
    assert victim == (max(right) if len(right) > len(left) else min(left))


@given(st.integers(0, 10**9), st.integers(10, 30), st.integers(1, 4))
def test_tables_stay_within_their_size_and_keep_the_nearest(seed: int, most: int, near_count: int) -> None:
    rng = Random(seed)
    owner = peer("m", Kind.SUBSCRIBER, 500)
    table = RoutingTable(owner, most, near_count)
    offered = set()
    for _ in range(80):
        one = peer(rng.choice(TOPICS), rng.choice(list(Kind)), rng.randrange(1000))
        table.add(one)
        if one.key != owner.key:
            offered.add(one.key)
        table.check()
    left = sorted(key for key in offered if key < owner.key)[::-1][:near_count]
    right = sorted(key for key in offered if key > owner.key)[:near_count]
    assert [one.key for one in table.near(Side.LEFT)] == left
    assert [one.key for one in table.near(Side.RIGHT)] == right


@given(st.integers(0, 10**9), st.integers(1, 60))
def test_a_plain_table_holds_the_nearest_of_each_level(seed: int, size: int) -> None:
    rng = Random(seed)
    owner = peer("m", Kind.SUBSCRIBER, 500)
    plain, everything = RoutingTable(owner, 60, 1, Shape.SKIP_GRAPH), RoutingTable(owner, 1000)
    for _ in range(size):
        one = peer(rng.choice(TOPICS), rng.choice(list(Kind)), rng.randrange(1000))
        plain.add(one)
        everything.add(one)
    wanted = {everything.neighbour(side, level) for side in Side for level in range(65)} - {None}
    assert set(plain) == wanted


@given(st.integers(0, 10**9), st.integers(12, 40))
def test_free_slots_are_what_subscribers_can_still_take(seed: int, most: int) -> None:
    """Offered subscribers of the topic are kept until no slot is left, and afterwards cost another of
    theirs.
    """
    rng = Random(seed)
    table = RoutingTable(peer("m", Kind.PUBLISHER, 0), most)
    for _ in range(60):
        table.add(peer(rng.choice(("a", "z")), Kind.SUBSCRIBER, rng.randrange(10_000)))
    free, kept = table.free_slots(), 0
    for pid in rng.sample(range(10_000), free):
        table.add(peer("m", Kind.SUBSCRIBER, pid))
        kept = sum(is_subscriber(table, index) for index in range(len(table)))
    assert kept >= free - 2


def test_a_newer_boot_takes_the_place_of_an_older() -> None:
    table = RoutingTable(peer("m", Kind.SUBSCRIBER, 1), 9)
    table.add(peer("m", Kind.SUBSCRIBER, 2, boot=1))
    table.add(peer("m", Kind.SUBSCRIBER, 2, boot=3))
    table.add(peer("m", Kind.SUBSCRIBER, 2, boot=2))
    assert [one.boot for one in table] == [3]


def test_a_table_too_small_for_its_neighbours_is_refused() -> None:
    with pytest.raises(ValueError, match="can't keep"):
        RoutingTable(peer("m", Kind.SUBSCRIBER, 1), 8, 4)


def test_more_levels_than_entries_empties_a_low_level_of_others() -> None:
    rng = Random(3)
    table = RoutingTable(peer("m", Kind.SUBSCRIBER, 1), 5)
    for pid in range(3000):
        table.add(peer(rng.choice(TOPICS), Kind.SUBSCRIBER, pid))
        table.check()
    assert max(table.levels) >= 5
