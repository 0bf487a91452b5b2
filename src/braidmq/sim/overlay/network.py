"""The paper's set-up: brokers with five virtual nodes each, ten measured topics among many small ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.uint64]

VECTOR_BITS: Final = 48
VIRTUAL_NODES_PER_BROKER: Final = 5
PUBLISHERS_MAX: Final = 3  # of a topic that isn't measured
SUBSCRIBERS_MAX: Final = 19


@dataclass(frozen=True, slots=True)
class Topic:
    """One publisher and its subscribers in key order, with the virtual nodes next to them on both sides."""

    vectors: Vectors  # the publisher's, then the subscribers'
    beside: tuple[int, int]  # vectors of the nodes of other topics before and after

    @property
    def subscribers(self) -> int:
        return len(self.vectors) - 1


@dataclass(frozen=True, slots=True)
class Network:
    brokers: int
    vectors: Vectors  # of all virtual nodes, sorted
    topics: dict[int, Topic]  # by subscribers


def draw_network(brokers: int, subscribers: Sequence[int], seed: int) -> Network:
    rng = np.random.default_rng(seed)
    total = VIRTUAL_NODES_PER_BROKER * brokers
    sizes = [count + 1 for count in subscribers]
    if max(subscribers) >= brokers or sum(sizes) > total:
        raise ValueError(f"{brokers} brokers have no room for topics of {max(subscribers)} subscribers")
    filler = total - sum(sizes)
    while filler:
        size = rng.integers(1, PUBLISHERS_MAX + 1) + rng.integers(0, SUBSCRIBERS_MAX + 1)
        sizes.append(min(int(size), filler))
        filler -= sizes[-1]
    vectors = rng.integers(0, 1 << VECTOR_BITS, total, dtype=np.uint64)
    starts = _shuffled_starts(np.array(sizes), rng)
    topics = {}
    for number, count in enumerate(subscribers):
        start, stop = int(starts[number]), int(starts[number]) + count + 1
        beside = (int(vectors[start - 1]), int(vectors[stop % total]))
        topics[count] = Topic(vectors[start:stop], beside)
    return Network(brokers, np.sort(vectors), topics)


def _shuffled_starts(sizes: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Where each topic begins when topics stand in random order."""
    order = rng.permutation(len(sizes))
    ends = np.cumsum(sizes[order])
    starts = np.empty(len(sizes), np.int64)
    starts[order] = ends - sizes[order]
    return starts
