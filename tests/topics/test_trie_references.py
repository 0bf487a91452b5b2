"""The maps hold each value exactly once, let go of it when told, and don't mind what its end sets off."""

import gc
import sys
import weakref

import pytest

from braidmq.topics import FilterTrie, TopicTree

KINDS = [FilterTrie, TopicTree]
Kind = type[FilterTrie] | type[TopicTree]


class Value:
    """Something that can be watched."""


def search(map: FilterTrie | TopicTree, path: bytes) -> list[object]:
    return map.match(path) if isinstance(map, FilterTrie) else map.find(path)


@pytest.mark.parametrize("kind", KINDS)
def test_counts_of_references_come_back(kind: Kind) -> None:
    map, value = kind(), Value()
    before = sys.getrefcount(value)
    map.set(b"a/b", value)
    assert sys.getrefcount(value) == before + 1
    map.set(b"a/b", value)
    map.set(b"a/c", value)
    assert sys.getrefcount(value) == before + 2
    for _ in range(100):
        search(map, b"a/b")
        map.get(b"a/b")
        list(map.items())
    assert sys.getrefcount(value) == before + 2
    found = search(map, b"a/b")
    assert sys.getrefcount(value) == before + 3
    map.pop(b"a/b")
    map.set(b"a/c", None)
    assert sys.getrefcount(value) == before + 1
    del found
    assert sys.getrefcount(value) == before


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["replace", "pop", "clear", "drop"])
def test_a_value_goes_when_the_map_lets_go(kind: Kind, how: str) -> None:
    map: FilterTrie | TopicTree | None = kind()
    assert map is not None
    map.set(b"other", 1)
    map.set(b"a/b", Value())
    watch = weakref.ref(map.get(b"a/b"))
    if how == "replace":
        map.set(b"a/b", 1)
    elif how == "pop":
        map.pop(b"a/b")
    elif how == "clear":
        map.clear()
    else:
        map = None
    assert watch() is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_cycle_through_the_map_is_collected(kind: Kind) -> None:
    map, value = kind(), Value()
    value.map = map  # type: ignore[attr-defined]
    map.set(b"a/b", value)
    watch = weakref.ref(value)
    del map, value
    gc.collect()
    assert watch() is None


class Meddler:
    """At its end it changes the map that it was in."""

    def __init__(self, map: FilterTrie | TopicTree, log: list[int]) -> None:
        self.map = map
        self.log = log

    def __del__(self) -> None:
        self.map.check()
        for i in range(200):
            self.map.set(b"new/%d" % i, i)
        self.log.append(len(search(self.map, b"new/7")))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["replace", "pop", "clear"])
def test_the_end_of_a_value_may_change_the_map(kind: Kind, how: str) -> None:
    map, log = kind(), list[int]()
    map.set(b"a/b", Meddler(map, log))
    if how == "replace":
        map.set(b"a/b", 1)
    elif how == "pop":
        map.pop(b"a/b")
    else:
        map.clear()
    assert log == [1]
    map.check()
    assert len(map) == 200 + (how == "replace")
