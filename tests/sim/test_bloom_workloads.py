"""The subscriptions that are drawn are those of the paper."""

import random
from collections import Counter

import pytest

from braidmq.sim.bloom.printed import PrintedPrefixes
from braidmq.sim.bloom.workloads import HierarchySubscriptions, RandomSubscriptions, random_topics
from braidmq.topics import matches, validate_filter, validate_topic


def test_topics_are_random_levels_of_ten_characters() -> None:
    topics = random_topics(random.Random(1), 6)
    drawn = [next(topics) for _ in range(2_000)]
    assert all(len(levels) == 6 and all(len(level) == 10 for level in levels) for levels in drawn)
    assert len({level for levels in drawn for level in levels}) == 12_000
    for levels in drawn[:50]:
        validate_topic(b"/".join(levels))


def shape(filter: bytes) -> bytes:
    """The filter with its literal levels made alike."""
    return b"/".join(level if level in (b"+", b"#") else b"x" for level in filter.split(b"/"))


@pytest.mark.parametrize(("first_level", "patterns"), [(0, 14), (1, 6), (2, 2)])
def test_every_pattern_is_drawn_equally_often(first_level: int, patterns: int) -> None:
    rng = random.Random(2)
    source = RandomSubscriptions(3, 1.0, first_level)
    topics = random_topics(rng, 3)
    drawn = Counter(shape(source.draw(rng, topics).filter) for _ in range(patterns * 500))
    assert len(drawn) == patterns == source.wildcard_patterns
    assert min(drawn.values()) > 400
    assert max(drawn.values()) < 600
    assert all(level == b"x" for each in drawn for level in each.split(b"/")[:first_level])


def test_wildcard_only_filters_are_left_out_before_drawing() -> None:
    rng = random.Random(3)
    source = RandomSubscriptions(3, 0.5, wildcard_only=False)
    topics = random_topics(rng, 3)
    drawn = Counter(shape(source.draw(rng, topics).filter) for _ in range(10_000))
    assert not drawn.keys() & {b"#", b"+/#", b"+/+/#", b"+/+/+"}
    assert len(drawn) == 11
    assert 10_000 - drawn[b"x/x/x"] == pytest.approx(5_000, rel=0.05)


def test_a_subscription_matches_the_topic_it_was_made_from() -> None:
    rng = random.Random(4)
    topics = random_topics(rng, 5)
    random_source, hierarchy = RandomSubscriptions(5, 0.8), HierarchySubscriptions(0.3)
    for _ in range(500):
        for subscription in (random_source.draw(rng, topics), hierarchy.draw(rng)):
            validate_filter(subscription.filter)
            assert matches(subscription.filter, subscription.topic)


def test_shares_of_the_hierarchy() -> None:
    rng = random.Random(5)
    filters = [HierarchySubscriptions(0.0).draw(rng).filter for _ in range(5_000)]
    with_hash = sum(filter.endswith(b"#") for filter in filters)
    with_plus = sum(b"+" in filter for filter in filters)
    assert with_hash / 5_000 == pytest.approx(0.2, abs=0.02)
    assert with_plus / 5_000 == pytest.approx(0.3, abs=0.02)
    assert not any(b"+" in filter.split(b"/")[:3] for filter in filters)


def printed(*filters: bytes) -> PrintedPrefixes:
    prefixes = PrintedPrefixes()
    for filter in filters:
        prefixes.add(filter)
    return prefixes


def test_the_printed_algorithm_works_where_one_branch_exists() -> None:
    prefixes = printed(b"a/+/c/d", b"a/+/e/f", b"x/y/+", b"x/y/#")
    assert prefixes.search(b"a/b/c/d") == (True, 11)
    assert prefixes.search(b"x/y/z") == (True, 7)
    assert prefixes.search(b"q/r") == (False, 3)


def test_the_printed_algorithm_loses_messages() -> None:
    """The paper's line 20: `+` exists, nothing is below it, and `a/b` is never tried."""
    assert printed(b"+/x", b"a/b").search(b"a/b") == (False, 5)


def test_the_printed_algorithm_takes_a_dollar_for_the_end() -> None:
    assert printed(b"cost$/x").search(b"cost$/y") == (True, 3)
