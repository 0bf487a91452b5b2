"""Sends clients to other nodes, as the cluster's core decides: those who are here, and those who come."""

from braidmq.broker.connection import Connection
from braidmq.cluster.draining import Draining, SendAway
from braidmq.clustered.node import Node
from braidmq.wire import ReasonCode


class SendingAway:
    """Carries out what `draining` wants, and asks it before a client is let in."""

    def __init__(self, node: Node, draining: Draining) -> None:
        self._node = node
        node.cluster.add(draining)
        node.carry_out({SendAway: self._send_away})
        node.broker.elsewhere = draining.reference

    def _send_away(self, effect: SendAway) -> None:
        session = self._node.broker.sessions.get(effect.client)
        if session is not None and isinstance(session.outlet, Connection):
            reason = ReasonCode.SERVER_MOVED if effect.is_for_good else ReasonCode.USE_ANOTHER_SERVER
            session.outlet.end(reason, "this server sends clients to others", effect.reference)
