"""The numbers of a cluster for Prometheus, as one of its nodes sees it."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from braidmq.cluster.members import LINKED, State
from braidmq.clustered.status import MS_PER_S, ClusterStatus, NodeStatus

LABELS: Final = ("node", "qos")
STATES: Final = tuple(state.value for state in State if state not in (State.LEFT, State.FORGOTTEN))

NODE_METRICS: Final[tuple[tuple[str, str, Callable[[NodeStatus], float | None]], ...]] = (
    ("link_up", "1 while there is a link to a node", lambda node: float(node.state in LINKED)),
    ("link_rtt_seconds", "How long an answer of a node takes",
     lambda node: None if node.rtt_ms is None else node.rtt_ms / MS_PER_S),
    ("clock_offset_seconds", "How far a node's clock is ahead", lambda node: node.clock_offset_s),
    ("peer_queue_messages", "Messages that wait for a node", lambda node: node.queued_messages),
    ("peer_queue_bytes", "Bytes of messages that wait for a node", lambda node: node.queued_bytes),
    ("peer_queue_oldest_seconds", "How long the first message has waited for a node",
     lambda node: node.oldest_s or 0.0),
)  # fmt: skip

# What the parts of a node count; those that aren't in use are left out.
COUNTERS: Final = {
    "forwards_unwanted": "Messages from other nodes that no session here wanted",
    "suback_late": "SUBACKs that did not wait any longer until all nodes knew of the subscription",
    "announcements": "Announcements of subscriptions to other nodes",
    "announcement_bytes": "Bytes of announcements of subscriptions",
    "retained_repaired": "Retained messages that another node was sent because it lacked them",
}


def cluster_metrics(status: ClusterStatus) -> Iterator[Metric]:
    """How the other nodes are, what waits for them, and what went to and fro."""
    others = [node for node in status.nodes if not node.is_this_node]
    states = Counter(node.state for node in others)
    nodes = GaugeMetricFamily("braidmq_cluster_nodes", "Other nodes, by their state", labels=["state"])
    for state in STATES:
        nodes.add_metric([state], states[state])
    yield nodes
    yield GaugeMetricFamily("braidmq_cluster_size", "Nodes that work together now", status.size)
    warnings = len(status.warnings)
    yield GaugeMetricFamily("braidmq_cluster_warnings", "Warnings that GET /cluster tells", warnings)
    for name, what in COUNTERS.items():
        if name in status.counters:
            yield CounterMetricFamily(f"braidmq_cluster_{name}", what, status.counters[name])
    labelled = dict(_labelled(others))
    for name, what, value_of in NODE_METRICS:
        family = GaugeMetricFamily(f"braidmq_cluster_{name}", what, labels=["node"])
        for label, node in labelled.items():
            value = value_of(node)
            if value is not None:
                family.add_metric([label], value)
        yield family
    yield from _traffic(labelled)


def _labelled(nodes: list[NodeStatus]) -> Iterator[tuple[str, NodeStatus]]:
    """Each node under its name, with its id if another has that name: no two series may be the same."""
    names = Counter(node.name for node in nodes)
    for node in nodes:
        yield node.name if names[node.name] == 1 else f"{node.name} {node.node}", node


def _traffic(labelled: dict[str, NodeStatus]) -> Iterator[Metric]:
    """By quality of service; kept are QoS 1 and 2, and retained messages."""
    forwarded = CounterMetricFamily("braidmq_cluster_forwarded", "Messages sent to a node", labels=LABELS)
    received = CounterMetricFamily("braidmq_cluster_received", "Messages that a node has sent", labels=LABELS)
    for label, node in labelled.items():
        forwarded.add_metric([label, "0"], node.forwarded_qos0 or 0)
        forwarded.add_metric([label, "kept"], node.forwarded_entries or 0)
        received.add_metric([label, "0"], node.received_qos0 or 0)
        received.add_metric([label, "kept"], node.received_entries or 0)
    yield forwarded
    yield received
