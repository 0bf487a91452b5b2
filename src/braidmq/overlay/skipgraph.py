"""A whole Skip Graph in one place: insertion, deletion, search and neighbours, as Aspnes and Shah define
them.

Nodes of a network only know their own tables. This one knows everything, so it is what they are held
against: after all is quiet, a node's table contains what `neighbours` says. Level i has one sorted list for
each prefix of i bits; a node is in the lists of its own prefixes up to the level where it is alone.
"""

from bisect import bisect_left, insort

from braidmq.overlay.keys import VECTOR_BITS, common_level, vector_of
from braidmq.overlay.table import Side


class SkipGraph:
    def __init__(self) -> None:
        self._lists: dict[tuple[int, int], list[bytes]] = {}  # (level, prefix): keys
        self._vectors: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._vectors)

    def __contains__(self, key: bytes) -> bool:
        return key in self._vectors

    def keys(self) -> list[bytes]:
        """All keys in order: the list of level 0."""
        return list(self._lists.get((0, 0), ()))

    def insert(self, key: bytes, vector: int | None = None) -> None:
        if key in self._vectors:
            return
        vector = vector_of(key) if vector is None else vector
        self._vectors[key] = vector
        for level in range(VECTOR_BITS + 1):
            members = self._lists.setdefault((level, vector >> (VECTOR_BITS - level)), [])
            insort(members, key)
            if len(members) == 1:
                return
            if len(members) == 2:  # the one that was alone here now has company one level higher
                other = members[0] if members[1] == key else members[1]
                self._climb(other, level + 1)

    def _climb(self, key: bytes, level: int) -> None:
        if level <= VECTOR_BITS:
            members = self._lists.setdefault((level, self._vectors[key] >> (VECTOR_BITS - level)), [])
            if key not in members:
                insort(members, key)

    def delete(self, key: bytes) -> None:
        vector = self._vectors.pop(key)
        for level in range(VECTOR_BITS, -1, -1):
            place = (level, vector >> (VECTOR_BITS - level))
            members = self._lists.get(place)
            if members is None or key not in members:
                continue
            members.remove(key)
            if not members:
                del self._lists[place]
            elif len(members) == 1:
                self._sink(members[0], level + 1)

    def _sink(self, key: bytes, level: int) -> None:
        """A node that is alone on a level is on no higher one."""
        for higher in range(level, VECTOR_BITS + 1):
            if self._lists.pop((higher, self._vectors[key] >> (VECTOR_BITS - higher)), None) is None:
                return

    def height(self, key: bytes) -> int:
        """The highest level on which the node has company; -1 if it is alone in the graph."""
        vector = self._vectors[key]
        level = 0
        while len(self._lists.get((level, vector >> (VECTOR_BITS - level)), ())) > 1:
            level += 1
        return level - 1

    def neighbour(self, key: bytes, side: Side, level: int) -> bytes | None:
        members = self._lists.get((level, self._vectors[key] >> (VECTOR_BITS - level)), [])
        index = bisect_left(members, key) + (1 if side is Side.RIGHT else -1)
        return members[index] if 0 <= index < len(members) and members[index] != key else None

    def neighbours(self, key: bytes) -> set[bytes]:
        """Neighbours on all levels and both sides."""
        found = {self.neighbour(key, side, level) for side in Side for level in range(self.height(key) + 1)}
        return {other for other in found if other is not None}

    def search(self, start: bytes, target: bytes) -> list[bytes]:
        """The path from a node to the one with the target key, or to the last before it on this side."""
        path, here = [start], start
        side = Side.RIGHT if target > start else Side.LEFT
        while here != target:
            steps = (self.neighbour(here, side, level) for level in range(self.height(here), -1, -1))
            step = next((key for key in steps if key is not None and _reaches(key, target, side)), None)
            if step is None:
                break
            path.append(step)
            here = step
        return path

    def check(self) -> None:
        """Raises AssertionError if a list is not what its level and prefix say."""
        assert self.keys() == sorted(self._vectors)
        for (level, prefix), members in self._lists.items():
            assert members == sorted(set(members))
            assert all(self._vectors[key] >> (VECTOR_BITS - level) == prefix for key in members)
            if level and len(self._lists[level - 1, prefix >> 1]) == 1:
                raise AssertionError("a node is alone on a level and is on a higher one")
        for key, vector in self._vectors.items():
            levels = [common_level(vector, other) for name, other in self._vectors.items() if name != key]
            assert self.height(key) == max(levels, default=-1)


def _reaches(key: bytes, target: bytes, side: Side) -> bool:
    return key <= target if side is Side.RIGHT else key >= target
