"""Converged tables and their trees, against tables that really were offered everybody."""

import csv
from pathlib import Path
from random import Random
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from braidmq.overlay.keys import VECTOR_BITS as KEY_VECTOR_BITS
from braidmq.overlay.keys import Kind, key_of
from braidmq.overlay.table import Peer, RoutingTable, Shape
from braidmq.sim.overlay import can, pastry, printed
from braidmq.sim.overlay.closed_form import flexible_entries, skip_graph_entries, water_filled
from braidmq.sim.overlay.network import VECTOR_BITS, Topic, draw_network
from braidmq.sim.overlay.paths import model_ms
from braidmq.sim.overlay.trees import deliver

KEPT = Path(__file__).parents[3] / "docs" / "experiments" / "overlay"


@given(st.lists(st.integers(0, 30), min_size=1, max_size=8), st.integers(0, 80))
def test_levels_are_lowered_from_the_fullest(counts: list[int], room: int) -> None:
    left = list(counts)
    while sum(left) > room:
        left[left.index(max(left))] -= 1
    filled = water_filled(np.array(counts).reshape(-1, 1), np.array([room]))
    assert filled[:, 0].tolist() == left


def offered_everybody(topic: Topic, shape: Shape, entries_max: int, seed: int) -> list[list[int]]:
    """The entries to the right of every node of a topic, learned one by one in random order."""
    keys = [key_of("m", Kind.SUBSCRIBER if position else Kind.PUBLISHER, position)
            for position in range(topic.subscribers + 1)]  # fmt: skip
    peers = [peer_with(key, int(vector)) for key, vector in zip(keys, topic.vectors, strict=True)]
    beside = [peer_with(key_of("a", Kind.SUBSCRIBER, 0), topic.beside[0]),
              peer_with(key_of("z", Kind.SUBSCRIBER, 0), topic.beside[1])]  # fmt: skip
    found = []
    for owner in peers:
        table = RoutingTable(owner, entries_max, 1, shape)
        for one in Random(seed).sample([*peers, *beside], len(peers) + 2):
            table.add(one)
        found.append([keys.index(key) for key in table.keys if key > owner.key and key in keys])
    return found


def peer_with(key: bytes, vector: int) -> Peer:
    peer = Peer(key, "b", 0)
    peer.vector = vector << (KEY_VECTOR_BITS - VECTOR_BITS)
    return peer


def small_topic(count: int, seed: int) -> Topic:
    rng = np.random.default_rng(seed)
    vectors = rng.integers(0, 1 << VECTOR_BITS, count + 3, dtype=np.uint64)
    return Topic(vectors[: count + 1], (int(vectors[-2]), int(vectors[-1])))


@settings(max_examples=12)
@given(st.integers(1, 60), st.integers(0, 10**6))
def test_plain_tables_are_those_that_are_learned(count: int, seed: int) -> None:
    topic = small_topic(count, seed)
    entries = skip_graph_entries(topic)
    learned = offered_everybody(topic, Shape.SKIP_GRAPH, 60, seed)
    assert [entries.of(node).tolist() for node in range(count + 1)] == learned


@settings(max_examples=12)
@given(st.integers(1, 70), st.integers(0, 10**6))
def test_flexible_tables_are_those_that_are_learned(count: int, seed: int) -> None:
    """Up to one entry a node: the order of arrival decides between levels that are equally full."""
    topic = small_topic(count, seed)
    network = np.sort(np.append(topic.vectors, np.array(topic.beside, np.uint64)))
    entries = flexible_entries(topic, network, 24)
    learned = offered_everybody(topic, Shape.FLEXIBLE, 24, seed)
    apart = [len(set(entries.of(node).tolist()) ^ set(learned[node])) for node in range(count + 1)]
    assert max(apart) <= 4
    assert fmean(apart) <= 1.5


def test_every_subscriber_is_reached_once_and_by_short_paths() -> None:
    network = draw_network(400, [10, 40, 160], 3)
    for count, topic in network.topics.items():
        plain, flexible = skip_graph_entries(topic), flexible_entries(topic, network.vectors, 60)
        trees = [deliver(plain, plain, count + 1), deliver(flexible, plain, count + 1),
                 deliver(flexible, flexible, count + 1)]  # fmt: skip
        means = [tree.hops_mean for tree in trees]
        assert means == sorted(means, reverse=True)
        assert all(tree.children.sum() == count for tree in trees)
        if count <= 40:
            assert means[1:] == [1.0, 1.0]


def test_a_network_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="no room"):
        draw_network(100, [200], 1)


def test_the_delay_model_is_the_papers() -> None:
    assert model_ms(1.0, 40) == pytest.approx(15.0)
    assert model_ms(10.0, 5120) == pytest.approx(120.0)


def test_routes_of_pastry_end_and_get_shorter_with_wider_digits() -> None:
    rng = np.random.default_rng(1)
    ids = pastry.draw_ids(2000, rng)
    means = [pastry.scribe(ids, bits, 500, rng).tree.mean() for bits in pastry.DIGIT_BITS]
    assert means == sorted(means, reverse=True)
    assert 2 < pastry.bayeux(ids, 4, 500, rng).tree.mean() < 4


@pytest.mark.parametrize("dimensions", can.DIMENSIONS)
def test_floods_of_can_reach_everybody_in_about_as_many_hops_as_expected(dimensions: int) -> None:
    zones = can.draw_torus(300, dimensions, Random(2))
    assert sum(np.prod([size / (1 << 30) for size in zone.size]) for zone in zones) == pytest.approx(1)
    for number, zone in enumerate(zones):
        assert all(number in zones[other].neighbours for other in zone.neighbours)
    hops, left_out = can.flood(zones)
    assert left_out <= 3
    assert 0.6 < fmean(hops) / (dimensions / 4 * 300 ** (1 / dimensions)) < 1.3


def test_the_kept_runs_are_within_the_tolerances() -> None:
    """24 runs: SG-TBPS's longest paths, the reductions, and what the better reading reaches."""
    with (KEPT / "paths.csv").open() as file:
        rows = {(int(row["subscribers"]), row["method"]): row for row in csv.DictReader(file)}

    def hops(count: int, method: str, measure: str = "hops_mean") -> float:
        return float(rows[count, method][measure])

    assert all(int(row["runs"]) == 24 for row in rows.values() if not row["method"].startswith("CAN"))
    for count, reduction in zip(printed.SUBSCRIBERS, printed.PROTOTYPE_REDUCTIONS, strict=True):
        assert 1.7 <= hops(count, "SG-TBPS", "hops_max") / hops(count, "SG-TBPS") <= 2.4
        assert 100 * (1 - hops(count, "P, L=60") / hops(count, "SG-TBPS")) == pytest.approx(reduction, abs=6)
        for size, most in printed.SINGLE_HOP_MAX.items():
            assert (hops(count, f"F, L={size}") == 1) == (count <= most)
    assert hops(5120, "F, L=60") <= 4.3
