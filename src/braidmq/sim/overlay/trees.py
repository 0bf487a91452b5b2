"""The tree of one publication over given routing tables, a generation at a time."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from braidmq.sim.overlay.closed_form import Entries, Positions

NODE_MS: Final = 1.0
LINK_MS: Final = 10.0
CHILD_MS: Final = 0.1


@dataclass(frozen=True, slots=True)
class Tree:
    """Of each node of the topic, the publisher first."""

    parents: Positions
    hops: Positions
    arrival_ms: "np.ndarray[tuple[int], np.dtype[np.float64]]"  # children are served one after the other
    children: Positions

    @property
    def hops_mean(self) -> float:
        return float(self.hops[1:].mean())

    @property
    def hops_max(self) -> int:
        return int(self.hops[1:].max())


def deliver(first: Entries, others: Entries, end: int) -> Tree:
    """The publisher delegates by its entries in `first`, subscribers by theirs in `others`. `end`: nodes in
    all.
    """
    tree = Tree(np.full(end, -1), np.full(end, -1), np.zeros(end), np.zeros(end, np.int64))
    tree.hops[0] = 0
    nodes, ends, entries = np.array([0]), np.array([end]), first
    while len(nodes):
        counts = entries.starts[nodes + 1] - entries.starts[nodes]
        offsets = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        targets = entries.targets[np.repeat(entries.starts[nodes], counts) + offsets]
        limits, parents = np.repeat(ends, counts), np.repeat(nodes, counts)
        inside = targets < limits
        targets, limits, parents = targets[inside], limits[inside], parents[inside]
        is_last = np.append(parents[1:] != parents[:-1], True)[: len(parents)]
        part_ends = np.where(is_last, limits, np.append(targets[1:], 0)[: len(targets)])
        _hand_over(tree, parents, targets)
        nodes, ends, entries = targets, part_ends, others
    if (tree.hops < 0).any():
        raise AssertionError("a subscriber was not reached")
    return tree


def _hand_over(tree: Tree, parents: Positions, children: Positions) -> None:
    if (tree.hops[children] >= 0).any():
        raise AssertionError("a subscriber was reached twice")
    tree.parents[children] = parents
    tree.hops[children] = tree.hops[parents] + 1
    np.add.at(tree.children, parents, 1)
    # The farthest child is served first.
    ends = np.flatnonzero(np.append(parents[1:] != parents[:-1], True)[: len(parents)])
    places = np.arange(len(parents))
    turn = ends[np.searchsorted(ends, places)] - places
    tree.arrival_ms[children] = tree.arrival_ms[parents] + NODE_MS + LINK_MS + CHILD_MS * (turn + 1)
