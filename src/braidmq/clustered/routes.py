"""Where a message of this node goes: the peers that want its topic, as targets that stand in a fan-out."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from braidmq.broker.peers import PeerTarget
from braidmq.broker.receiver import Target
from braidmq.broker.sharing.full import FullGroup
from braidmq.cluster.hops import Hop

if TYPE_CHECKING:
    from braidmq.clustered.node import Node

Hops = Callable[[bytes], tuple[Hop, ...]]

MOST_QOS: Final = 2
RETAINED_ONLY: Final = b"\x00\x00"  # a route to nobody there: the message is to be retained, and no more


class Routes:
    """Asked by the router, once for each topic that isn't in its cache, and for every retained message."""

    def __init__(self, node: "Node", hops: Hops) -> None:
        self._node = node
        self._hops = hops
        # Whether a topic has a group that another node has, and that can hardly take more.
        self.is_full: Callable[[bytes], bool] = lambda topic: False
        self._full = Target(FullGroup(node.broker.hub), MOST_QOS)
        # One for each way, so that topics with the same ways share their fan-outs.
        self._targets: dict[tuple[int, bytes], PeerTarget] = {}

    def hops(self, topic: bytes) -> tuple[Target, ...]:
        """The peers that want messages on a topic, and what tells a publisher that a group there is full."""
        peers = tuple([self._target(hop.peer, hop.route) for hop in self._hops(topic)])
        return (*peers, self._full) if self.is_full(topic) else peers

    def everybody(self) -> list[PeerTarget]:
        """All peers that are remembered: each has all retained messages."""
        return [self._target(node, RETAINED_ONLY) for node in self._node.cluster.members.remembered()]

    def stamp(self) -> tuple[int, int]:
        """When a message is retained: later than all that were seen."""
        cluster = self._node.cluster
        return cluster.clock.tick(self._node.broker.hub.now), cluster.identity.node

    def forget(self, peer: int) -> None:
        """The peer is no more."""
        self._targets = {way: target for way, target in self._targets.items() if way[0] != peer}

    def _target(self, node: int, route: bytes) -> PeerTarget:
        target = self._targets.get((node, route))
        if target is None:
            target = self._targets[node, route] = PeerTarget(self._node.peer(node), route)
        return target
