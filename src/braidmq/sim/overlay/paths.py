"""One run of the paper's set-up: path lengths of every method for every number of subscribers."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import sqrt
from random import Random
from statistics import fmean, pstdev
from typing import Final

import numpy as np

from braidmq.sim.overlay import can, pastry
from braidmq.sim.overlay.closed_form import flexible_entries, skip_graph_entries
from braidmq.sim.overlay.network import Network, Topic, draw_network
from braidmq.sim.overlay.printed import TABLE_SIZES
from braidmq.sim.overlay.trees import CHILD_MS, LINK_MS, NODE_MS, Tree, deliver
from braidmq.sim.runner import derive_seed

SG_TBPS: Final = "SG-TBPS"
SINGLE: Final = "single broker"
CHILDREN_OF_MODEL: Final = 10  # the paper's number of children on paths of more than one hop


@dataclass(frozen=True, slots=True)
class PathTask:
    brokers: int
    subscribers: tuple[int, ...]
    number: int  # of the run
    seed: int
    with_dhts: bool = True
    with_can: bool = True


@dataclass(frozen=True, slots=True)
class Measured:
    """One publication to one topic by one method."""

    subscribers: int
    method: str
    hops_mean: float
    hops_max: int
    exact_mean_ms: float  # children served one after the other; nan where a method's tree isn't built
    exact_max_ms: float
    children_max: int


@dataclass(frozen=True, slots=True)
class PathRow:
    """The average of several runs."""

    subscribers: int
    method: str
    runs: int
    hops_mean: float
    hops_deviation: float  # of one run
    hops_max: float
    model_ms: float  # the paper's delay model
    exact_mean_ms: float
    exact_max_ms: float
    children_max: float


def run_paths(task: PathTask) -> list[Measured]:
    network = draw_network(task.brokers, task.subscribers, derive_seed(task.seed, "network", task.number))
    measured = [one for topic in network.topics.values() for one in over_skip_graph(network, topic)]
    measured += [single_broker(count) for count in task.subscribers]
    if task.with_dhts:
        measured += over_dhts(task)
    if task.with_can:
        measured += over_can(task)
    return measured


def over_skip_graph(network: Network, topic: Topic) -> Iterator[Measured]:
    """SG-TBPS, and the proposal by both readings: P (the publisher's table is flexible) and F
    (everybody's).
    """
    end = topic.subscribers + 1
    plain = skip_graph_entries(topic)
    yield of_tree(SG_TBPS, deliver(plain, plain, end))
    for entries_max in TABLE_SIZES:
        flexible = flexible_entries(topic, network.vectors, entries_max)
        yield of_tree(f"P, L={entries_max}", deliver(flexible, plain, end))
        yield of_tree(f"F, L={entries_max}", deliver(flexible, flexible, end))


def of_tree(method: str, tree: Tree) -> Measured:
    arrivals = tree.arrival_ms[1:]
    return Measured(
        len(tree.hops) - 1,
        method,
        tree.hops_mean,
        tree.hops_max,
        float(arrivals.mean()),
        float(arrivals.max()),
        int(tree.children.max()),
    )


def single_broker(count: int) -> Measured:
    first, last = NODE_MS + LINK_MS + CHILD_MS, NODE_MS + LINK_MS + CHILD_MS * count
    return Measured(count, SINGLE, 1.0, 1, (first + last) / 2, last, count)


def over_dhts(task: PathTask) -> Iterator[Measured]:
    rng = np.random.default_rng(derive_seed(task.seed, "pastry", task.number))
    ids = pastry.draw_ids(task.brokers, rng)
    for count in task.subscribers:
        for bits in pastry.DIGIT_BITS:
            routes = pastry.scribe(ids, bits, count, rng)
            yield of_hops(f"Scribe b={bits}, tree", routes.tree)
            yield of_hops(f"Scribe b={bits}", routes.tree + 1)  # the publisher knows the root's address
            yield of_hops(f"Scribe b={bits}, full", routes.tree + routes.publisher_to_root)
        yield of_hops("Bayeux b=4", pastry.bayeux(ids, 4, count, rng).tree + 1)


def over_can(task: PathTask) -> Iterator[Measured]:
    for count in task.subscribers:
        for dimensions in can.DIMENSIONS:
            rng = Random(derive_seed(task.seed, "can", task.number, count, dimensions))
            hops, _ = can.flood(can.draw_torus(count + 1, dimensions, rng))
            yield of_hops(f"CAN-MC d={dimensions}", hops[1:])


def of_hops(method: str, hops: "Sequence[int] | pastry.Indexes") -> Measured:
    nan = float("nan")
    return Measured(len(hops), method, float(np.mean(hops)), int(np.max(hops)), nan, nan, 0)


def averaged(runs: Iterable[Sequence[Measured]]) -> list[PathRow]:
    cells: dict[tuple[int, str], list[Measured]] = {}
    for run in runs:
        for one in run:
            cells.setdefault((one.subscribers, one.method), []).append(one)
    return [_average(ones) for ones in cells.values()]


def _average(ones: Sequence[Measured]) -> PathRow:
    hops = [one.hops_mean for one in ones]
    return PathRow(
        ones[0].subscribers,
        ones[0].method,
        len(ones),
        fmean(hops),
        pstdev(hops) * sqrt(len(ones) / max(1, len(ones) - 1)),
        fmean(one.hops_max for one in ones),
        model_ms(fmean(hops), ones[0].subscribers),
        fmean(one.exact_mean_ms for one in ones),
        fmean(one.exact_max_ms for one in ones),
        fmean(one.children_max for one in ones),
    )


def model_ms(hops: float, subscribers: int) -> float:
    """Section 4.1 of the paper: so much per hop, with all subscribers as children where there is only one
    hop.
    """
    children = CHILDREN_OF_MODEL if hops > 1 else subscribers
    return hops * (NODE_MS + LINK_MS + CHILD_MS * children)
