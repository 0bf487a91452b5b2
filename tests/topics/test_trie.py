"""FilterTrie: by example. test_trie_model.py holds it to a plain dict and the naive matcher."""

import pytest

from braidmq.topics import FilterTrie


def trie_of(*filters: bytes, hash_bits: int = 32) -> FilterTrie:
    trie = FilterTrie(hash_bits=hash_bits)
    for filter in filters:
        trie.set(filter, filter)
    return trie


def test_it_is_a_map() -> None:
    trie = trie_of(b"a/b", b"a/+", b"a/#", b"#")
    assert len(trie) == 4
    assert b"a/+" in trie
    assert b"a" not in trie
    assert "a/+" not in trie
    trie.set(b"a/+", "replaced")
    assert trie.get(b"a/+") == "replaced"
    assert dict(trie.items()) == {b"a/b": b"a/b", b"a/+": "replaced", b"a/#": b"a/#", b"#": b"#"}
    assert trie.pop(b"a/+") == "replaced"
    assert trie.pop(b"a/+") is None
    assert trie.get(b"a/+") is None
    assert len(trie) == 3


def test_a_path_to_other_filters_is_no_filter() -> None:
    trie = trie_of(b"a/+/c", b"b/#")
    for path in (b"a", b"a/+", b"+", b"b", b"a/#", b"a/+/c/d", b"a/b/c"):
        assert path not in trie
        assert trie.get(path) is None
        assert trie.pop(path) is None
    assert len(trie) == 2


def test_it_finds_all_that_match_and_nothing_else() -> None:
    trie = trie_of(b"a/b", b"a/+", b"+/b", b"+/+", b"a/#", b"a/b/#", b"#", b"a", b"b/+", b"a/b/c", b"+/b/+")
    expected = [b"a/b", b"a/+", b"+/b", b"+/+", b"a/#", b"a/b/#", b"#"]
    assert sorted(trie.match(b"a/b")) == sorted(expected)


def test_topics_that_begin_with_a_dollar_are_not_for_leading_wildcards() -> None:
    trie = trie_of(b"#", b"+", b"+/#", b"+/x", b"$SYS/#", b"$SYS/+", b"a/+")
    assert sorted(trie.match(b"$SYS/x")) == [b"$SYS/#", b"$SYS/+"]
    assert trie.match(b"a/$SYS").count(b"a/+") == 1


def test_hash_goes_on_to_no_further_level() -> None:
    trie = FilterTrie()
    with pytest.raises(ValueError, match="after #"):
        trie.set(b"new/a/#/b", 1)
    assert trie.get(b"a/#/b") is None
    assert trie.node_count == 0
    trie.check()


def test_a_level_too_long_for_mqtt_leaves_no_trace() -> None:
    trie = trie_of(b"a/b")
    with pytest.raises(ValueError, match="65535 bytes"):
        trie.set(b"a/c/" + b"x" * 65_536, 1)
    assert trie.node_count == 2
    trie.check()
    longest = b"x" * 65_535
    trie.set(longest, longest)
    assert trie.match(longest) == [longest]


@pytest.mark.parametrize("levels", [128, 5_000, 60_000])
def test_depth_is_no_problem(levels: int) -> None:
    deep = b"/".join([b"a"] * levels)
    trie = trie_of(deep, b"/".join([b"+"] * levels), deep + b"/#", b"#")
    assert len(trie.match(deep)) == 4
    assert trie.match(deep + b"/a") == [b"#", deep + b"/#"]
    assert len(dict(trie.items())) == 4


def test_a_filter_may_end_at_every_level() -> None:
    levels = 5_000
    deep = b"/".join([b"a"] * levels)
    filters = [b"a/" * level + b"#" for level in range(levels + 1)]
    assert sorted(trie_of(*filters).match(deep)) == sorted(filters)


def test_many_branches_match_at_once() -> None:
    """Every way to write + for some of twelve levels: 4,096 filters, all reached."""
    levels = 12
    patterns = [
        b"/".join(b"+" if pattern >> level & 1 else b"%d" % level for level in range(levels))
        for pattern in range(1 << levels)
    ]
    trie = trie_of(*patterns)
    topic = b"/".join(b"%d" % level for level in range(levels))
    assert sorted(trie.match(topic)) == sorted(patterns)
    assert trie.match(topic + b"/x") == []


