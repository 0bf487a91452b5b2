"""Scribe on Pastry, and Bayeux: trees of routes to, or from, the broker whose id is nearest to the topic's
hash.

A routing table's entry in row r and column d is any broker that shares r digits and has d next, drawn once
by a hash of broker and place, so that all routes see the same tables without anybody keeping them. In
Scribe a JOIN is routed to the root, and a subscriber's path is that route backwards; in Bayeux it is the
route from the root to the member.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

ID_BITS: Final = 48
LEAVES_PER_SIDE: Final = 8
DIGIT_BITS: Final = (1, 2, 3, 4)

Ids = NDArray[np.uint64]
Indexes = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Pastry:
    ids: Ids  # sorted
    digit_bits: int
    salt: int
    leaves: int = LEAVES_PER_SIDE

    def root_of(self, keys: Ids) -> Indexes:
        """The broker nearest to each key on the ring."""
        count = len(self.ids)
        above = np.searchsorted(self.ids, keys)
        up, down = above % count, (above - 1) % count
        mask = np.uint64((1 << ID_BITS) - 1)
        is_up = ((self.ids[up] - keys) & mask) < ((keys - self.ids[down]) & mask)
        return np.where(is_up, up, down)

    def hops(self, starts: Indexes, keys: Ids) -> Indexes:
        """The length of the route from each broker to the root of its key."""
        roots = self.root_of(keys)
        here = starts.copy()
        hops = np.zeros(len(starts), np.int64)
        while (here != roots).any():
            under_way = np.flatnonzero(here != roots)
            here[under_way] = self._next(here[under_way], keys[under_way], roots[under_way])
            hops[under_way] += 1
            if hops.max() > 4 * ID_BITS:
                raise AssertionError("a route doesn't end")
        return hops

    def _next(self, here: Indexes, keys: Ids, roots: Indexes) -> Indexes:
        count = len(self.ids)
        ahead = (roots - here) % count
        distance = np.minimum(ahead, count - ahead)
        row = (ID_BITS - _bit_length(self.ids[here] ^ keys)) // self.digit_bits
        shift = np.maximum(ID_BITS - (row + 1) * self.digit_bits, 0).astype(np.uint64)
        low = (keys >> shift) << shift
        begin, end = np.searchsorted(self.ids, low), np.searchsorted(self.ids, low + (np.uint64(1) << shift))
        size = end - begin
        drawn = self._drawn(here, low, row) % np.maximum(size, 1).astype(np.uint64)
        chosen = begin + drawn.astype(np.int64)
        # Nobody there: along the leaf set towards the root.
        direction = np.where(ahead <= count - ahead, 1, -1)
        leaf = (here + direction * np.minimum(distance, LEAVES_PER_SIDE)) % count
        return np.where(distance <= self.leaves, roots, np.where(size > 0, chosen, leaf))

    def _drawn(self, here: Indexes, low: Ids, row: Indexes) -> Ids:
        """The same number for the same place in the same broker's table."""
        mixed: Ids = self.ids[here] * np.uint64(0x9E3779B97F4A7C15) + low * np.uint64(0xD1B54A32D192ED03)
        mixed += row.astype(np.uint64) * np.uint64(0x94D049BB133111EB) + np.uint64(self.salt)
        for factor in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB):
            mixed = (mixed ^ (mixed >> np.uint64(31))) * np.uint64(factor)
        mixed ^= mixed >> np.uint64(29)
        return mixed


@dataclass(frozen=True, slots=True)
class Routes:
    """Hops of each subscriber."""

    tree: Indexes  # from the root
    publisher_to_root: int


def draw_ids(brokers: int, rng: np.random.Generator) -> Ids:
    ids = np.unique(rng.integers(0, 1 << ID_BITS, brokers, dtype=np.uint64))
    if len(ids) < brokers:
        raise AssertionError("two brokers drew the same id")
    return ids


def scribe(ids: Ids, digit_bits: int, subscribers: int, rng: np.random.Generator) -> Routes:
    """A topic with random members: routes to the root of its hash."""
    members = rng.choice(len(ids), subscribers + 1, replace=False)
    key = rng.integers(0, 1 << ID_BITS, 1, dtype=np.uint64)
    network = Pastry(ids, digit_bits, int(rng.integers(1 << 62)))
    hops = network.hops(members, np.repeat(key, len(members)))
    return Routes(hops[1:], int(hops[0]))


def bayeux(ids: Ids, digit_bits: int, subscribers: int, rng: np.random.Generator) -> Routes:
    """Routes from the root to every member, digit by digit and without leaf sets."""
    members = rng.choice(len(ids), subscribers + 1, replace=False)
    key = rng.integers(0, 1 << ID_BITS, 1, dtype=np.uint64)
    network = Pastry(ids, digit_bits, int(rng.integers(1 << 62)), leaves=0)
    root = network.root_of(key)
    hops = network.hops(np.repeat(root, subscribers), ids[members[1:]])
    return Routes(hops, int(network.hops(members[:1], ids[root])[0]))


def _bit_length(numbers: Ids) -> Indexes:
    """Exact, since a float holds 53 bits."""
    return np.frexp(numbers.astype(np.float64))[1].astype(np.int64)
