"""One node: what survives its crashes, and its present life, which is a broker with links instead of sockets.

Every life has a monotonic clock of its own, which begins anywhere, and the machine a wall clock that may be
wrong.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, Final

from braidmq.broker.access import BuiltInGate
from braidmq.broker.broker import Broker
from braidmq.broker.restoring import living, restore
from braidmq.limits import Limits
from braidmq.sim.cluster.joining import Joined, Papers, Plans
from braidmq.sim.cluster.network import End, Network
from braidmq.sim.cluster.store import Disk, SimulatedStore

EPOCH_S: Final = 1_800_000_000.0  # the wall clock when a story begins
WINDOW_BYTES: Final = 64 * 1024  # that a connection has under way; the rest waits in its output


@dataclass(frozen=True, slots=True)
class Habits:
    """How a machine works."""

    keeps_after_s: tuple[float, float] = (0.0, 0.01)  # its store, least and most
    checkpoints: float = 0.02  # share of turns behind which its store begins anew
    wall_off_s: float = 0.0  # how wrong its wall clock is


class Machine:
    """A host with a disk, on which a node may run."""

    def __init__(
        self, name: str, network: Network, rng: Random, habits: Habits, limits: Limits,
        plans: Plans | None, links_changed: Callable[[str, tuple[str, ...]], None],
    ) -> None:  # fmt: skip
        """Without `plans` its node is alone."""
        self.name = name
        self.network = network
        self.rng = rng
        self.habits = habits
        self.limits = limits
        self.links_changed = links_changed
        self.disk = Disk()
        self.papers = Papers(rng.getrandbits(64))
        self.life: Life | None = None
        self._plans = plans

    def start(self) -> None:
        assert self.life is None
        life = self.life = Life(self)
        if self._plans is not None:
            life.joined = Joined(life, self.papers, self._plans)
            self.network.listen(self.name, f"{self.name}:link", life.joined.accept)
        self.network.listen(self.name, f"{self.name}:mqtt", life.accept)

    def crash(self, *, loses_disk: bool = False) -> None:
        """Nothing remains but what the store has written, and perhaps not even that."""
        life = self.life
        assert life is not None
        self.network.stop_listening(self.name)
        self.life = None
        life.crash()
        if loses_disk:
            self.disk.files.clear()
            self.papers = Papers(self.rng.getrandbits(64))


class Life:
    """From a start to a crash."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.is_over = False
        self.links: list[Link] = []
        self.joined: Joined | None = None
        self._linked: tuple[str, ...] = ()
        self._clock = machine.network.clock
        self._began_s = machine.rng.uniform(100.0, 100_000.0) - self._clock.now
        self._wakes_at_s = 0.0
        self._ids = 0
        self.wall_offset_s = EPOCH_S + machine.habits.wall_off_s - self._began_s
        self._store = SimulatedStore(
            machine.disk, self._clock, machine.rng, machine.habits.keeps_after_s,
            machine.habits.checkpoints, self.wall_offset_s, self.turn,
        )  # fmt: skip
        state = self._store.load()
        self.broker = Broker(machine.limits, self._store, BuiltInGate(), self._make_id)
        restore(self.broker, state, self.now)
        self._store.checkpoint_from(partial(living, self.broker))
        self.turn(lambda: None)

    @property
    def now(self) -> float:
        """On the node's monotonic clock."""
        return self._clock.now + self._began_s

    def _make_id(self) -> str:
        self._ids += 1
        return f"{self.machine.name}-made-{self._ids}"

    # ---- turns ---------------------------------------------------------------------------------------

    def turn(self, action: Callable[[], None]) -> None:
        """Let something happen to the node, as its event loop does."""
        if self.is_over:
            return
        self.broker.turn(self.now)
        action()
        self._finish()

    def later(self, action: Callable[[], None]) -> None:
        """In the next turn."""
        self._clock.at(self._clock.now, self.turn, action)

    def _finish(self) -> None:
        hub = self.broker.hub
        hub.end_turn()
        flushed = [link.flush() for link in list(self.links)]
        if any(flushed):
            hub.end_turn()  # writing has made room, which may have been used
            if any(link.can_flush() for link in self.links):
                self.later(lambda: None)
        self._set_wake_up()
        if self.joined is not None and self.joined.linked() != self._linked:
            self._linked = self.joined.linked()
            self.machine.links_changed(self.machine.name, self._linked)

    def _set_wake_up(self) -> None:
        due_s = self.broker.timers.next_at_s
        if due_s != self._wakes_at_s:
            self._wakes_at_s = due_s
            self._clock.at(max(due_s - self._began_s, self._clock.now), self._wake_up, due_s)

    def _wake_up(self, due_s: float) -> None:
        if due_s == self._wakes_at_s and not self.is_over:
            self._wakes_at_s = 0.0
            self.turn(lambda: self.broker.advance(max(self.now, due_s)))

    # ---- connections ---------------------------------------------------------------------------------

    def accept(self, end: End) -> None:
        """A client has connected."""
        self.open_link(end, lambda link: self.broker.open(link, end.other.host, self.now))

    def open_link(self, end: End, make_lane: Callable[["Link"], Any]) -> None:
        def open_now() -> None:
            link = Link(self, end)
            self.links.append(link)
            link.lane = make_lane(link)

        self.turn(open_now)

    def crash(self) -> None:
        self.is_over = True
        self._store.crash()
        for end in self.machine.network.of(self.machine.name):
            end.vanish()
        self._free()

    def _free(self) -> None:
        """End what a collection would not find: C arrays hold deliveries, and these their sessions."""
        broker = self.broker
        self.links.clear()
        for connection in list(broker.connections):
            connection.lost("the node is gone")
        for session in list(broker.sessions.values()):
            broker.end_session(session, "deleted")
        for peer in broker.peers:
            broker.peers.forget(peer.node)
        broker.router.forget_routes()

    def drops(self) -> tuple[tuple[str, int], ...]:
        """How many messages it has given up, by reason."""
        counts = self.broker.hub.counters.by_name().items()
        return tuple((name, count) for name, count in counts if count and name.startswith("dropped_"))


