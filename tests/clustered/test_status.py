"""What operators are shown of a cluster: every node with its state, and what is wrong."""

from dataclasses import dataclass
from random import Random

from braidmq.cluster.clock import HybridClock
from braidmq.cluster.core import Cluster
from braidmq.cluster.settings import Identity, Remembered, Settings, key_of
from braidmq.clustered.status import routes_of, status_of


class Nothing:
    """A broker that has nothing and nobody."""

    def kept_position(self, peer: int) -> int:
        return 0

    def connections(self) -> int:
        return 0


@dataclass
class Traffic:
    queued_count: int
    queued_bytes: int = 0
    oldest_s: float = 0.0
    forwarded_qos0: int = 0
    forwarded_entries: int = 0
    received_qos0: int = 0
    received_entries: int = 0


def make_cluster(*others: tuple[int, str]) -> Cluster:
    remembered = [
        Remembered(node=node, boot=1, name=name, addresses=(f"{name}:7883",), keeps=True)
        for node, name in others
    ]
    me = Identity(node=1, boot=3, name="north", addresses=("north:7883",), keeps=True, version="9.9")
    settings = Settings(name="plant", key=key_of(b"a secret of theirs"))
    return Cluster(me, settings, HybridClock(0.0), Random(1), Nothing(), 0.0, remembered)


def test_every_node_is_shown_the_asked_one_first() -> None:
    traffic = {2: Traffic(7, 700, 1.5, received_entries=9)}
    status = status_of(make_cluster((3, "west"), (2, "east")), traffic, "live", 42, 10.0)
    assert (status.name, status.routing, status.size) == ("plant", "bloom", 1)
    assert [(node.name, node.state, node.is_this_node) for node in status.nodes] == [
        ("north", "live", True),
        ("east", "dialling", False),
        ("west", "dialling", False),
    ]
    north, east, west = status.nodes
    assert (north.node, north.boot, north.connections, north.version) == ("0" * 15 + "1", 3, 42, "9.9")
    assert (north.queued_messages, north.rtt_ms) == (None, None)
    assert (east.queued_messages, east.queued_bytes, east.oldest_s, east.silent_s) == (7, 700, 1.5, 10.0)
    assert (east.received_entries, west.received_entries, north.received_entries) == (9, 0, None)
    assert (west.queued_messages, west.oldest_s) == (0, None)
    assert status.warnings == []


def test_two_nodes_of_one_name_are_a_warning() -> None:
    status = status_of(make_cluster((2, "north")), {}, "live", 0, 0.0)
    assert status.warnings == ["2 nodes are called north: give each a node_name of its own"]


def test_a_route_says_whom_it_is_for() -> None:
    cluster = make_cluster((2, "east"), (3, "west"))
    hops = [(2, b"\x01\x00"), (3, b"\x03\x00\x01" + bytes(8))]
    routes = routes_of(cluster, hops, b"a/b", 5)
    assert (routes.topic, routes.sessions_here) == ("a/b", 5)
    assert [(node.name, node.is_for_subscribers, node.is_for_groups) for node in routes.nodes] == [
        ("east", True, False),
        ("west", True, True),
    ]
