"""The routing table of one virtual node: at most `entries_max` peers, and which of them goes when there are
more.

Kept sorted by key in three parallel sequences (keys, peers, levels), because everything asked of a table is
a question about neighbours in key order, and because subscribers of the own topic are then one slice and
all counting is done by bytearray.count. An insertion costs O(entries) memory moves and O(levels) steps of
Python.

The order of tables is that of the paper's ten propositions with two repairs. B5 compares the size of the
fullest level before how many levels are as full: as printed, a single fullest level may never shrink, and
the table ends as "the nearest 45 nodes". B9 and B10 contradict each other: the heavier side loses its
farthest key instead.
"""

from bisect import bisect_left
from collections.abc import Iterator
from enum import Enum

from braidmq.overlay.keys import KeyRange, Kind, after, common_level, range_of, topic_of, vector_of


class Peer:
    """A virtual node as others know it. Of two with the same key the one with the higher `boot` is the
    living.
    """

    __slots__ = ("address", "boot", "key", "vector")

    def __init__(self, key: bytes, address: str, boot: int) -> None:
        self.key = key
        self.address = address
        self.boot = boot
        self.vector = vector_of(key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Peer) and self.key == other.key and self.boot == other.boot

    def __hash__(self) -> int:
        return hash((self.key, self.boot))

    def __repr__(self) -> str:
        return f"Peer({self.key!r}, {self.address!r}, {self.boot})"


class Side(Enum):
    LEFT = 0
    RIGHT = 1


class Shape(Enum):
    """What a table keeps."""

    SKIP_GRAPH = "skip graph"  # the nearest of each level on both sides, as SG-TBPS has it
    FLEXIBLE = "flexible"  # as many as fit, subscribers of the own topic first


_Zones = tuple[list[tuple[int, int]], list[tuple[int, int]]]  # index ranges left and right of the owner


