"""The whole graph in one place: its invariants under insertion and deletion, and its searches."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from braidmq.overlay.keys import Kind, key_of
from braidmq.overlay.skipgraph import SkipGraph
from braidmq.overlay.table import Side


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 40)), max_size=120))
def test_lists_are_sorted_and_by_prefix_after_every_change(changes: list[tuple[bool, int]]) -> None:
    graph = SkipGraph()
    for comes, pid in changes:
        key = key_of("m", Kind.SUBSCRIBER, pid)
        if comes:
            graph.insert(key)
        elif key in graph:
            graph.delete(key)
    graph.check()


@given(st.integers(0, 10**9), st.integers(1, 60))
def test_a_graph_is_the_same_in_whatever_order_it_was_built(seed: int, size: int) -> None:
    rng = Random(seed)
    keys = [key_of("m", Kind.SUBSCRIBER, pid) for pid in range(size)]
    one, other = SkipGraph(), SkipGraph()
    for key in keys:
        one.insert(key)
    for key in rng.sample(keys, size):
        other.insert(key)
    assert [one.neighbours(key) for key in keys] == [other.neighbours(key) for key in keys]


def test_searches_are_short_and_end_where_they_should() -> None:
    rng = Random(1)
    keys = sorted(key_of("m", Kind.SUBSCRIBER, pid) for pid in range(0, 2000, 2))
    graph = SkipGraph()
    for key in keys:
        graph.insert(key)
    lengths = []
    for _ in range(300):
        start, target = rng.choice(keys), rng.choice(keys)
        path = graph.search(start, target)
        assert path[-1] == target
        lengths.append(len(path) - 1)
    assert sum(lengths) / len(lengths) < 14
    absent = key_of("m", Kind.SUBSCRIBER, 501)
    assert graph.search(keys[0], absent)[-1] == key_of("m", Kind.SUBSCRIBER, 500)
    assert graph.neighbour(keys[0], Side.LEFT, 0) is None
