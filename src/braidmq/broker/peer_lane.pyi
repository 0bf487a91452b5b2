from typing import Protocol

from braidmq.broker.connection import Shell
from braidmq.broker.hub import Hub
from braidmq.broker.outlet import Outlet
from braidmq.broker.peer_outlet import PeerOutlet
from braidmq.broker.peers import Peer
from braidmq.broker.publishing import Publishing
from braidmq.errors import ProtocolError
from braidmq.messages.message import Message

class Joint(Protocol):
    """What a lane tells whoever joins broker and cluster."""

    def frame(self, lane: PeerLane, first: int, body: bytes) -> None:
        """A frame that is no message; before the link is open, any frame."""

    def entered(
        self, lane: PeerLane, kind: int, head: bytes, message: Message | None, route: bytes
    ) -> None:
        """An entry of another kind than a publication has come, for the first time."""

    def hold(self, lane: PeerLane) -> None:
        """Somebody here is behind with what comes over the link: its peer should pause QoS 0."""

    def go_on(self, lane: PeerLane) -> None:
        """It need pause no longer."""

    def watch_congestion(self, outlet: Outlet) -> None:
        """As `Broker.watch_congestion`: don't wait for that outlet for ever."""

    def failed(self, lane: PeerLane, error: ProtocolError) -> None:
        """The peer has sent what it may not: `close` the lane."""

    def lost(self, lane: PeerLane, why: str) -> None:
        """The link is over; its peer, if it had one, is detached."""

class PeerLane(PeerOutlet):
    def __init__(self, hub: Hub, publishing: Publishing, joint: Joint, shell: Shell) -> None: ...
    @property
    def peer(self) -> Peer | None: ...
    def prove(self) -> None: ...
    def open(self, peer: Peer, position: int) -> None: ...
    def close(self, why: str) -> None: ...
    def lost(self, why: str) -> None: ...
    def feed_on(self) -> None: ...
