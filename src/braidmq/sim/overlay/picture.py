"""A picture that moves: one topic's tree as its subscribers come, beside SG-TBPS's, in one web page."""

import json
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

import numpy as np

from braidmq.sim.overlay.closed_form import Positions, flexible_entries, skip_graph_entries
from braidmq.sim.overlay.network import Topic, Vectors, draw_network
from braidmq.sim.overlay.paths import SG_TBPS
from braidmq.sim.overlay.printed import BROKERS, TABLE_SIZES
from braidmq.sim.overlay.trees import Tree, deliver
from braidmq.sim.runner import derive_seed

SUBSCRIBERS_MAX: Final = 640
STEPS: Final = (
    1, 2, 3, 5, 8, 10, 15, 20, 25, 30, 35, 40, 45, 50, 60, 70, 80, 90, 100, 120, 140, 160, 200, 240, 280, 320,
    400, 480, 560, 640,
)  # fmt: skip
_PLACE = "/*DATA*/"


@dataclass(frozen=True, slots=True)
class Frame:
    """The topic with so many subscribers: who they are, and each method's tree over them."""

    members: list[int]  # of all that will ever come, in key order
    parents: dict[str, list[int]]  # by method: position of each member's parent, 0 is the publisher


def frames(seed: int) -> list[Frame]:
    network = draw_network(BROKERS, [SUBSCRIBERS_MAX], derive_seed(seed, "picture"))
    topic = network.topics[SUBSCRIBERS_MAX]
    arrivals = np.random.default_rng(derive_seed(seed, "arrivals")).permutation(SUBSCRIBERS_MAX)
    return [_frame(topic, network.vectors, np.sort(arrivals[:count])) for count in STEPS]


def _frame(topic: Topic, network: Vectors, present: Positions) -> Frame:
    some = Topic(np.append(topic.vectors[:1], topic.vectors[1:][present]), topic.beside)
    plain, end = skip_graph_entries(some), len(present) + 1
    trees: dict[str, Tree] = {SG_TBPS: deliver(plain, plain, end)}
    for entries_max in TABLE_SIZES:
        flexible = flexible_entries(some, network, entries_max)
        trees[f"L={entries_max}"] = deliver(flexible, flexible, end)
    return Frame(present.tolist(), {name: tree.parents[1:].tolist() for name, tree in trees.items()})


def page(seed: int) -> str:
    """The whole page, with nothing to load from elsewhere."""
    found = frames(seed)
    data = {
        "seed": seed,
        "brokers": BROKERS,
        "most": SUBSCRIBERS_MAX,
        "frames": [{"members": frame.members, "parents": frame.parents} for frame in found],
    }
    template = files("braidmq.sim.overlay").joinpath("picture.html").read_text()
    return template.replace(_PLACE, json.dumps(data, separators=(",", ":")))
