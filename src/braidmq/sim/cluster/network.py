"""Connections between hosts: byte streams in order, with delays, cuts at any byte, and partitions.

Bytes that can't pass wait, as TCP sends them again: after a partition a connection goes on unless one of its
ends has given it up. A cut loses what was under way from a random byte on, and each end hears of it in its
own time, or never.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import Final, Protocol

from braidmq.sim.world.clock import Clock

AGAIN_S: Final = 0.1  # how soon bytes that could not pass are tried again
NOT_REACHED_S: Final = 1.0  # after which a dialler that gets no answer gives up
HEARD_S: Final = 0.5  # within this an end hears that its connection was cut, if it does
SILENT: Final = 0.3  # share of cuts of which an end hears nothing
PIECES_MAX: Final = 3  # in which what is sent at once arrives


@dataclass(frozen=True, slots=True)
class Delays:
    """How long bytes take: each time drawn anew, and in order all the same."""

    least_s: float = 0.0002
    nodes_most_s: float = 0.005  # between nodes
    clients_most_s: float = 0.005


class Owner(Protocol):
    """Who has an end of a connection."""

    def arrived(self, data: bytes) -> None: ...

    def ended(self, why: str) -> None:
        """The other end has closed, or the connection is cut."""

    def has_room(self) -> None:
        """What was sent has arrived."""


class End:
    """One end of a connection; what is sent here arrives at `other`."""

    def __init__(self, network: "Network", host: str) -> None:
        self.host = host
        self.other: End = self
        self.owner: Owner | None = None
        self.is_closed = False  # by its owner: nothing arrives here any more
        self.under_way_bytes = 0
        self.network = network
        self._under_way: deque[tuple[float, bytes | None]] = deque()  # None: the end of the stream
        self._arrives_at_s = 0.0
        self._is_cut = False

    @property
    def is_whole(self) -> bool:
        """Whether what is sent here will arrive."""
        return not (self._is_cut or self.is_closed or self.other.is_closed)

    def send(self, data: bytes) -> None:
        """To the other end, in pieces."""
        if self.is_closed or self._is_cut or not data:
            return
        for piece in self.network.pieces(data):
            self._put(piece)

    def close(self) -> None:
        """What was sent still arrives."""
        if not self.is_closed:
            self.is_closed = True
            self._put(None)

    def vanish(self) -> None:
        """Its host is gone: of what was sent a part may arrive."""
        self.is_closed = True
        self.cut()

    def _put(self, piece: bytes | None) -> None:
        if self._is_cut:
            return
        network = self.network
        self.under_way_bytes += len(piece or b"")
        delay_s = network.delay_s(self.host, self.other.host)
        self._arrives_at_s = max(self._arrives_at_s, network.clock.now + delay_s)
        self._under_way.append((self._arrives_at_s, piece))
        network.clock.at(self._arrives_at_s, self._arrive)

    def _arrive(self) -> None:
        network, under_way = self.network, self._under_way
        while under_way and under_way[0][0] <= network.clock.now:
            if not network.can_pass(self.host, self.other.host):
                network.clock.at(network.clock.now + AGAIN_S, self._arrive)
                return
            _, piece = under_way.popleft()
            self.under_way_bytes -= len(piece or b"")
            self.other.take(piece)
            if self.owner is not None and not self.is_closed:
                self.owner.has_room()

    def take(self, piece: bytes | None) -> None:
        if self.is_closed or self.owner is None:
            return
        if piece is not None:
            self.owner.arrived(piece)
        else:
            self._end("closed by the other side")

    def cut(self) -> None:
        """Both ways, each from a random byte on."""
        if not self._is_cut:
            self._cut_way()
            self.other._cut_way()

    def _cut_way(self) -> None:
        self._is_cut = True
        rng, clock = self.network.rng, self.network.clock
        passing = rng.randint(0, self.under_way_bytes)
        arriving: deque[tuple[float, bytes | None]] = deque()
        for at_s, piece in self._under_way:
            if piece is None or not passing:
                break
            arriving.append((at_s, piece[:passing]))
            passing -= len(piece[:passing])
        self._under_way = arriving
        self.under_way_bytes = sum(len(piece or b"") for _, piece in arriving)
        if rng.random() >= SILENT:
            clock.at(clock.now + rng.uniform(0, HEARD_S), self._end, "cut")

    def _end(self, why: str) -> None:
        if not self.is_closed:
            self.is_closed = True
            self._is_cut = True
            if self.owner is not None:
                self.owner.ended(why)


class Network:
    def __init__(self, clock: Clock, rng: Random, delays: Delays) -> None:
        self.clock = clock
        self.rng = rng
        self.delays = delays
        self._blocked: set[tuple[str, str]] = set()  # from, to
        self._listening: dict[str, Callable[[End], None]] = {}  # address -> who takes a new connection
        self._hosts: dict[str, str] = {}  # address -> host
        self._nodes: set[str] = set()  # hosts that listen
        self._ends: list[End] = []  # the dialling ones, of connections that may live

    # ---- faults --------------------------------------------------------------------------------------

    def block(self, source: str, target: str) -> None:
        """Nothing passes from one host to the other."""
        self._blocked.add((source, target))

    def blocked(self) -> list[tuple[str, str]]:
        return sorted(self._blocked)

    def unblock(self, ways: Iterable[tuple[str, str]]) -> None:
        self._blocked.difference_update(ways)

    def can_pass(self, source: str, target: str) -> bool:
        return (source, target) not in self._blocked

    def between(self, one: str, other: str) -> list[End]:
        """Connections that two hosts have."""
        self._ends = [end for end in self._ends if not (end.is_closed and end.other.is_closed)]
        return [end for end in self._ends if {end.host, end.other.host} == {one, other}]

    def of(self, host: str) -> list[End]:
        """The ends that a host has."""
        both = [end for dialling in self._ends for end in (dialling, dialling.other)]
        return [end for end in both if end.host == host and not end.is_closed]

    # ---- connections ---------------------------------------------------------------------------------

    def listen(self, host: str, address: str, accept: Callable[[End], None]) -> None:
        self._hosts[address] = host
        self._nodes.add(host)
        self._listening[address] = accept

    def stop_listening(self, host: str) -> None:
        for address, of_host in self._hosts.items():
            if of_host == host:
                self._listening.pop(address, None)

    def dial(
        self, host: str, address: str, opened: Callable[[End], None], failed: Callable[[str], None]
    ) -> None:
        """Either `opened` or `failed` is called, later."""
        delay_s = self.delay_s(host, self._hosts.get(address, ""))
        self.clock.at(self.clock.now + delay_s, self._reach, host, address, opened, failed)

    def _reach(
        self, host: str, address: str, opened: Callable[[End], None], failed: Callable[[str], None]
    ) -> None:
        target = self._hosts.get(address)
        if target is None or not (self.can_pass(host, target) and self.can_pass(target, host)):
            self.clock.at(self.clock.now + NOT_REACHED_S, failed, "no answer")
            return
        accept = self._listening.get(address)
        if accept is None:
            self.clock.at(self.clock.now + self.delay_s(host, target), failed, "refused")
            return
        near, far = End(self, host), End(self, target)
        near.other, far.other = far, near
        self._ends.append(near)
        accept(far)
        opened(near)

    def delay_s(self, one: str, other: str) -> float:
        nodes = self._nodes
        is_link = one in nodes and other in nodes
        most_s = self.delays.nodes_most_s if is_link else self.delays.clients_most_s
        return self.rng.uniform(self.delays.least_s, most_s)

    def pieces(self, data: bytes) -> Iterable[bytes]:
        """Now and then what is sent at once comes in pieces."""
        if len(data) < 2 or self.rng.random() < 0.8:
            return (data,)
        cuts = sorted(self.rng.randrange(1, len(data)) for _ in range(PIECES_MAX - 1))
        parts = [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
        return [part for part in parts if part]
