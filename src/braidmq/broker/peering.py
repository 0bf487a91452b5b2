"""The other nodes that this broker remembers: for each, what waits for it and up to where it was heard."""

from collections.abc import Iterator
from typing import Final

from braidmq.broker.hub import Hub
from braidmq.broker.peers import Peer

GONE_MAX: Final = 1024  # forgotten nodes whose numbers are kept


class Peers:
    """By node. Those that a restart has found are here before anybody has met them.

    Of a node that is forgotten the numbers stay for a while: after a partition it may be met again, and may
    not have forgotten us. New entries for it must not get numbers that it has seen, and what it sends again
    must not be taken twice.
    """

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._peers: dict[int, Peer] = {}
        self._gone: dict[int, tuple[int, int]] = {}  # last number for it, last one taken; the oldest first

    def __len__(self) -> int:
        return len(self._peers)

    def __iter__(self) -> Iterator[Peer]:
        return iter(list(self._peers.values()))

    def get(self, node: int) -> Peer | None:
        return self._peers.get(node)

    def meet(self, node: int, first_sequence: int, keeps: bool) -> Peer:
        """The peer of that node, remembered or new; entries for it are numbered above `first_sequence`."""
        peer = self._peers.get(node)
        if peer is None:
            last_sequence, taken = self._gone.pop(node, (0, 0))
            peer = self._peers[node] = Peer(self._hub, node, max(first_sequence, last_sequence), keeps)
            peer.restore_position(taken)
            peer.remember()
        peer.met(first_sequence, keeps)
        return peer

    def restored(self, node: int) -> Peer:
        """The peer of a node that the store knows."""
        peer = self._peers.get(node)
        if peer is None:
            peer = self._peers[node] = Peer(self._hub, node)
        return peer

    def forget(self, node: int) -> None:
        """The node is no longer part of the cluster: what waits for it is dropped and counted."""
        peer = self._peers.pop(node, None)
        if peer is not None:
            peer.forget()
            self._gone[node] = (peer.last_sequence, peer.kept)
            if len(self._gone) > GONE_MAX:
                del self._gone[next(iter(self._gone))]