class RoutingTable:
    __slots__ = ("_subscribers", "entries_max", "keys", "levels", "near_count", "owner", "peers", "shape")

    def __init__(
        self, owner: Peer, entries_max: int, near_count: int = 1, shape: Shape = Shape.FLEXIBLE
    ) -> None:
        """`near_count`: how many of the nearest on each side are never evicted."""
        if entries_max <= 2 * near_count:
            raise ValueError(f"a table of {entries_max} entries can't keep {near_count} neighbours a side")
        self.owner = owner
        self.entries_max = entries_max
        self.near_count = near_count
        self.shape = shape
        self.keys: list[bytes] = []
        self.peers: list[Peer] = []
        self.levels = bytearray()
        self._subscribers = range_of(topic_of(owner.key), Kind.SUBSCRIBER)

    def __len__(self) -> int:
        return len(self.keys)

    def __iter__(self) -> Iterator[Peer]:
        return iter(self.peers)

    def __contains__(self, key: bytes) -> bool:
        return self.get(key) is not None

    def get(self, key: bytes) -> Peer | None:
        index = bisect_left(self.keys, key)
        return self.peers[index] if index < len(self.keys) and self.keys[index] == key else None

    # -- change ------------------------------------------------------------------------------------------

    def add(self, peer: Peer) -> bool:
        """True if the peer is new and was kept. A newer boot takes the place of an older."""
        key = peer.key
        index = bisect_left(self.keys, key)
        if index < len(self.keys) and self.keys[index] == key:
            if peer.boot > self.peers[index].boot:
                self.peers[index] = peer
            return False
        if key == self.owner.key:
            return False
        self.keys.insert(index, key)
        self.peers.insert(index, peer)
        self.levels.insert(index, common_level(self.owner.vector, peer.vector))
        if self.shape is Shape.SKIP_GRAPH:
            self._drop_all_but_level_neighbours(Side.LEFT if key < self.owner.key else Side.RIGHT)
            return key in self
        if len(self.keys) > self.entries_max:
            victim = self.victim()
            self._remove_at(victim)
            return victim != index
        return True

    def remove(self, key: bytes) -> Peer | None:
        index = bisect_left(self.keys, key)
        if index == len(self.keys) or self.keys[index] != key:
            return None
        return self._remove_at(index)

    def _remove_at(self, index: int) -> Peer:
        del self.keys[index]
        del self.levels[index]
        return self.peers.pop(index)

    def victim(self) -> int:
        """Which entry goes: the one without which the table is greatest in the order of tables."""
        levels = self.levels
        others, subscribers = self._candidates()
        counts = [levels.count(level) for level in range(max(levels) + 1)]
        for zones in (others, subscribers):  # B3: subscribers of the own topic stay longest
            best = -1
            for level, count in enumerate(counts):  # B5 (repaired) and B7: fullest, then lowest level
                crowded = count >= 2 and (best < 0 or count > counts[best])  # B1: no level is emptied
                if crowded and (_count(levels, level, zones[0]) or _count(levels, level, zones[1])):
                    best = level
            if best >= 0:
                return self._farthest(best, zones)
        return self._only_one_a_level(others, subscribers)

    def _farthest(self, level: int, zones: _Zones) -> int:
        """B9 and B10 (repaired): the farthest key of the heavier side, of equals the left."""
        left, right = zones
        if _count(self.levels, level, right) > _count(self.levels, level, left):
            return max(self.levels.rfind(level, *zone) for zone in right)
        found = [self.levels.find(level, *zone) for zone in left]
        return min(index for index in found if index >= 0)

    def _only_one_a_level(self, others: _Zones, subscribers: _Zones) -> int:
        """More levels than entries: a level must be emptied. Not the highest, if there is a choice."""
        by_kind = [
            [index for side in zones for zone in side for index in range(*zone)]
            for zones in (others, subscribers)
        ]
        highest = max(self.levels)
        for spare_highest in (True, False):
            for indexes in by_kind:
                low = [index for index in indexes if self.levels[index] != highest or not spare_highest]
                if low:
                    return min(low, key=lambda index: self.levels[index])
        raise AssertionError("a table has more room than its neighbours need")

    def _candidates(self) -> tuple[_Zones, _Zones]:
        """Where entries stand that may go: others, and subscribers of the own topic."""
        keys, count = self.keys, len(self.keys)
        own = bisect_left(keys, self.owner.key)
        near_left, near_right = max(0, own - self.near_count), min(count, own + self.near_count)
        first = bisect_left(keys, self._subscribers.low)
        last = bisect_left(keys, self._subscribers.high)
        others = ([(0, min(near_left, first))], [(near_right, first), (max(near_right, last), count)])
        subscribers = ([(first, near_left)], [(max(near_right, first), last)])
        return others, subscribers

    def _drop_all_but_level_neighbours(self, side: Side) -> None:
        """Going outwards, an entry is a neighbour on some level if its level is higher than all before it."""
        highest = -1
        own = bisect_left(self.keys, self.owner.key)
        outwards = range(own - 1, -1, -1) if side is Side.LEFT else range(own, len(self.keys))
        dropped = []
        for distance, index in enumerate(outwards):
            if self.levels[index] > highest:
                highest = self.levels[index]
            elif distance >= self.near_count:
                dropped.append(index)
        for index in sorted(dropped, reverse=True):
            self._remove_at(index)

    # -- questions ---------------------------------------------------------------------------------------

    def near(self, side: Side, count: int | None = None) -> list[Peer]:
        """The nearest entries on a side, the nearest first."""
        count = self.near_count if count is None else count
        own = bisect_left(self.keys, self.owner.key)
        if side is Side.RIGHT:
            return self.peers[own : own + count]
        return self.peers[max(0, own - count) : own][::-1]

    def neighbour(self, side: Side, level: int = 0) -> Peer | None:
        """The nearest known entry on a side that shares at least `level` bits."""
        own = bisect_left(self.keys, self.owner.key)
        levels = self.levels
        for index in range(own - 1, -1, -1) if side is Side.LEFT else range(own, len(levels)):
            if levels[index] >= level:
                return self.peers[index]
        return None

    def between(self, keys: KeyRange) -> list[Peer]:
        """Known entries in a range, in key order."""
        return self.peers[bisect_left(self.keys, keys.low) : bisect_left(self.keys, keys.high)]

    def closest(self, target: bytes) -> Peer | None:
        """The entry nearest to a target among those between it and the owner; None if nobody is nearer."""
        owner = self.owner.key
        if target > owner:
            index = bisect_left(self.keys, target) - 1
            return self.peers[index] if index >= 0 and self.keys[index] > owner else None
        index = bisect_left(self.keys, after(target))
        return self.peers[index] if index < len(self.keys) and self.keys[index] < owner else None

    def known_vectors(self) -> frozenset[int]:
        return frozenset([peer.vector for peer in self.peers])

    def free_slots(self) -> int:
        """How many subscribers of the own topic would still find room: empty slots and entries they push out.

        The paper counts empty slots alone. A table once full of others then never learns who subscribes
        later.
        """
        levels = self.levels
        free = self.entries_max - len(levels)
        if not levels:
            return free
        others, _ = self._candidates()
        replaceable = 0
        for level in set(levels):
            count = _count(levels, level, others[0]) + _count(levels, level, others[1])
            replaceable += min(count, levels.count(level) - 1)
        return free + max(0, replaceable - 1)

    def check(self) -> None:
        """Raises AssertionError if the table is not what it promises to be."""
        assert self.keys == sorted(set(self.keys))
        assert self.keys == [peer.key for peer in self.peers]
        assert self.owner.key not in self.keys
        assert list(self.levels) == [common_level(self.owner.vector, peer.vector) for peer in self.peers]
        assert self.shape is Shape.SKIP_GRAPH or len(self.keys) <= self.entries_max


def _count(levels: bytearray, level: int, zones: list[tuple[int, int]]) -> int:
    return sum([levels.count(level, low, high) for low, high in zones if low < high])
