"""Routing tables after everybody has learned what there is to learn, without sending a message.

What a flexible table converges to has a closed form: levels are filled evenly (water-filling) up to what
fits, and of each level the nearest keys of both sides are kept. Here it is computed for all nodes of a
topic at once. Only entries to the right are returned, since a publication travels from the publisher, left
of all subscribers, to the right. Entries are positions in the topic: 0 is the publisher, 1 the first
subscriber.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from braidmq.sim.overlay.network import VECTOR_BITS, Topic, Vectors

Positions = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Entries:
    """Entries to the right of each node, in key order: those of node n are targets[starts[n]:starts[n +
    1]].
    """

    starts: Positions
    targets: Positions

    def of(self, node: int) -> Positions:
        return self.targets[self.starts[node] : self.starts[node + 1]]


@dataclass(frozen=True, slots=True)
class _Level:
    """One level of the topic, for every node: the subscribers that share exactly so many bits with it."""

    order: Positions  # positions of all subscribers by prefix, then key
    begin: Positions  # where a node's siblings begin in `order`
    middle: Positions  # where those on its right begin
    end: Positions


def skip_graph_entries(topic: Topic) -> Entries:
    """The nearest on the right on each level."""
    count = topic.subscribers + 1
    rows, targets = [], []
    for bits in range(VECTOR_BITS + 1):
        prefixes = topic.vectors >> np.uint64(VECTOR_BITS - bits)
        order = np.lexsort((np.arange(1, count), prefixes[1:])) + 1
        ranks = _packed(prefixes[order], order, count)
        places = np.searchsorted(ranks, _packed(prefixes, np.arange(count), count), side="right")
        nodes = np.flatnonzero(places < len(order))
        nodes = nodes[prefixes[order[places[nodes]]] == prefixes[nodes]]
        if not len(nodes):
            break
        rows.append(nodes)
        targets.append(order[places[nodes]])
    return _gathered(rows, targets, count)


def flexible_entries(topic: Topic, network: Vectors, entries_max: int) -> Entries:
    """What a table of `entries_max` converges to."""
    levels = _levels_of(topic)
    left = np.array([level.middle - level.begin for level in levels])
    right = np.array([level.end - level.middle for level in levels])
    room = entries_max - others_kept(topic, network, left + right)
    quotas = water_filled(left + right, room)
    kept = np.minimum(right, np.maximum(quotas - left, (quotas + 1) // 2))
    rows, targets = [], []
    nodes = np.arange(topic.subscribers + 1)
    for level, counts in zip(levels, kept, strict=True):
        rows.append(np.repeat(nodes, counts))
        targets.append(level.order[np.repeat(level.middle, counts) + _counting_up(counts)])
    return _gathered(rows, targets, topic.subscribers + 1)


def others_kept(topic: Topic, network: Vectors, counts: Positions) -> Positions:
    """Entries that aren't subscribers of the topic and can't be evicted, of each node.

    One for every level that has nodes but no subscriber, and level-0 neighbours of other topics or kinds.
    """
    vectors = topic.vectors
    levels = len(counts)
    kept = np.zeros(len(vectors), np.int64)
    with_prefix = np.full(len(vectors), len(network))
    for level in range(VECTOR_BITS):
        shift = np.uint64(VECTOR_BITS - level - 1)
        low = (vectors >> shift) << shift
        deeper = np.searchsorted(network, low + (np.uint64(1) << shift)) - np.searchsorted(network, low)
        has_nodes = with_prefix > deeper
        kept += has_nodes & (counts[level] == 0 if level < levels else True)
        with_prefix = deeper
        if (with_prefix <= 1).all():
            break
    before, after = topic.beside
    for node, neighbour in ((0, before), (1, int(vectors[0])), (len(vectors) - 1, after)):
        level = VECTOR_BITS - (int(vectors[node]) ^ neighbour).bit_length()
        kept[node] += level < levels and counts[level][node] > 0
    return kept


def water_filled(counts: Positions, room: Positions) -> Positions:
    """Lower the fullest level, of equals the lowest, until each column's sum fits its room."""
    depth = np.zeros(counts.shape[1], np.int64)
    step = 1 << int(max(1, counts.max())).bit_length()
    while step:
        fits = np.minimum(counts, depth + step).sum(axis=0) <= room
        depth += step * fits
        step //= 2
    filled: Positions = np.minimum(counts, depth)
    taller = counts > depth
    spare = room - filled.sum(axis=0)
    rank_from_top = np.cumsum(taller[::-1], axis=0)[::-1]
    filled += taller & (rank_from_top <= spare)
    return filled


def _levels_of(topic: Topic) -> list[_Level]:
    count = topic.subscribers + 1
    positions = np.arange(count)
    levels = []
    for level in range(VECTOR_BITS):
        prefixes = topic.vectors >> np.uint64(VECTOR_BITS - level - 1)
        order = np.lexsort((positions[1:], prefixes[1:])) + 1
        ranks = _packed(prefixes[order], order, count)
        siblings = prefixes ^ np.uint64(1)
        begin, end = (np.searchsorted(ranks, _packed(siblings, edge, count)) for edge in (0, count))
        levels.append(_Level(order, begin, np.searchsorted(ranks, _packed(siblings, positions, count)), end))
        if len(np.unique(prefixes)) == count:
            break
    return levels


def _packed(prefixes: Vectors, positions: Positions | int, count: int) -> Vectors:
    """Prefix and position as one number; levels end, where every prefix is unique, long before 64 bits are
    full.
    """
    packed: Vectors = prefixes * np.uint64(count + 1) + np.asarray(positions, np.uint64)
    return packed


def _counting_up(counts: Positions) -> Positions:
    """0, 1, .. for each count, one after the other."""
    ends = np.cumsum(counts)
    return np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - counts, counts)


def _gathered(rows: list[Positions], targets: list[Positions], count: int) -> Entries:
    pairs = np.unique(np.concatenate(rows) * count + np.concatenate(targets))
    starts = np.searchsorted(pairs, np.arange(count + 1) * count)
    return Entries(starts, pairs % count)