class Link:
    """The node's end of a connection: the shell of its lane."""

    def __init__(self, life: Life, end: End) -> None:
        self.lane: Any = None
        self._life = life
        self._end = end
        self._is_paused = False
        self._unread: list[bytes] = []
        end.owner = self

    # ---- called by the lane --------------------------------------------------------------------------

    def close(self) -> None:
        """Write what is in the output, then close."""
        self._end.send(self.lane.output.take())
        self._over()
        self._end.close()

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False
        if self._unread:
            self._life.later(self._read_on)

    def defer(self, action: Callable[[], None]) -> None:
        self._life.later(action)

    # ---- called by the network -----------------------------------------------------------------------

    def arrived(self, data: bytes) -> None:
        self._unread.append(data)
        if not self._is_paused:
            self._life.turn(self._read_on)

    def _read_on(self) -> None:
        while self._unread and not self._is_paused and self in self._life.links:
            self.lane.receive(self._unread.pop(0), self._life.now)

    def ended(self, why: str) -> None:
        if self in self._life.links:
            self._over()
            self._life.turn(lambda: self.lane.lost(why))

    def has_room(self) -> None:
        if self.can_flush():
            self._life.turn(lambda: None)

    def _over(self) -> None:
        if self in self._life.links:
            self._life.links.remove(self)

    # ---- output --------------------------------------------------------------------------------------

    def can_flush(self) -> bool:
        has_output = self.lane is not None and len(self.lane.output) > 0
        return has_output and self._end.under_way_bytes < WINDOW_BYTES

    def flush(self) -> bool:
        """Whether there was anything to write."""
        if not self.can_flush():
            return False
        self._end.send(self.lane.output.take())
        self.lane.output_drained()
        return True
