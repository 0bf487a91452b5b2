"""Tells the peers what this node wants, and keeps what they want up to date: the interest of a cluster.

A turn of the broker with changes ends with a round of announcements to all linked peers, the first at once,
the next some milliseconds later at the earliest. A peer takes an announcement, then says SEEN: from then on
it forwards what the new subscription wants, and `AwaitSeen` is answered when all linked peers have.

A new link begins with `InterestAt`: the positions of our streams. Who has followed them up to there is in
step, whatever happened to the link; who has not (a restart, a change meanwhile) asks for a snapshot by
`SendInterest`, and forwards everything until it comes. Peers that are away keep their filters: lasting
sessions there want what comes.

Streams: 0 the filters of plain subscriptions, 1 the ids of lasting sessions (hashed), if those are announced.
What else is announced in rounds (groups) is an `Announcer`; it says SEEN for its own announcements by itself.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from math import inf
from typing import Any, Final, Protocol

from braidmq.cluster import frames as wire
from braidmq.cluster.effects import Effect, RoutesChanged, SendControl, SendFrame
from braidmq.cluster.frames import INTEREST, PIECE_BYTES_MAX, SEEN, Control, FrameError
from braidmq.cluster.hops import Change, Hop, Routing, Stream
from braidmq.cluster.ledger import Ledger, Patience, Seen
from braidmq.cluster.parts import Part
from braidmq.cluster.routing import BloomRouting
from braidmq.limits import MIB
from braidmq.topics.bloom import InterestError

FILTERS: Final = 0
SESSIONS: Final = 1
OWN_PREFIXES: Final = (b"$SYS/", b"$load/")  # each node's own business
# The largest interest filter there is has 64 MiB.
ANNOUNCEMENT_BYTES_MAX: Final = 65 * MIB
# Routes that lead somewhere where nothing is wanted any more are forgotten after this at the latest.
NARROWING_S: Final = 1.0
ASKING_AGAIN_S: Final = 1.0
ADVANCING_S: Final = 0.005


@dataclass(frozen=True, slots=True)
class FilterAppeared:
    """The first plain subscription with this filter was made here."""

    filter: bytes


@dataclass(frozen=True, slots=True)
class FilterVanished:
    """The last plain subscription with this filter has ended."""

    filter: bytes


@dataclass(frozen=True, slots=True)
class SessionAppeared:
    """A session that outlasts its connection has its home here."""

    client_id: str


@dataclass(frozen=True, slots=True)
class SessionVanished:
    client_id: str


@dataclass(frozen=True, slots=True)
class AnnounceNow:
    """All that has changed so far is to be told at once: what is sent afterwards must not come before it."""


@dataclass(frozen=True, slots=True)
class AwaitSeen:
    """`Seen(token)` is wanted when all that has changed so far is in force at all linked peers."""

    token: int


class InterestAt(Control, frozen=True):
    """The first announcement on a link: where its streams stand."""

    number: int
    boot: int
    positions: dict[int, tuple[int, int]]


class SendInterest(Control, frozen=True):
    """Something of this stream is missing: please send all of it."""

    stream: int


class Announcer(Protocol):
    """What else is announced in rounds."""

    @property
    def dirty(self) -> bool:
        """Whether there is something to announce."""

    def announce(self, ledger: Ledger) -> Iterable[Effect]:
        """Tell all peers in the ledger what has changed, each with a `ledger.number(peer)`."""


@dataclass(slots=True)
class Counts:
    announced: int = 0  # messages to peers, with the repeated ones
    announced_bytes: int = 0
    asked: int = 0  # snapshots that were asked for
    damaged: int = 0  # announcements of peers that could not be read


@dataclass(slots=True)
class _Asked:
    """Snapshots that were asked for and have not come: (peer, stream) -> when."""

    at_s: dict[tuple[int, int], float] = field(default_factory=dict)

    @property
    def next_at_s(self) -> float:
        return min(self.at_s.values(), default=inf) + ASKING_AGAIN_S

    def forget(self, peer: int) -> None:
        self.at_s = {key: at_s for key, at_s in self.at_s.items() if key[0] != peer}


class Announcing(Part):
    events = (FilterAppeared, FilterVanished, SessionAppeared, SessionVanished, AnnounceNow, AwaitSeen)
    controls = (InterestAt, SendInterest)
    frames = (INTEREST, SEEN)

    def __init__(
        self,
        routing: Routing,
        sessions: BloomRouting | None,
        *,
        boot: int,
        wait_ms: int,
        pause_ms: int = 5,
        remembered: Iterable[int] = (),
    ) -> None:
        """`wait_ms`: how long AwaitSeen waits at most; 0: not at all. `remembered` peers want everything."""
        self.routing = routing
        self.ledger = Ledger()
        self.counts = Counts()
        self.announcers: list[Announcer] = []
        self._sessions = sessions
        self._streams: dict[int, Stream] = {FILTERS: routing}
        if sessions is not None:
            self._streams[SESSIONS] = sessions
        self._boot = boot
        self._waits = wait_ms > 0
        self._patience = Patience(self.ledger, wait_ms / 1000)
        self._pause_s = pause_ms / 1000
        self._boots: dict[int, int] = {}
        self._pieces: dict[tuple[int, int], bytearray] = {}
        self._asked = _Asked()
        self._to_send: set[tuple[int, int]] = set()  # (peer, stream): snapshots that peers asked for
        self._announce_at_s = 0.0  # not before
        self._narrow_at_s = inf
        self._advance_at_s = inf
        for peer in remembered:
            self._join(peer)

    @property
    def late_total(self) -> int:
        """How often a wait was given up."""
        return self._patience.late_total

    def hops(self, topic: bytes) -> tuple[Hop, ...]:
        """The peers that get what is published here on this topic, for their plain subscribers.

        None if messages are relayed: then it isn't interest that decides where they go.
        """
        return () if topic.startswith(OWN_PREFIXES) or self.routing.relays else self.routing.hops(topic)

    def may_have(self, client_id: str) -> list[int]:
        """The peers that may be the home of a lasting session; nobody if sessions aren't announced."""
        return [] if self._sessions is None else [hop.peer for hop in self._sessions.hops(_key(client_id))]

    # -- local events ----------------------------------------------------------------------------------------

    def handle(self, event: Any, now: float) -> Iterable[Effect]:
        match event:
            case FilterAppeared(filter) if not _is_own(filter):
                self.routing.wanted(filter)
            case FilterVanished(filter) if not _is_own(filter):
                self.routing.unwanted(filter)
            case SessionAppeared(client_id) if self._sessions is not None:
                self._sessions.wanted(_key(client_id))
            case SessionVanished(client_id) if self._sessions is not None:
                self._sessions.unwanted(_key(client_id))
            case AnnounceNow():
                self._announce_at_s = now
                return self._planned(self._announce_if_due(now))
            case AwaitSeen(token):
                return self._planned(self._await_seen(token, now))
        return ()

    def _await_seen(self, token: int, now: float) -> Iterable[Effect]:
        if not self._waits:
            return [Seen(token, is_late=False)]
        return self._patience.wait(token, self.ledger.round + self._is_dirty(), now)

    def _is_dirty(self) -> bool:
        """Whether something has changed that the peers weren't told; nobody is told while nobody is there."""
        if not self.ledger:
            return False
        is_dirty = any(stream.dirty for stream in self._streams.values())
        return is_dirty or any(announcer.dirty for announcer in self.announcers)

    # -- rounds ----------------------------------------------------------------------------------------------

    def turn_ended(self, now: float) -> Iterable[Effect]:
        return self._planned(self._announce_if_due(now))

    def time_came(self, now: float) -> Iterable[Effect]:
        effects = self._announce_if_due(now)
        effects += self._patience.release(now)
        if self._narrow_at_s <= now:
            effects.append(self._forget_routes())
        if self._advance_at_s <= now:
            unfinished = [stream for stream in self._streams.values() if stream.advance()]
            self._advance_at_s = now + ADVANCING_S if unfinished else inf
        for (peer, stream), at_s in list(self._asked.at_s.items()):
            if at_s + ASKING_AGAIN_S <= now:
                effects += self._ask(peer, stream, now)
        return self._planned(effects)

    def _announce_if_due(self, now: float) -> list[Effect]:
        if now < self._announce_at_s or not (self._to_send or self._is_dirty()):
            return []
        self._announce_at_s = now + self._pause_s
        self._advance_at_s = min(self._advance_at_s, now + ADVANCING_S)
        self.ledger.round += 1
        effects: list[Effect] = []
        for number, stream in self._streams.items():
            effects += self._announce(number, stream)
        for announcer in self.announcers:
            if announcer.dirty:
                effects += announcer.announce(self.ledger)
        return effects

    def _announce(self, number: int, stream: Stream) -> list[Effect]:
        """What has changed for everybody, but all there is for those who asked for it."""
        asking = {peer for peer, asked in self._to_send if asked == number}
        self._to_send -= {(peer, number) for peer in asking}
        changes = stream.announcement()
        effects: list[Effect] = []
        for peer in self.ledger:
            if changes is not None and peer not in asking:
                effects += self._tell(peer, number, changes)
        if asking:
            whole = stream.snapshot()
            for peer in sorted(asking):
                effects += self._tell(peer, number, whole)
        return effects

    def _tell(self, peer: int, stream: int, message: bytes) -> Iterable[Effect]:
        number = self.ledger.number(peer)
        self.counts.announced += 1
        self.counts.announced_bytes += len(message)
        for start in range(0, len(message), PIECE_BYTES_MAX):
            end = start + PIECE_BYTES_MAX
            piece = wire.Interest(number, stream, end >= len(message), message[start:end])
            yield SendFrame(peer, wire.interest(piece))

    # -- peers -----------------------------------------------------------------------------------------------

    def linked(self, peer: int, now: float) -> Iterable[Effect]:
        self._close(peer)
        self._join(peer)
        self.ledger.linked(peer)
        positions = {number: stream.position for number, stream in self._streams.items()}
        greeting = InterestAt(self.ledger.greeting(peer), self._boot, positions)
        return self._planned([SendControl(peer, greeting), self._forget_routes()])

    def unlinked(self, peer: int, now: float) -> Iterable[Effect]:
        self._close(peer)
        return self._planned(self._patience.release(now))

    def died(self, peer: int, now: float) -> Iterable[Effect]:
        for stream in self._streams.values():
            stream.died(peer)
        return self._planned([self._forget_routes()])

    def forgotten(self, peer: int, now: float) -> Iterable[Effect]:
        self._close(peer)
        self._boots.pop(peer, None)
        for stream in self._streams.values():
            stream.gone(peer)
        return self._planned([*self._patience.release(now), self._forget_routes()])

    def _join(self, peer: int) -> None:
        for stream in self._streams.values():
            stream.joined(peer)

    def _close(self, peer: int) -> None:
        """Nothing of the last link holds any more."""
        self.ledger.unlinked(peer)
        self._asked.forget(peer)
        for number in self._streams:
            self._pieces.pop((peer, number), None)
            self._to_send.discard((peer, number))

    # -- what peers say --------------------------------------------------------------------------------------

    def received(self, peer: int, control: Any, now: float) -> Iterable[Effect]:
        if isinstance(control, InterestAt):
            return self._planned(self._compare(peer, control, now))
        if control.stream in self._streams:
            if not self._streams[control.stream].announces:
                raise FrameError(
                    "this node's routing mode knows no interest; all nodes need the same `routing`"
                )
            self._to_send.add((peer, control.stream))
        return self._planned([])

    def _compare(self, peer: int, at: InterestAt, now: float) -> Iterable[Effect]:
        effects: list[Effect] = []
        is_new_life = self._boots.get(peer) != at.boot
        self._boots[peer] = at.boot
        for number, stream in self._streams.items():
            if is_new_life:
                stream.restarted(peer)
                effects += self._changed(number, Change.WIDER, now)
            if number in at.positions:
                receipt = stream.compare(peer, at.positions[number])
                effects += self._changed(number, receipt.change, now)
                effects += self._keep_in_step(peer, number, now)
        return [*effects, SendFrame(peer, wire.seen(at.number))]

    def framed(self, peer: int, first: int, body: bytes, now: float) -> Iterable[Effect]:
        if first == SEEN:
            self.ledger.saw(peer, wire.read_seen(body))
            return self._planned(self._patience.release(now))
        announcement = wire.read_interest(body)
        message = self._assembled(peer, announcement)
        if message is None:
            return ()
        effects = self._take(peer, announcement.stream, message, now)
        return self._planned([*effects, SendFrame(peer, wire.seen(announcement.number))])

    def _assembled(self, peer: int, announcement: wire.Interest) -> bytes | None:
        """The whole message, once its last piece is here."""
        key = peer, announcement.stream
        if announcement.stream not in self._streams:
            return b"" if announcement.is_last else None
        pieces = self._pieces.setdefault(key, bytearray())
        if len(pieces) + len(announcement.piece) > ANNOUNCEMENT_BYTES_MAX:
            raise FrameError(f"an announcement has more than {ANNOUNCEMENT_BYTES_MAX} bytes")
        pieces += announcement.piece
        return bytes(self._pieces.pop(key)) if announcement.is_last else None

    def _take(self, peer: int, number: int, message: bytes, now: float) -> list[Effect]:
        stream = self._streams.get(number)
        if stream is None:  # a newer node's, or one with other settings
            return []
        try:
            change = stream.receive(peer, message).change
        except InterestError:
            self.counts.damaged += 1
            change = Change.WIDER
        self._advance_at_s = min(self._advance_at_s, now + ADVANCING_S)
        return [*self._changed(number, change, now), *self._keep_in_step(peer, number, now)]

    def _keep_in_step(self, peer: int, number: int, now: float) -> Iterable[Effect]:
        if self._streams[number].in_step(peer):
            self._asked.at_s.pop((peer, number), None)
        elif (peer, number) not in self._asked.at_s:
            return self._ask(peer, number, now)
        return ()

    def _ask(self, peer: int, number: int, now: float) -> Iterable[Effect]:
        self._asked.at_s[peer, number] = now
        self.counts.asked += 1
        return [SendControl(peer, SendInterest(number))]

    # -- routes and times ------------------------------------------------------------------------------------

    def _changed(self, number: int, change: Change, now: float) -> Iterable[Effect]:
        """A route that lacks a peer loses messages: it goes at once. One with a needless peer may wait."""
        if number != FILTERS or change is Change.NONE:
            return ()
        if change is Change.NARROWER:
            self._narrow_at_s = min(self._narrow_at_s, now + NARROWING_S)
            return ()
        return [self._forget_routes()]

    def _forget_routes(self) -> RoutesChanged:
        self._narrow_at_s = inf
        return RoutesChanged()

    def _planned(self, effects: Iterable[Effect]) -> list[Effect]:
        """The effects as they are, and `next_at_s` as it should be after them."""
        planned = list(effects)
        announce_at_s = self._announce_at_s if self._to_send or self._is_dirty() else inf
        self.next_at_s = min(
            announce_at_s,
            self._patience.next_at_s,
            self._narrow_at_s,
            self._advance_at_s,
            self._asked.next_at_s,
        )
        return planned


def _is_own(filter: bytes) -> bool:
    return filter.startswith(OWN_PREFIXES)


def _key(client_id: str) -> bytes:
    """A filter of one level without wildcards, whatever the id has in it."""
    return blake2b(client_id.encode(), digest_size=8).hexdigest().encode()