@pytest.mark.parametrize("hash_bits", [0, 1, 8])
def test_colliding_hashes_are_told_apart(hash_bits: int) -> None:
    filters = [b"%d/%d" % (first, second) for first in range(20) for second in range(20)]
    trie = trie_of(*filters, hash_bits=hash_bits)
    trie.check()
    for filter in filters:
        assert trie.match(filter) == [filter]
    assert trie.match(b"20/1") == trie.match(b"1/20") == trie.match(b"1") == []
    for filter in filters[::2]:
        assert trie.pop(filter) == filter
    trie.check()
    assert all(trie.match(filter) == [] for filter in filters[::2])
    assert all(trie.match(filter) == [filter] for filter in filters[1::2])


def test_removing_everything_gives_everything_back() -> None:
    trie = FilterTrie()
    empty_bytes = trie.memory_bytes
    filters = [b"%d/+/%d/%s/#" % (i % 7, i % 1_000, b"long level %d" % i) for i in range(20_000)]
    for filter in filters:
        trie.set(filter, filter)
    assert trie.node_count > 20_000
    assert trie.memory_bytes > 100 * empty_bytes
    for filter in filters:
        assert trie.pop(filter) == filter
    assert len(trie) == trie.node_count == 0
    assert trie.memory_bytes == empty_bytes
    trie.check()


def test_removed_nodes_and_slots_are_used_again() -> None:
    trie = trie_of(*(b"keep/%d/x" % i for i in range(1_000)))
    memory_bytes = set()
    for turn in range(50):
        for i in range(500):
            trie.set(b"passing/%d/%d" % (turn, i), i)
        memory_bytes.add(trie.memory_bytes)
        for i in range(500):
            trie.pop(b"passing/%d/%d" % (turn, i))
    trie.check()
    assert trie.node_count == 2_001
    assert max(memory_bytes) == min(memory_bytes)


def test_the_table_of_edges_shrinks_with_what_is_in_it() -> None:
    filters = [b"%d" % i + b"/x" * 19 for i in range(1_000)]
    trie = trie_of(*filters)
    assert trie.node_count == 20_000
    full_bytes = trie.memory_bytes
    for filter in filters[10:]:
        trie.pop(filter)
    trie.check()
    assert [trie.match(filter) for filter in filters[:11]] == [*([filter] for filter in filters[:10]), []]
    assert trie.memory_bytes < full_bytes - 8 * 20_000


def test_it_grows_past_a_chunk_of_nodes() -> None:
    filters = [b"%d/%d" % (i % 300, i) for i in range(70_000)]
    trie = trie_of(*filters)
    assert trie.node_count == 70_300
    trie.check()
    assert all(trie.match(filter) == [filter] for filter in filters)
    assert trie.memory_bytes < 150 * len(filters)


def test_clear_leaves_an_empty_trie() -> None:
    trie = trie_of(b"a/b", b"#")
    trie.clear()
    assert len(trie) == trie.node_count == 0
    assert trie.match(b"a/b") == []
    trie.check()
    trie.set(b"a", 1)
    assert trie.match(b"a") == [1]


def test_iteration_notices_changes() -> None:
    trie = trie_of(b"a", b"a/#", b"b")
    items = trie.items()
    next(items)
    trie.set(b"c", 1)
    with pytest.raises(RuntimeError, match="changed"):
        next(items)
    items = trie.items()
    next(items)
    trie.clear()
    with pytest.raises(RuntimeError, match="changed"):
        next(items)


@pytest.mark.parametrize("seed", [b"", b"x" * 15, b"x" * 17])
def test_a_seed_has_16_bytes(seed: bytes) -> None:
    with pytest.raises(ValueError, match="16 bytes"):
        FilterTrie(seed)


@pytest.mark.parametrize("hash_bits", [-1, 33])
def test_hash_bits_are_bounded(hash_bits: int) -> None:
    with pytest.raises(ValueError, match="hash_bits"):
        FilterTrie(hash_bits=hash_bits)
