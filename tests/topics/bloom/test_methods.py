"""The paper's three methods and the trie, all through one interface."""

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from braidmq.topics import matches
from braidmq.topics.bloom import (
    ExactTrie,
    InterestMethod,
    NaiveBloom,
    PatternBloom,
    PrefixBloom,
    QueryCounter,
)
from braidmq.topics.bloom.methods import QUERIES_MAX
from braidmq.topics.bloom.patterns import Pattern, pattern_of, variants
from tests.topics.bloom.strategies import filters, random_filter, random_topic, topics

RARE = 1e-9

METHODS: dict[str, Callable[[], InterestMethod]] = {
    "BF": lambda: NaiveBloom(200, RARE),
    "BFP": lambda: PatternBloom(200, RARE),
    "prefix": lambda: PrefixBloom(500, bits_per_key=64, hashes=14),
    "prefix as in the paper": lambda: PrefixBloom(500, bits_per_key=64, hashes=14, as_in_paper=True),
    "trie": ExactTrie,
}

each_method = pytest.mark.parametrize("make", METHODS.values(), ids=METHODS)


@each_method
@settings(max_examples=40, deadline=None)
@given(stored=st.lists(filters(), min_size=1, max_size=12), asked=st.lists(topics, min_size=3, max_size=8))
def test_every_method_matches_as_mqtt_says(
    make: Callable[[], InterestMethod], stored: list[bytes], asked: list[bytes]
) -> None:
    method = make()
    for filter in stored:
        method.add(filter)
    for topic in asked:
        assert method.may_match(topic) == any(matches(filter, topic) for filter in stored)


@each_method
def test_what_was_discarded_is_forgotten(make: Callable[[], InterestMethod]) -> None:
    rng = random.Random(6)
    method, held = make(), list[bytes]()
    for _ in range(300):
        if held and rng.random() < 0.5:
            method.discard(held.pop(rng.randrange(len(held))))
        else:
            held.append(random_filter(rng, 4))
            method.add(held[-1])
        topic = random_topic(rng, 4)
        assert method.may_match(topic) == any(matches(filter, topic) for filter in held)


@each_method
def test_discarding_what_was_never_added_is_refused(make: Callable[[], InterestMethod]) -> None:
    method = make()
    method.add(b"a/#")
    for filter in (b"a", b"b", b"a/+"):
        with pytest.raises(KeyError):
            method.discard(filter)
    assert method.may_match(b"a")


@each_method
def test_shared_groups_count_as_their_filter(make: Callable[[], InterestMethod]) -> None:
    method = make()
    method.add(b"$share/one/a/+")
    method.add(b"$share/two/a/+")
    method.discard(b"$share/one/a/+")
    assert method.may_match(b"a/b")
    method.discard(b"$share/two/a/+")
    assert not method.may_match(b"a/b")


@each_method
def test_size_in_bytes_is_told(make: Callable[[], InterestMethod]) -> None:
    method = make()
    method.add(b"a/b")
    assert method.nbytes > 0


def test_the_papers_pattern_example() -> None:
    method = PatternBloom(100, RARE)
    for filter in (b"a/+/c", b"x/+/z", b"a/+/+", b"+/+/#"):
        method.add(filter)
    assert method.patterns == {Pattern((1,), -1), Pattern((1, 2), -1), Pattern((0, 1), 2)}
    assert sorted(method.candidates(b"x/y/z")) == sorted([b"x/y/z", b"x/+/z", b"x/+/+", b"+/+/#"])
    method.discard(b"a/+/+")
    assert method.patterns == {Pattern((1,), -1), Pattern((0, 1), 2)}


def test_variants_come_in_order_and_number() -> None:
    assert list(variants(b"a/b")) == [b"#", b"+/#", b"+/+", b"+/b", b"a/#", b"a/+", b"a/b"]
    assert len(set(variants(b"/".join([b"x"] * 10)))) == 2**11 - 1
    assert list(variants(b"$a/b")) == [b"$a/#", b"$a/+", b"$a/b"]


def test_patterns_sort_as_variants_come() -> None:
    topic = b"a/b/c/d"
    ordered = sorted({pattern_of(variant) for variant in variants(topic)}, key=lambda pattern: pattern.order)
    assert [pattern.applied(topic.split(b"/")) for pattern in ordered] == list(variants(topic))


def test_counting_questions() -> None:
    counted = {}
    for name, make in METHODS.items():
        method, counter = make(), QueryCounter()
        for filter in (b"+/+/c", b"a/+/d", b"x/#"):
            method.add(filter)
        assert not method.may_match(b"a/b/e", counter)
        counted[name] = counter.queries
    assert counted == {"BF": 15, "BFP": 4, "prefix as in the paper": 15, "prefix": 10, "trie": 0}


def test_naive_search_gives_up_on_deep_topics() -> None:
    method, counter = NaiveBloom(10, RARE), QueryCounter()
    method.add(b"a")
    assert method.may_match(b"/".join([b"x"] * 60), counter)
    assert counter.queries == QUERIES_MAX
