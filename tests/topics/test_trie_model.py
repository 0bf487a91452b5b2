"""FilterTrie and TopicTree, step by step beside a plain dict and the naive matcher."""

from collections import Counter
from typing import ClassVar

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from braidmq.topics import FilterTrie, TopicTree, matches
from tests.topics.strategies import filters, hash_bits, topics

# Few enough keys that a machine comes back to them.
SOME_TOPICS = st.shared(st.lists(topics, min_size=1, max_size=12), key="topics")
SOME_FILTERS = st.shared(st.lists(filters, min_size=1, max_size=12), key="filters")
kept_topics = st.one_of(topics, SOME_TOPICS.flatmap(st.sampled_from))
kept_filters = st.one_of(filters, SOME_FILTERS.flatmap(st.sampled_from))


class MapMachine(RuleBasedStateMachine):
    """What both maps have in common."""

    kind: ClassVar[type[FilterTrie] | type[TopicTree]]
    map: FilterTrie | TopicTree

    @initialize(hash_bits=hash_bits)
    def make(self, hash_bits: int) -> None:
        self.map = self.kind(hash_bits=hash_bits)
        self.model: dict[bytes, int] = {}
        self.step = 0

    def set_key(self, key: bytes) -> None:
        self.step += 1
        self.map.set(key, self.step)
        self.model[key] = self.step

    def pop_key(self, key: bytes) -> None:
        assert self.map.get(key) == self.model.get(key)
        assert (key in self.map) == (key in self.model)
        assert self.map.pop(key) == self.model.pop(key, None)
        assert key not in self.map

    @rule()
    def clear(self) -> None:
        self.map.clear()
        self.model.clear()

    @invariant()
    def same_as_model(self) -> None:
        self.map.check()
        assert len(self.map) == len(self.model)
        assert dict(self.map.items()) == self.model
        if not self.model:
            assert self.map.node_count == 0


class FilterMachine(MapMachine):
    kind = FilterTrie
    map: FilterTrie

    @rule(filters=st.lists(kept_filters, max_size=10))
    def set(self, filters: list[bytes]) -> None:
        for filter in filters:
            self.set_key(filter)

    @rule(filter=kept_filters)
    def pop(self, filter: bytes) -> None:
        self.pop_key(filter)

    @rule(topic=kept_topics)
    def match(self, topic: bytes) -> None:
        expected = [value for filter, value in self.model.items() if matches(filter, topic)]
        assert Counter(self.map.match(topic)) == Counter(expected)


class TopicMachine(MapMachine):
    kind = TopicTree
    map: TopicTree

    @rule(topics=st.lists(kept_topics, max_size=10))
    def set(self, topics: list[bytes]) -> None:
        for topic in topics:
            self.set_key(topic)

    @rule(topic=kept_topics)
    def pop(self, topic: bytes) -> None:
        self.pop_key(topic)

    @rule(filter=kept_filters)
    def find(self, filter: bytes) -> None:
        expected = [value for topic, value in self.model.items() if matches(filter, topic)]
        assert Counter(self.map.find(filter)) == Counter(expected)


TestFilterMachine = FilterMachine.TestCase
TestTopicMachine = TopicMachine.TestCase
TestFilterMachine.settings = TestTopicMachine.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None
)


@given(st.lists(filters, unique=True, max_size=60), topics, hash_bits)
def test_a_match_is_what_the_naive_matcher_says(filters: list[bytes], topic: bytes, hash_bits: int) -> None:
    trie = FilterTrie(hash_bits=hash_bits)
    for filter in filters:
        trie.set(filter, filter)
    assert Counter(trie.match(topic)) == Counter(filter for filter in filters if matches(filter, topic))


@given(st.lists(topics, unique=True, max_size=60), filters, hash_bits)
def test_a_find_is_what_the_naive_matcher_says(topics: list[bytes], filter: bytes, hash_bits: int) -> None:
    tree = TopicTree(hash_bits=hash_bits)
    for topic in topics:
        tree.set(topic, topic)
    assert Counter(tree.find(filter)) == Counter(topic for topic in topics if matches(filter, topic))


@given(st.lists(filters, unique=True, min_size=1, max_size=40), st.randoms(use_true_random=False))
def test_pruning_in_any_order_leaves_no_node(filters: list[bytes], random: object) -> None:
    trie = FilterTrie(hash_bits=2)
    for filter in filters:
        trie.set(filter, filter)
    random.shuffle(filters)  # type: ignore[attr-defined]
    for filter in filters:
        assert trie.pop(filter) == filter
        trie.check()
    assert trie.node_count == 0
