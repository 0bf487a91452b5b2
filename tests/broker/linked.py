"""Two brokers that are peers, joined by their lanes alone: what is published on one is for the other."""

from collections.abc import Callable, Iterable

from braidmq.broker.outlet import Outlet
from braidmq.broker.peer_lane import PeerLane
from braidmq.broker.peers import Peer, PeerTarget
from braidmq.broker.restoring import restore
from braidmq.errors import ProtocolError
from braidmq.messages.message import Message
from braidmq.store import Store
from braidmq.store.state import State
from braidmq.timing.stopwatch import Stopwatch
from tests.broker.world import SlowStore, World

PLAIN = bytes((1, 0))
NOBODY = bytes((0, 0))


class Side:
    """One node: a broker with its clients, and what joins it to its peer."""

    def __init__(
        self,
        node: int,
        peer: int,
        store: Store | None = None,
        boot: int = 1,
        stopwatch: Stopwatch | None = None,
        **limits: int,
    ) -> None:
        self.node = node
        self.world = World(store, stopwatch=stopwatch, **limits)
        self.broker = self.world.broker
        self.boot = boot
        self.peer_node = peer
        self.route = PLAIN
        self.peer = self.meet()
        self.clock = 0
        self.entered_here: list[tuple[int, bytes, Message | None, bytes]] = []
        self.frames: list[tuple[int, bytes]] = []
        self.failures: list[str] = []
        self.flow: list[str] = []
        self.is_read = True
        self.for_groups: list[tuple[int, bytes, int, str | None]] = []  # group, payload, QoS, publisher
        self.broker.groups.deliver_to = self._deliver_to  # type: ignore[method-assign]
        self.broker.router.remote = self
        self.broker.publishing.remote = self

    def meet(self) -> Peer:
        peer = self.broker.peers.meet(self.peer_node, self.boot << 40, True)
        self._plain, self._nobody = PeerTarget(peer, self.route), PeerTarget(peer, NOBODY)
        return peer

    # What the router and the publishing ask
    def hops(self, topic: bytes) -> tuple[PeerTarget, ...]:
        return (self._plain,)

    def everybody(self) -> Iterable[PeerTarget]:
        return (self._nobody,)

    def stamp(self) -> tuple[int, int]:
        self.clock += 1
        return self.clock, self.node

    def _deliver_to(self, number: int, message: Message, hops: int = 0) -> None:
        self.for_groups.append((number, message.payload, message.qos, message.publisher))

    # What the lane tells
    def frame(self, lane: PeerLane, first: int, body: bytes) -> None:
        self.frames.append((first, body))

    def entered(self, lane: PeerLane, kind: int, head: bytes, message: Message | None, route: bytes) -> None:
        self.entered_here.append((kind, head, message, route))

    def hold(self, lane: PeerLane) -> None:
        self.flow.append("hold")

    def go_on(self, lane: PeerLane) -> None:
        self.flow.append("go on")

    def watch_congestion(self, outlet: Outlet) -> None:
        self.broker.watch_congestion(outlet)

    def failed(self, lane: PeerLane, error: ProtocolError) -> None:
        self.failures.append(error.detail)
        lane.close(error.detail)

    def lost(self, lane: PeerLane, why: str) -> None:
        pass

    # The lane's shell
    def close(self) -> None:
        pass

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True

    def defer(self, action: Callable[[], None]) -> None:
        self.world.deferred.append(action)

    def lane(self) -> PeerLane:
        return PeerLane(self.broker.hub, self.broker.publishing, self, self)

    def dropped(self, reason: str) -> int:
        return self.broker.hub.counters.by_name()[f"dropped_{reason}"]


class Link:
    """The connection of two sides, and the bytes on it."""

    def __init__(self, one: Side, two: Side) -> None:
        self.sides = (one, two)
        self.lanes = (one.lane(), two.lane())
        positions = (two.peer.kept, one.peer.kept)
        for side, lane, position in zip(self.sides, self.lanes, positions, strict=True):
            lane.open(side.peer, position)

    def flow(self) -> None:
        """Let all bytes arrive, and what they bring about, until nothing moves."""
        while self.carry(0) or self.carry(1):
            pass

    def carry(self, sender: int) -> int:
        """Let arrive what one side has written so far; how many bytes."""
        self.sides[sender].broker.hub.end_turn()
        data = self.lanes[sender].output.take()
        self.lanes[sender].output_drained()
        self.deliver(1 - sender, data)
        return len(data)

    def deliver(self, receiver: int, data: bytes) -> None:
        side, lane = self.sides[receiver], self.lanes[receiver]
        if data:
            lane.receive(data, side.world.now)
        side.world.run_deferred()
        side.broker.hub.end_turn()

    def cut(self) -> None:
        for side, lane in zip(self.sides, self.lanes, strict=True):
            lane.lost("cut by the test")
            side.world.run_deferred()
            side.broker.hub.end_turn()


def restarted(side: Side, store: SlowStore) -> Side:
    """The side as it is after a crash: with what its store has kept, and with a new one."""
    state = State()
    state.apply(store.kept)
    fresh = SlowStore()
    fresh.kept = list(store.kept)
    again = Side(side.node, side.peer_node, fresh, side.boot + 1)
    restore(again.broker, state, again.world.now)
    again.peer = again.meet()
    return again
