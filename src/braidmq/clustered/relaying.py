"""Messages that go from node to node, with the routing modes `flood` and `tree`: for experiments.

All of them are entries of the streams, of QoS 0 as well, with their origin and its number before them; each
node takes a number once and passes it on. So one arrives while nothing crashes and the tree stays as it is;
QoS 0 is dropped where there is no link. What is retained, and shared groups, go straight to where they are
wanted, as in the other modes.
"""

from typing import Final

import msgspec

from braidmq.broker.peers import Peer, PeerTarget
from braidmq.broker.receiver import Target
from braidmq.broker.relay import Relay
from braidmq.cluster.hops import PLAIN_ROUTE, Hop, Routing
from braidmq.cluster.relaying import RecentNumbers
from braidmq.clustered.node import SEQUENCE_BITS, Node
from braidmq.errors import ProtocolError
from braidmq.messages.message import Message
from braidmq.wire import ReasonCode

RELAYED: Final = 4  # a kind of entries
ORIGINS_MAX: Final = 1024


class Origin(msgspec.Struct, frozen=True, array_like=True):
    """Who has published a message, and which one of its messages it is."""

    node: int
    number: int


class Relaying:
    """Asked by the router instead of the node's routes."""

    def __init__(self, node: Node, routing: Routing) -> None:
        self._node = node
        self._routing = routing
        self._me = node.cluster.identity.node
        self._last_number = node.cluster.identity.boot << SEQUENCE_BITS
        self._recent: dict[int, RecentNumbers] = {}
        self._target = Target(Relay(self._send), 2, True)
        node.carry_out({}, {RELAYED: self._take})
        node.broker.router.remote = self

    def hops(self, topic: bytes) -> tuple[Target | PeerTarget, ...]:
        """All neighbours as one, and those to whom it goes straight."""
        return (self._target, *self._node.routes.hops(topic))

    def _send(self, message: Message) -> None:
        """It was published here."""
        self._last_number += 1
        self._pass_on(Origin(self._me, self._last_number), message, self._routing.hops(message.topic))

    def _take(self, peer: Peer, head: bytes, message: Message | None, route: bytes) -> None:
        try:
            origin = msgspec.msgpack.decode(head, type=Origin)
        except msgspec.MsgspecError:
            raise ProtocolError(ReasonCode.MALFORMED_PACKET, "a relayed message without an origin") from None
        if message is None or origin.node == self._me or not self._is_new(origin):
            return
        self._node.broker.publishing.take_from_peer(message, PLAIN_ROUTE, None, origin.node)
        self._pass_on(origin, message, self._routing.onward(message.topic, peer.node))

    def _is_new(self, origin: Origin) -> bool:
        recent = self._recent.get(origin.node)
        if recent is None:
            if len(self._recent) >= ORIGINS_MAX:
                del self._recent[next(iter(self._recent))]
            recent = self._recent[origin.node] = RecentNumbers()
        return recent.is_new(origin.number)

    def _pass_on(self, origin: Origin, message: Message, hops: tuple[Hop, ...]) -> None:
        head = msgspec.msgpack.encode(origin)
        hub = self._node.broker.hub
        for hop in hops:
            peer = self._node.peer(hop.peer)
            if not message.qos and not peer.is_linked:
                hub.count_drop("peer_away", message, peer.client_id)
            elif peer.queued_bytes > hub.limits.peer_queue_bytes_max:
                hub.count_drop("queue_full", message, peer.client_id)
            else:
                peer.enter(RELAYED, head, message, PLAIN_ROUTE)
