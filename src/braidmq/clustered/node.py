"""One node of a cluster: tells the cluster's core what happens, and carries out what it decides.

What the core answers is carried out by type, each by the one who knows the broker's side of it: links and
peers here, the rest by others (`carry_out`). Events that come up meanwhile wait until that is done, so the
core is never called while it is being obeyed.
"""

from collections import deque
from collections.abc import Callable, Mapping
from math import inf
from typing import Any, Final, Protocol

from braidmq.broker.broker import Broker
from braidmq.broker.connection import Shell
from braidmq.broker.outlet import Outlet
from braidmq.broker.peer_lane import PeerLane
from braidmq.broker.peers import Peer
from braidmq.cluster.core import Cluster
from braidmq.cluster.effects import (
    Close,
    Dial,
    Died,
    Enter,
    Forgotten,
    Hold,
    Level,
    Linked,
    MembersChanged,
    Met,
    Proven,
    RoutesChanged,
    Send,
    Tell,
    Unlinked,
)
from braidmq.cluster.events import (
    BytesCame,
    FlowChanged,
    FrameReceived,
    LinkLost,
    LinkOpened,
    NotReached,
    TimeCame,
    TurnEnded,
)
from braidmq.cluster.settings import Remembered
from braidmq.clustered.routes import Hops, Routes
from braidmq.errors import ProtocolError
from braidmq.messages.message import Message
from braidmq.timing.timers import Timer

SEQUENCE_BITS: Final = 40  # of an entry's number, below the boot
PROTOCOL_ERROR: Final = 0x82

CarryOut = Callable[[Any], object]
TakeEntry = Callable[[Peer, bytes, Message | None, bytes], None]


class ClusterShell(Protocol):
    """What a node asks of the world around it."""

    def dial(self, address: str) -> None:
        """Connect to a peer; then `Node.open_link`, or `Node.not_reached`."""

    def remember(self, members: tuple[Remembered, ...]) -> None:
        """Keep who is in the cluster, for the next start."""

    def tell(self, level: Level, sentence: str) -> None:
        """Say something to the operator."""


