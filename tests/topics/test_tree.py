"""TopicTree: by example. test_trie_model.py holds it to a plain dict and the naive matcher."""

import pytest

from braidmq.topics import TopicTree


def tree_of(*topics: bytes) -> TopicTree:
    tree = TopicTree()
    for topic in topics:
        tree.set(topic, topic)
    return tree


TREE = (b"a", b"a/b", b"a/b/c", b"a/c/c", b"a//c", b"b/b/c", b"/", b"$SYS", b"$SYS/b", b"$SYS/b/c", b"a/$x/c")


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        (b"a/b", [b"a/b"]),
        (b"a/x", []),
        (b"b", []),
        (b"#", [topic for topic in TREE if not topic.startswith(b"$")]),
        (b"+", [b"a"]),
        (b"+/+", [b"/", b"a/b"]),
        (b"a/#", [topic for topic in TREE if topic.startswith(b"a")]),
        (b"a/+/c", [b"a//c", b"a/$x/c", b"a/b/c", b"a/c/c"]),
        (b"+/b/c", [b"a/b/c", b"b/b/c"]),
        (b"+/b/#", [b"a/b", b"a/b/c", b"b/b/c"]),
        (b"$SYS/#", [b"$SYS", b"$SYS/b", b"$SYS/b/c"]),
        (b"$SYS/+", [b"$SYS/b"]),
        (b"+/#", [topic for topic in TREE if not topic.startswith(b"$")]),
    ],
)
def test_it_finds_the_topics_that_match(filter: bytes, expected: list[bytes]) -> None:
    assert sorted(tree_of(*TREE).find(filter)) == sorted(expected)


def test_it_is_a_map() -> None:
    tree = tree_of(b"a/b", b"a")
    tree.set(b"a", "replaced")
    assert len(tree) == 2
    assert tree.get(b"a") == "replaced"
    assert tree.get(b"a/b/c") is None
    assert dict(tree.items()) == {b"a/b": b"a/b", b"a": "replaced"}
    assert tree.pop(b"a") == "replaced"
    assert tree.pop(b"a") is None
    assert tree.find(b"#") == [b"a/b"]


def test_a_topic_with_wildcards_is_refused() -> None:
    tree = TopicTree()
    for topic in (b"a/+", b"#", b"a+b"):
        with pytest.raises(ValueError, match="no wildcards"):
            tree.set(topic, 1)
    assert len(tree) == tree.node_count == 0


def test_removing_everything_gives_everything_back() -> None:
    tree = TopicTree()
    empty_bytes = tree.memory_bytes
    topics = [b"%d/%d/%d" % (i % 7, i % 100, i) for i in range(20_000)]
    for topic in topics:
        tree.set(topic, topic)
    tree.check()
    assert len(tree.find(b"#")) == len(tree.find(b"+/+/+")) == 20_000
    assert sorted(tree.find(b"+/3/+")) == sorted(topics[3::100])
    for topic in topics:
        tree.pop(topic)
    tree.check()
    assert len(tree) == tree.node_count == 0
    assert tree.memory_bytes == empty_bytes
    assert tree.find(b"#") == []


def test_depth_is_no_problem() -> None:
    deep = b"/".join([b"a"] * 60_000)
    tree = tree_of(deep, deep + b"/b")
    assert sorted(tree.find(b"#")) == [deep, deep + b"/b"]
    assert tree.find(b"/".join([b"+"] * 60_000)) == [deep]
    assert tree.pop(deep + b"/b") == deep + b"/b"
    assert tree.node_count == 60_000


def test_a_list_of_children_survives_removals_anywhere_in_it() -> None:
    tree = tree_of(*(b"p/%d" % i for i in range(30)))
    for gone in (29, 0, 15, 14, 16, 28, 1):
        tree.pop(b"p/%d" % gone)
        tree.check()
    assert len(tree.find(b"p/+")) == 23
    tree.set(b"p/0", "again")
    tree.check()
    assert "again" in tree.find(b"p/+")


def test_clear_leaves_an_empty_tree_that_works() -> None:
    tree = tree_of(*TREE)
    tree.clear()
    assert tree.find(b"#") == []
    tree.set(b"x/y", 1)
    assert tree.find(b"+/y") == [1]
    tree.check()
