"""A cluster as one of its nodes sees it, as plain values: what operators are shown, in whatever form."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from math import inf
from typing import Final, Protocol

import msgspec

from braidmq.cluster.core import Cluster
from braidmq.cluster.members import Member

MS_PER_S: Final = 1000
PLAIN: Final = 1  # flags of a route
GROUPS: Final = 2


class PeerTraffic(Protocol):
    """What waits for a peer, and what was sent and received."""

    @property
    def queued_count(self) -> int: ...

    @property
    def queued_bytes(self) -> int: ...

    @property
    def oldest_s(self) -> float: ...

    @property
    def forwarded_qos0(self) -> int: ...

    @property
    def forwarded_entries(self) -> int: ...

    @property
    def received_qos0(self) -> int: ...

    @property
    def received_entries(self) -> int: ...


class NodeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One node of the cluster. What only concerns others is null for the node that is asked.

    `state` is joining, live, draining, leaving or left of the node that is asked. Others are dialling, live,
    draining, suspect (silent), unreachable (from here: others hear it) or dead. `oldest_s` is how long the
    first message has waited for it. Entries are what is kept on the way: QoS 1, 2 and retained messages.
    """

    node: str
    name: str
    state: str
    is_this_node: bool
    version: str
    boot: int
    addresses: tuple[str, ...]
    client_address: str
    keeps: bool
    connections: int
    rtt_ms: float | None = None
    clock_offset_s: float | None = None
    silent_s: float | None = None
    queued_messages: int | None = None
    queued_bytes: int | None = None
    oldest_s: float | None = None
    forwarded_qos0: int | None = None
    forwarded_entries: int | None = None
    received_qos0: int | None = None
    received_entries: int | None = None


class ClusterStatus(msgspec.Struct, frozen=True, kw_only=True):
    """`size` is how many nodes work together now, the one that is asked included.

    `counters` has what has happened since its start, as in the metrics.
    """

    name: str
    routing: str
    size: int
    nodes: list[NodeStatus]
    warnings: list[str]
    counters: dict[str, int] = {}


class RouteStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A node that a message would be sent to: for its own subscribers, for groups that it owns, or both."""

    node: str
    name: str
    state: str
    is_for_subscribers: bool
    is_for_groups: bool


class TopicRoutes(msgspec.Struct, frozen=True, kw_only=True):
    """Where a message of this topic would go: sessions here that want it, and other nodes."""

    topic: str
    sessions_here: int
    nodes: list[RouteStatus]


def status_of(
    cluster: Cluster,
    traffic: Mapping[int, PeerTraffic],
    state: str,
    connections: int,
    now: float,
    counters: dict[str, int] | None = None,
) -> ClusterStatus:
    """The cluster as of now; `state`, `connections` and `counters` are this node's own."""
    me = cluster.identity
    this = NodeStatus(
        node=f"{me.node:016x}",
        name=me.name,
        state=state,
        is_this_node=True,
        version=me.version,
        boot=me.boot,
        addresses=me.addresses,
        client_address=me.client_address,
        keeps=me.keeps,
        connections=connections,
    )
    others = [_status_of(member, traffic.get(member.node), now) for member in cluster.members]
    return ClusterStatus(
        name=cluster.settings.name,
        routing=cluster.settings.routing,
        size=1 + len(cluster.members.linked()),
        nodes=[this, *sorted(others, key=lambda node: (node.name, node.node))],
        warnings=list(_warnings(me.name, cluster.members)),
        counters=counters or {},
    )


def _status_of(member: Member, traffic: PeerTraffic | None, now: float) -> NodeStatus:
    return NodeStatus(
        node=f"{member.node:016x}",
        name=member.name,
        state=member.state.value,
        is_this_node=False,
        version=member.version,
        boot=member.boot,
        addresses=member.addresses,
        client_address=member.client_address,
        keeps=member.keeps,
        connections=member.connections if member.is_linked else 0,
        rtt_ms=None if member.rtt_s is None else round(member.rtt_s * MS_PER_S, 3),
        clock_offset_s=round(member.clock_offset_s, 3) if member.is_linked else None,
        silent_s=None if member.heard_at_s == -inf else round(max(0.0, now - member.heard_at_s), 3),
        queued_messages=0 if traffic is None else traffic.queued_count,
        queued_bytes=0 if traffic is None else traffic.queued_bytes,
        oldest_s=None if traffic is None or not traffic.queued_count else round(traffic.oldest_s, 3),
        forwarded_qos0=0 if traffic is None else traffic.forwarded_qos0,
        forwarded_entries=0 if traffic is None else traffic.forwarded_entries,
        received_qos0=0 if traffic is None else traffic.received_qos0,
        received_entries=0 if traffic is None else traffic.received_entries,
    )


def _warnings(own_name: str, members: Iterable[Member]) -> Iterator[str]:
    names = Counter([own_name])
    for member in members:
        names[member.name] += 1
        yield from member.warnings.values()
    for name, count in names.items():
        if count > 1:
            yield f"{count} nodes are called {name}: give each a node_name of its own"


def routes_of(
    cluster: Cluster, hops: Iterable[tuple[int, bytes]], topic: bytes, sessions_here: int
) -> TopicRoutes:
    """Where messages of a topic go; `hops` are peers and the routes of messages for them."""
    nodes = []
    for peer, route in hops:
        member = cluster.members.info(peer)
        nodes.append(
            RouteStatus(
                node=f"{peer:016x}",
                name=member.name if member is not None else "",
                state=cluster.members.state(peer).value,
                is_for_subscribers=bool(route[0] & PLAIN),
                is_for_groups=bool(route[0] & GROUPS),
            )
        )
    return TopicRoutes(topic=topic.decode(), sessions_here=sessions_here, nodes=nodes)