class Node:
    def __init__(self, broker: Broker, cluster: Cluster, shell: ClusterShell, hops: Hops) -> None:
        self.broker = broker
        self.cluster = cluster
        self._shell = shell
        # Numbers of entries grow over restarts without being stored.
        self._first_sequence = cluster.identity.boot << SEQUENCE_BITS
        self._lanes: dict[int, PeerLane] = {}
        self._links: dict[PeerLane, int] = {}
        self._last_link = 0
        self._events: deque[object] = deque()
        self._is_at_work = False
        self._has_news = False  # for the end of the turn
        self._looked_at_s = 0.0  # at the lanes, whether they have heard anything
        self._timer: Timer | None = None
        self._entries: dict[int, TakeEntry] = {}
        self.counters: dict[str, Callable[[], int]] = {}  # what parts count, for the operator
        self._hands: dict[type, CarryOut] = {
            Send: self._send,
            Close: self._close,
            Dial: lambda effect: shell.dial(effect.address),
            MembersChanged: lambda effect: shell.remember(effect.remembered),
            Tell: lambda effect: shell.tell(effect.level, effect.sentence),
            Proven: self._proven,
            Linked: self._linked,
            Unlinked: self._unlinked,
            Hold: self._hold,
            Met: lambda effect: self.peer(effect.peer),
            Died: lambda effect: self.peer(effect.peer).died(),
            Forgotten: self._forgotten,
            Enter: self.enter,
            RoutesChanged: lambda effect: broker.router.forget_routes(),
        }
        for node in cluster.members.remembered():
            self.peer(node)
        for peer in broker.peers:  # of which the store knows, and the cluster no longer
            if peer.node not in cluster.members:
                broker.peers.forget(peer.node)
        self.routes = Routes(self, hops)
        broker.router.remote = broker.publishing.remote = self.routes
        broker.hub.at_turn_end = self._turn_ended

    def carry_out(
        self,
        hands: Mapping[type, CarryOut],
        entries: Mapping[int, TakeEntry] | None = None,
    ) -> None:
        """Let these carry out the effects of those types, and take the entries of those kinds."""
        self._hands.update(hands)
        self._entries.update(entries or {})

    def start(self, now: float) -> None:
        """Begin to look for the others."""
        self.broker.turn(now)
        self._set_timer()

    # ---- events in, effects out ----------------------------------------------------------------------

    def tell(self, event: object) -> None:
        """Something has happened: let the core know, now or when it is done with what it does."""
        self._events.append(event)
        self._has_news = True
        if not self._is_at_work:
            self._work()

    def _work(self) -> None:
        self._is_at_work = True
        try:
            while self._events:
                for effect in self.cluster.handle(self._events.popleft(), self.broker.hub.now):
                    self._hands[type(effect)](effect)
        finally:
            self._is_at_work = False
        self._set_timer()

    def _turn_ended(self) -> None:
        """Before the turn is kept: what has gathered in it is announced."""
        while self._has_news:
            self._has_news = False
            self._events.append(TurnEnded())
            self._work()

    def _set_timer(self) -> None:
        due_s = self.cluster.next_at_s
        if self._timer is not None and self._timer.action is not None:
            if self._timer.at_s <= due_s:
                return  # it looks again when it fires
            self._timer.cancel()
        self._timer = self.broker.timers.set(due_s, self._time_came) if due_s < inf else None

    def _time_came(self) -> None:
        self._timer = None
        if self.broker.hub.now >= self.cluster.next_at_s:
            self._look_at_lanes()
            self.tell(TimeCame())
        else:
            self._set_timer()

    def _look_at_lanes(self) -> None:
        """Who sends much is there, though its beats are stuck behind it."""
        for lane in self._lanes.values():
            if lane.peer is not None and lane.received_at_s >= self._looked_at_s:
                self._events.append(BytesCame(lane.peer.node))
        self._looked_at_s = self.broker.hub.now

    # ---- links ---------------------------------------------------------------------------------------

    def open_link(self, shell: Shell, dialled: str | None, now: float, source: str = "") -> PeerLane:
        """There is a connection to who may be a peer: from `source`, or `dialled` if we asked for it."""
        self.broker.turn(now)
        lane = PeerLane(self.broker.hub, self.broker.publishing, self, shell)
        self._last_link += 1
        self._lanes[self._last_link] = lane
        self._links[lane] = self._last_link
        self.tell(LinkOpened(self._last_link, dialled, source))
        return lane

    def not_reached(self, address: str, why: str, now: float) -> None:
        self.broker.turn(now)
        self.tell(NotReached(address, why))

    def frame(self, lane: PeerLane, first: int, body: bytes) -> None:
        """A frame that the lane doesn't handle by itself."""
        if lane in self._links:
            self.tell(FrameReceived(self._links[lane], first, body))

    def entered(self, lane: PeerLane, kind: int, head: bytes, message: Message | None, route: bytes) -> None:
        """An entry that is no publication has come from a peer."""
        if kind not in self._entries:
            raise ProtocolError(PROTOCOL_ERROR, f"an entry of kind {kind}, which nobody takes here")
        assert lane.peer is not None
        self._entries[kind](lane.peer, head, message, route)

    def failed(self, lane: PeerLane, error: ProtocolError) -> None:
        """The peer has sent what it may not."""
        link = self._links.pop(lane, None)
        if link is not None:
            del self._lanes[link]
            self.tell(LinkLost(link, error.detail, is_fault=True))
        lane.close(error.detail)

    def lost(self, lane: PeerLane, why: str) -> None:
        """The link is over, whoever ended it."""
        link = self._links.pop(lane, None)
        if link is not None:
            del self._lanes[link]
            self.tell(LinkLost(link, why))

    def _send(self, effect: Send) -> None:
        if effect.link in self._lanes:
            self._lanes[effect.link].write_frame(effect.frame)

    def _close(self, effect: Close) -> None:
        lane = self._lanes.pop(effect.link, None)
        if lane is not None:
            del self._links[lane]  # the core knows: it is told of no end
            lane.close(effect.why)

    def _proven(self, effect: Proven) -> None:
        if effect.link in self._lanes:
            self._lanes[effect.link].prove()

    # ---- peers ---------------------------------------------------------------------------------------

    def peer(self, node: int) -> Peer:
        """The peer of a remembered node, with what waits for it."""
        member = self.cluster.members.info(node)
        return self.broker.peers.meet(node, self._first_sequence, member is None or member.keeps)

    def _linked(self, effect: Linked) -> None:
        if effect.link in self._lanes:
            self._lanes[effect.link].open(self.peer(effect.peer), effect.position)

    def _unlinked(self, effect: Unlinked) -> None:
        """Its lane detaches by itself, when it is closed or lost."""

    def _forgotten(self, effect: Forgotten) -> None:
        self.routes.forget(effect.peer)
        self.broker.peers.forget(effect.peer)

    def enter(self, effect: Enter) -> None:
        """Put an entry into the stream to a peer."""
        self.peer(effect.peer).enter(effect.kind, effect.head, effect.message, effect.route)

    # ---- flow ----------------------------------------------------------------------------------------

    def hold(self, lane: PeerLane) -> None:
        """A subscriber here is behind with what comes over this link."""
        self._flow(lane, is_held=True)

    def go_on(self, lane: PeerLane) -> None:
        self._flow(lane, is_held=False)

    def _flow(self, lane: PeerLane, *, is_held: bool) -> None:
        if lane.peer is not None:
            self.tell(FlowChanged(lane.peer.node, is_held))

    def _hold(self, effect: Hold) -> None:
        link = self.cluster.members.link_of(effect.peer)
        if link is not None and link in self._lanes:
            lane = self._lanes[link]
            lane.pause() if effect.is_held else lane.proceed()

    def watch_congestion(self, outlet: Outlet) -> None:
        self.broker.watch_congestion(outlet)
