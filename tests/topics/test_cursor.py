"""TopicCursor against TopicTree.find, while the tree stands still and while it changes."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from braidmq.topics import TopicCursor, TopicTree, matches
from tests.topics.strategies import filters, hash_bits, topics


def all_of(cursor: TopicCursor, visits_max: int) -> list[Any]:
    found: list[Any] = []
    while (some := cursor.take(visits_max)) is not None:
        found += some
    return found


@given(st.lists(topics, max_size=30), filters, st.integers(1, 5), hash_bits)
def test_it_finds_what_find_finds(names: list[bytes], filter: bytes, visits_max: int, bits: int) -> None:
    tree = TopicTree(hash_bits=bits)
    for name in names:
        tree.set(name, name)
    assert sorted(all_of(TopicCursor(tree, filter), visits_max)) == sorted(tree.find(filter))
    tree.check()


CHANGES = st.lists(
    st.one_of(st.tuples(st.just("set"), topics), st.tuples(st.just("pop"), topics), st.just(("take", b""))),
    max_size=40,
)


@given(st.lists(topics, max_size=20, unique=True), filters, CHANGES, st.booleans())
def test_what_was_there_all_the_time_is_found_once(
    names: list[bytes], filter: bytes, changes: list[tuple[str, bytes]], is_left: bool
) -> None:
    tree = TopicTree()
    for name in names:
        tree.set(name, name)
    cursors = [TopicCursor(tree, filter) for _ in range(2)]
    found: list[list[bytes]] = [[], []]
    stayed, ever = set(names), set(names)
    for number, (change, name) in enumerate(changes):
        if change == "set":
            tree.set(name, name)
            ever.add(name)
        elif change == "pop":
            tree.pop(name)
            stayed.discard(name)
        else:
            found[number % 2] += cursors[number % 2].take(2) or []
    if not is_left:
        for index, some in enumerate(found):
            some += all_of(cursors[index], 3)
            assert {name for name in stayed if matches(filter, name)} <= set(some)
    for some in found:
        assert all(matches(filter, name) and name in ever for name in some)
        # A topic that came back is another one; any other is found once.
        assert all(some.count(name) == 1 for name in some if name in stayed)
    cursors.clear()
    tree.check()
    assert dict(tree.items()).keys() >= stayed


def test_a_cursor_outlives_a_tree_that_was_emptied() -> None:
    tree = TopicTree()
    for number in range(10):
        tree.set(b"t/%d" % number, number)
    cursor = TopicCursor(tree, b"t/#")
    assert cursor.take(4) is not None
    for number in range(10):
        tree.pop(b"t/%d" % number)
    tree.set(b"t/new", 1)
    assert all_of(cursor, 1) in ([], [1])
    del cursor
    tree.check()
    assert tree.node_count == 2
