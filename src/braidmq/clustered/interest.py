"""What clients here want, told to the cluster; and their SUBACKs, which wait until the cluster knows."""

from collections.abc import Callable

from braidmq.cluster.announcing import (
    AnnounceNow,
    Announcing,
    AwaitSeen,
    FilterAppeared,
    FilterVanished,
    SessionAppeared,
    SessionVanished,
)
from braidmq.cluster.ledger import Seen
from braidmq.clustered.node import Node


class Interest:
    """Listens to the router, and is asked by whoever confirms a subscription."""

    def __init__(self, node: Node, announcing: Announcing) -> None:
        self._node = node
        self._waiting: dict[int, Callable[[], None]] = {}
        self._last_token = 0
        node.cluster.add(announcing)
        node.carry_out({Seen: self._seen})
        node.broker.announcements = self
        node.broker.router.listen(self)

    def appeared(self, filter: bytes) -> None:
        self._node.tell(FilterAppeared(filter))

    def vanished(self, filter: bytes) -> None:
        self._node.tell(FilterVanished(filter))

    def announce(self) -> None:
        """Tell the peers at once what is wanted here now, before whatever is sent to them next."""
        self._node.tell(AnnounceNow())

    def when_seen(self, then: Callable[[], None]) -> None:
        """Call `then` when all linked peers know what is wanted here now, or when they took too long."""
        self._last_token += 1
        self._waiting[self._last_token] = then
        self._node.tell(AwaitSeen(self._last_token))

    def _seen(self, effect: Seen) -> None:
        self._waiting.pop(effect.token)()


class LastingSessions:
    """Tells the cluster which sessions outlast their connections, for when this node is away."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._told: set[str] = set()
        for session in node.broker.sessions.values():
            self._changed(session.client_id, session.expiry_s > 0)
        node.broker.lasting = self._changed

    def _changed(self, client_id: str, lasts: bool) -> None:
        if lasts and client_id not in self._told:
            self._told.add(client_id)
            self._node.tell(SessionAppeared(client_id))
        elif not lasts and client_id in self._told:
            self._told.remove(client_id)
            self._node.tell(SessionVanished(client_id))
