"""What an operator may see of a cluster and do with a node of it."""

from collections.abc import Callable
from typing import Final

from braidmq.broker.peers import Peer, PeerTarget
from braidmq.cluster.draining import KeepClients, Rebalance, SendClientsAway
from braidmq.cluster.events import Drain, Forget, Leave, Undrain
from braidmq.cluster.members import Member, State
from braidmq.clustered.node import Node
from braidmq.clustered.status import ClusterStatus, NodeStatus, TopicRoutes, routes_of, status_of
from braidmq.errors import ConfigError

LOOK_AGAIN_S: Final = 0.1
FAREWELL_S: Final = 0.5  # until the others have read it


class Operator:
    """One node's, for as long as it runs.

    It sends away `drain_per_s` clients a second at most; `stop` ends the node when it has left.
    """

    def __init__(self, node: Node, drain_per_s: int, stop: Callable[[], None]) -> None:
        self._node = node
        self._drain_per_s = drain_per_s
        self._stop = stop
        self.is_joining = True  # until the shell has found somebody
        self._is_leaving = False

    # ---- looking -------------------------------------------------------------------------------------

    @property
    def _state(self) -> str:
        cluster = self._node.cluster
        if cluster.has_left:
            return "left"
        if self._is_leaving:
            return "leaving"
        if cluster.is_draining:
            return "draining"
        return "joining" if self.is_joining else "live"

    @property
    def why_not_ready(self) -> str | None:
        """Why clients had better go elsewhere."""
        return None if self._state == "live" else f"the node is {self._state}"

    def status(self) -> ClusterStatus:
        node = self._node
        broker = node.broker
        peers = {peer.node: peer for peer in broker.peers}
        counters = {name: count() for name, count in node.counters.items()}
        return status_of(node.cluster, peers, self._state, broker.clients_connected, broker.hub.now, counters)

    def routes(self, topic: bytes) -> TopicRoutes:
        node = self._node
        hops = [
            (receiver.node, target.route)
            for target in node.routes.hops(topic)
            if isinstance(target, PeerTarget) and isinstance(receiver := target.receiver, Peer)
        ]
        return routes_of(node.cluster, hops, topic, len(node.broker.router.matches(topic)))

    # ---- doing ---------------------------------------------------------------------------------------

    def drain(self) -> str:
        """Send clients to others."""
        self._send_clients_away(is_for_good=False)
        return self._state

    def _send_clients_away(self, *, is_for_good: bool) -> None:
        self._refuse_alone()
        self._node.tell(Drain())
        self._node.tell(SendClientsAway(self._drain_per_s, is_for_good))

    def undrain(self) -> str:
        if self._is_leaving:
            raise ConfigError("the node is leaving: start it again when it has stopped")
        self._node.tell(KeepClients())
        self._node.tell(Undrain())
        return self._state

    def rebalance(self) -> str:
        """Let every node that has too many clients send some to others."""
        self._refuse_alone()
        self._node.tell(Rebalance(self._drain_per_s))
        return self._state

    def leave(self) -> str:
        """Drain, say goodbye when the others have everything, and stop."""
        if not self._is_leaving:
            self._send_clients_away(is_for_good=True)
            self._is_leaving = True
            self._leave_when_empty()
        return self._state

    def _leave_when_empty(self) -> None:
        broker, now = self._node.broker, self._node.broker.hub.now
        if broker.sessions or self._is_anything_under_way():
            broker.timers.set(now + LOOK_AGAIN_S, self._leave_when_empty)
            return
        self._node.tell(Leave())
        broker.timers.set(now + FAREWELL_S, self._stop)

    def _is_anything_under_way(self) -> bool:
        """Whether a node that is there has yet to get something; who is away gets it never."""
        members = self._node.cluster.members
        return any(peer.queued_count for peer in self._node.broker.peers if members.is_linked(peer.node))

    def forget(self, name_or_id: str) -> NodeStatus:
        """Wait no longer for a node that is gone."""
        member = self._member(name_or_id)
        if member.state is not State.DEAD:
            raise ConfigError(
                f"node {member.name} is {member.state}: let it leave instead; only the dead are forgotten"
            )
        found = next(node for node in self.status().nodes if node.node == f"{member.node:016x}")
        self._node.tell(Forget(member.node))
        return found

    def _member(self, name_or_id: str) -> Member:
        named = [
            member
            for member in self._node.cluster.members
            if name_or_id in (member.name, f"{member.node:016x}")
        ]
        if not named:
            raise ConfigError(f"there is no other node {name_or_id!r}; braidmq cluster status lists them")
        if len(named) > 1:
            raise ConfigError(f"{len(named)} nodes are called {name_or_id!r}; give the id of one")
        return named[0]

    def _refuse_alone(self) -> None:
        if self._node.cluster.settings.routing in ("flood", "tree"):
            raise ConfigError("with routing flood or tree, which are for trying, sessions stay at home")
        if not self._node.cluster.members.linked():
            raise ConfigError("there is no other node that could take the clients")
