"""The owner's exact counts against a dictionary."""

import random
from collections import Counter

import pytest

from braidmq.topics.bloom.hashing import filter_keys, path_key
from braidmq.topics.bloom.keycounts import KeyCounts
from tests.topics.bloom.strategies import random_filter

SEED = 3


def test_appearing_and_vanishing_against_a_rebuild() -> None:
    rng = random.Random(8)
    counts, held = KeyCounts(SEED), Counter[bytes]()
    live: set[int] = set()
    for _ in range(6_000):
        if held and rng.random() < 0.45:
            filter = rng.choice(list(held))
            live.difference_update(counts.discard(filter))
            held[filter] -= 1
            held += Counter()
        else:
            filter = random_filter(rng)
            appeared = counts.add(filter)
            assert live.isdisjoint(appeared)
            live.update(appeared)
            held[filter] += 1
        assert len(counts) == len(live)
    assert live == set(counts.keys()) == {key for filter in held for key in filter_keys(filter, SEED)}
    assert counts.filters == held.total()


def test_removing_everything_leaves_nothing() -> None:
    rng = random.Random(9)
    filters = [random_filter(rng) for _ in range(3_000)]
    counts = KeyCounts(SEED)
    for filter in filters:
        counts.add(filter)
    rng.shuffle(filters)
    for filter in filters:
        counts.discard(filter)
    assert (len(counts), counts.filters, list(counts.keys())) == (0, 0, [])
    assert (counts.plus_depths, counts.hash_depths, counts.end_depths) == (0, 0, 0)


@pytest.mark.parametrize(
    ("held", "absent"), [(b"a/#", b"a"), (b"a", b"a/#"), (b"a/b", b"a"), (b"+", b"x"), (b"a/b/c", b"a/b")]
)
def test_a_filter_that_is_not_held_is_refused_and_nothing_changes(held: bytes, absent: bytes) -> None:
    counts = KeyCounts(SEED)
    counts.add(held)
    before = sorted(counts.keys())
    assert absent not in counts
    with pytest.raises(KeyError):
        counts.discard(absent)
    assert sorted(counts.keys()) == before
    assert held in counts


def test_the_end_of_a_parent_stays_while_anyone_needs_it() -> None:
    counts = KeyCounts(SEED)
    counts.add(b"a/#")
    counts.add(b"a")
    assert counts.discard(b"a") == []
    counts.add(b"a")
    assert len(counts.discard(b"a/#")) == 2
    assert len(counts.discard(b"a")) == 1
    assert len(counts) == 0


def test_depths() -> None:
    counts = KeyCounts(SEED)
    counts.add(b"a/+/c")
    counts.add(b"a/b/#")
    assert (counts.plus_depths, counts.hash_depths, counts.end_depths) == (0b10, 0b100, 0b1100)
    counts.discard(b"a/b/#")
    assert (counts.plus_depths, counts.hash_depths, counts.end_depths) == (0b10, 0, 0b1000)


def test_paths_are_told_from_ends() -> None:
    counts = KeyCounts(SEED)
    for filter in (b"a/b/c", b"x/#"):
        counts.add(filter)
    paths = {path_key(levels, SEED) for levels in ([b"a"], [b"a", b"b"], [b"x"])}
    assert set(counts.paths(counts.keys())) == paths
    counts.discard(b"a/b/c")
    assert counts.paths(paths) == [path_key([b"x"], SEED)]


def test_filters_beyond_the_greatest_depth_can_be_removed() -> None:
    counts = KeyCounts(SEED)
    deep, deeper = b"/".join([b"x"] * 200), b"/".join([b"x"] * 128 + [b"y"])
    counts.add(deep)
    counts.add(deeper)
    counts.discard(deep)
    assert deeper in counts
    counts.discard(deeper)
    assert len(counts) == 0
