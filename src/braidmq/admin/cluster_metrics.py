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

def cluster_metrics(status: ClusterStatus) -> Iterator[Metric]:
    """How the other nodes are, and what waits for them."""
    others = [node for node in status.nodes if not node.is_this_node]
    states = Counter(node.state for node in others)
    nodes = GaugeMetricFamily("braidmq_cluster_nodes", "Other nodes, by their state", labels=["state"])
    for state in STATES:
        nodes.add_metric([state], states[state])
    yield nodes
    yield GaugeMetricFamily("braidmq_cluster_size", "Nodes that work together now", status.size)
    warnings = len(status.warnings)
    yield GaugeMetricFamily("braidmq_cluster_warnings", "Warnings that GET /cluster tells", warnings)
    for name, what, value_of in NODE_METRICS:
        family = GaugeMetricFamily(f"braidmq_cluster_{name}", what, labels=["node"])
        for node in others:
            value = value_of(node)
            if value is not None:
                family.add_metric([node.name], value)
        yield family
    yield from _traffic(others)


def _traffic(others: list[NodeStatus]) -> Iterator[Metric]:
    """By quality of service; kept are QoS 1 and 2, and retained messages."""
    forwarded = CounterMetricFamily("braidmq_cluster_forwarded", "Messages sent to a node", labels=LABELS)
    received = CounterMetricFamily("braidmq_cluster_received", "Messages that a node has sent", labels=LABELS)
    for node in others:
        forwarded.add_metric([node.name, "0"], node.forwarded_qos0 or 0)
        forwarded.add_metric([node.name, "kept"], node.forwarded_entries or 0)
        received.add_metric([node.name, "0"], node.received_qos0 or 0)
        received.add_metric([node.name, "kept"], node.received_entries or 0)
    yield forwarded
    yield received
