"""The other nodes that this broker remembers: for each, what waits for it and up to where it was heard."""

from collections.abc import Iterator

from braidmq.broker.hub import Hub
from braidmq.broker.peers import Peer


class Peers:
    """By node. Those that a restart has found are here before anybody has met them."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._peers: dict[int, Peer] = {}

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
            peer = self._peers[node] = Peer(self._hub, node, first_sequence, keeps)
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
