"""The fast filter: MQTT's rules, no false "no", bounded work."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from braidmq.topics import matches
from braidmq.topics.bloom.hashing import end_key, filter_keys, hash_key, path_key
from braidmq.topics.bloom.prefix import PrefixFilter, search_each
from tests.topics.bloom.strategies import filters, random_filter, random_topic, topics


def filled(*stored: bytes, blocks: int = 8) -> PrefixFilter:
    filter = PrefixFilter(blocks, 10, 7)
    for each in stored:
        filter.add(each)
    return filter


@pytest.mark.parametrize(
    ("stored", "topic", "expected"),
    [
        (b"a/#", b"a", True),
        (b"a/#", b"a/", True),
        (b"a/#", b"a/b/c", True),
        (b"a/#", b"ab", False),
        (b"#", b"a", True),
        (b"#", b"/", True),
        (b"+", b"a/b", False),
        (b"+/+", b"/", True),
        (b"a//b", b"a//b", True),
        (b"a/+/b", b"a//b", True),
        (b"a/b", b"a//b", False),
        (b"/a", b"/a", True),
        (b"/a", b"a", False),
        (b"a/", b"a", False),
        (b"a/+", b"a/", True),
        (b"a/+", b"a", False),
        (b"#", b"$SYS/a", False),
        (b"+/a", b"$SYS/a", False),
        (b"$SYS/#", b"$SYS/a", True),
        (b"$SYS/+", b"$SYS/a", True),
        (b"a/+", b"a/$x", True),
        (b"c$", b"c", False),
        (b"c$/d", b"c$/d", True),
        (b"c$/d", b"c$", False),
        (b"cost$", b"cost$/x", False),
        (b"$share/g/a/+", b"a/b", True),
        (b"$share/g/#", b"$SYS/a", False),
    ],
)
def test_mqtts_rules(stored: bytes, topic: bytes, expected: bool) -> None:
    assert filled(stored).may_match(topic) is expected


def test_both_branches_are_tried() -> None:
    """The algorithm as printed in the paper goes down `+` and never comes back."""
    filter = filled(b"+/x", b"a/b")
    assert filter.may_match(b"a/b")
    assert filter.count_queries(b"a/b", plus_first=True, masked=False)[0]


@settings(max_examples=100, deadline=None)
@given(st.lists(filters(), min_size=1, max_size=20), st.lists(topics, max_size=5), st.integers(0, 2**32))
def test_answers_as_the_plain_matcher_does(stored: list[bytes], asked: list[bytes], seed: int) -> None:
    """At 0.01 % a question at worst, a wrong "yes" here would be a fault of the search."""
    rng = random.Random(seed)
    filter = filled(*stored, blocks=64)
    for topic in [*asked, *(random_topic(rng, 7) for _ in range(60))]:
        expected = any(matches(each, topic) for each in stored)
        assert filter.may_match(topic) == expected
        for plus_first in (False, True):
            for masked in (False, True):
                assert filter.count_queries(topic, plus_first=plus_first, masked=masked)[0] == expected


def test_no_false_negative_in_100_000_pairs() -> None:
    rng = random.Random(4)
    pairs = found = 0
    for _ in range(500):
        stored = random_filter(rng)
        filter = filled(stored, blocks=1)
        for _ in range(200):
            topic = random_topic(rng)
            pairs += 1
            expected = matches(stored, topic)
            found += expected
            assert filter.may_match(topic) == expected, (stored, topic)
    assert pairs == 100_000
    assert found > 5_000


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 400), st.integers(1, 400), st.sampled_from([b"x", b"+"]), st.booleans())
def test_deep_topics(filter_depth: int, topic_depth: int, level: bytes, hash_at_the_end: bool) -> None:
    stored = b"/".join([level] * filter_depth + [b"#"] * hash_at_the_end)
    topic = b"/".join([b"x"] * topic_depth)
    answer = filled(stored, blocks=64).may_match(topic)
    expected = matches(stored, topic)
    # Beyond 128 levels "maybe" is allowed, "no" never is.
    assert answer == expected or (answer and filter_depth >= 128 and topic_depth > 128)


def test_an_adversary_gets_a_maybe_instead_of_exponential_work() -> None:
    filter = PrefixFilter(1 << 13, 10, 7)
    rng = random.Random(1)
    for _ in range(30_000):
        filter.add(b"/".join([rng.choice([b"+", b"x"]) for _ in range(13)] + [b"end"]))
    found, queries = filter.count_queries(b"/".join([b"x"] * 13 + [b"other"]))
    assert found
    assert queries <= 3 * 4096
    assert not filter.may_match(b"y/" * 13 + b"other/x")


def test_masks_skip_what_no_filter_has() -> None:
    filter = filled(b"a/b/c", b"a/b/d")
    masked, plain = (filter.count_queries(b"a/b/x", masked=masked)[1] for masked in (True, False))
    assert (masked, plain) == (3, 9)


def test_literal_first_finds_sooner() -> None:
    filter = filled(b"+/b/c/d", b"a/+/c/e", b"a/b/c/d")
    fast = filter.count_queries(b"a/b/c/d")[1]
    as_in_paper = filter.count_queries(b"a/b/c/d", plus_first=True)[1]
    assert fast < as_in_paper


def test_merging_matches_what_either_matched() -> None:
    one, other = filled(b"a/+", b"x"), filled(b"b/#", b"y/z")
    one.known_false, other.known_false = [1, 2, 3], [2, 3, 4]
    one.merge(other)
    both = filled(b"a/+", b"x", b"b/#", b"y/z")
    assert (one.bits, one.plus_depths, one.hash_depths, one.end_depths) == (
        both.bits, both.plus_depths, both.hash_depths, both.end_depths)
    assert one.known_false == [2, 3]
    with pytest.raises(ValueError, match="one size"):
        one.merge(PrefixFilter(16, 10, 7))
    with pytest.raises(ValueError, match="one seed"):
        one.merge(PrefixFilter(8, 10, 8))


def test_a_known_false_end_is_not_taken_for_a_match() -> None:
    filter = filled(b"a/b/c")
    false_end = hash_key(path_key([b"a"], 7))
    filter.add_keys([false_end])
    filter.hash_depths |= 0b10
    assert filter.may_match(b"a/x/y")
    filter.known_false = [false_end, 5, 9]
    assert not filter.may_match(b"a/x/y")
    assert filter.may_match(b"a/b/c")
    filter.known_false = [end_key(path_key([b"a", b"b", b"c"], 7)), false_end]
    assert not filter.may_match(b"a/b/c")


def test_bits_as_bytes_and_back() -> None:
    filter = filled(b"a/+", b"b/#")
    copy = PrefixFilter(8, 10, 7)
    copy.bits = filter.bits
    assert copy.bits == filter.bits
    assert copy.ones == filter.ones > 0
    with pytest.raises(ValueError, match="512 bytes"):
        copy.bits = bytes(100)


def test_positions() -> None:
    filter = PrefixFilter(2, 3, 0)
    filter.set_positions([0, 513, 1023])
    assert int.from_bytes(filter.bits, "little") == 1 | 1 << 513 | 1 << 1023
    filter.clear_positions([513])
    assert filter.ones == 2
    with pytest.raises(ValueError, match="outside"):
        filter.set_positions([1024])


@pytest.mark.parametrize(("blocks", "hashes"), [(0, 10), (3, 10), (-4, 10), (4, 0), (4, 15)])
def test_impossible_shapes_are_refused(blocks: int, hashes: int) -> None:
    with pytest.raises(ValueError, match=r"power of two|bits, not"):
        PrefixFilter(blocks, hashes)


def test_searching_one_after_the_other() -> None:
    each = [filled(b"a/#"), filled(b"b"), filled(b"+/x")]
    assert search_each(each, b"a/x") == [0, 2]


def test_every_key_of_an_added_filter_is_there() -> None:
    filter = filled(b"a/+/c/#")
    assert all(map(filter.has_key, filter_keys(b"a/+/c/#", 7)))
    assert not filter.has_key(12345)
