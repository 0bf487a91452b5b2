"""The counts of the routing modes: what must hold whatever the seed is."""

import pytest

from bench import cluster_routing


def test_messages_between_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_routing, "SUBSCRIPTIONS", 200)
    for interested in (1, 3):
        rows = {row.mode: row for row in cluster_routing.traffic(1, interested)}
        assert rows["full"].messages == interested
        assert interested <= rows["bloom"].messages <= interested * 1.01
        assert rows["tree"].messages == cluster_routing.NODES - 1
        assert rows["flood"].messages == (cluster_routing.NODES - 1) ** 2
        assert rows["flood in a ring"].messages == cluster_routing.NODES + 1


def test_unwanted_forwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_routing, "SUBSCRIPTIONS", 300)
    monkeypatch.setattr(cluster_routing, "PUBLISHED", 500)
    rows = {row.mode: row for row in cluster_routing.unwanted(1, "here", 1.0)}
    assert rows["full"].unwanted == 0
    assert rows["bloom"].share <= 0.001
    assert rows["bloom"].announced_bytes < rows["full"].announced_bytes


def test_memory_of_remote_subscriptions() -> None:
    row = cluster_routing.memory(1, 3, 1_000)
    assert row.bloom_bytes < row.full_bytes / 5
