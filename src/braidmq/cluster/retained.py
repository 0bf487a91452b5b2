"""Makes the retained messages of all nodes the same again after they were apart.

A retained message goes to every node when it is published, so nothing is to be done while nothing breaks.
After a link has come back, and now and then with one peer, two nodes compare what they have:

    one                          the other
    Buckets(digests)        ──▶
                            ◀──  Differing(buckets)
    AskTopics(buckets)      ──▶                        some at a time, until there are no more
                            ◀──  Topics(bucket, ...)   the stamp of each topic there
    Want(topics)            ──▶                        what is newer there, or not here
                            ◀──  entries
    entries                 ──▶                        what is newer here, or not there

A topic is in one of 1,024 buckets by its hash, and a bucket's digest is the XOR of the hashes of its topics
with their stamps, deleted ones included. An entry is kept if its stamp is the larger one, so it does no harm
if something comes twice, or while messages are published; all nodes end with the maximum of each topic.

What was deleted is known for `tombstone_s` only. Who was away for longer may have topics that were deleted
meanwhile and of which nobody knows any more: those from before that time which the other lacks are dropped.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import inf
from struct import Struct
from typing import Any, Final, NamedTuple, Protocol

from braidmq.cluster.clock import SKEW_MAX_S, HybridClock, milliseconds
from braidmq.cluster.effects import Effect, Enter, SendControl
from braidmq.cluster.frames import Control, FrameError
from braidmq.cluster.parts import Part
from braidmq.messages.message import Message

BUCKETS: Final = 1024
NOT_DELIVERED: Final = b"\0\0"  # a route: neither for subscribers nor for groups, only to be retained
PUBLISH: Final = 0  # the kind of an entry

BUCKETS_AT_A_TIME: Final = 4
STEP_S: Final = 0.005
TOPICS_MAX: Final = 2048  # in one message, which stays below 64 KiB
AFTER_LINK_S: Final = 0.2
AFTER_LINK_S_MAX: Final = 30.0  # if what waited for the peer takes long
ROUND_S: Final = 600.0
SWEEP_S: Final = 60.0
AWAY_MAX: Final = 1024  # nodes of which it is known since when they are away
_HASH_MAX: Final = (1 << 64) - 1

_DIGESTS: Final = Struct(f"<{BUCKETS}Q")
_STAMPED: Final = Struct("<QQQ")
_HASH: Final = Struct("<Q")


class Stamped(NamedTuple):
    """A topic by its hash, and the stamp of what it retains or of its deletion."""

    topic: int
    hlc: int
    node: int


class Retained(Protocol):
    """What the broker retains."""

    def digests(self) -> list[int]:
        """Of all buckets."""

    def stamps(self, bucket: int) -> Iterable[tuple[int, int, int]]:
        """The fields of `Stamped` for all topics of a bucket, also deleted ones."""

    def message(self, topic: int) -> Message | None:
        """With a stamp; an empty one says that the topic was deleted. None: nothing is known of the topic."""

    def drop(self, topic: int) -> None:
        """Forget a topic, without a trace."""

    def sweep(self, before_ms: int) -> None:
        """Forget that topics were deleted before this time of the hybrid clock."""


class Buckets(Control, frozen=True):
    digests: bytes
    away_since_ms: int  # since when the receiver was away, if that was too long; else 0


class Differing(Control, frozen=True):
    buckets: tuple[int, ...]
    away_since_ms: int


class AskTopics(Control, frozen=True):
    """None: that was all."""

    buckets: tuple[int, ...]


class Topics(Control, frozen=True):
    """All topics of a bucket whose hashes are from `first` to `last`."""

    bucket: int
    first: int
    last: int
    stamps: bytes


class Want(Control, frozen=True):
    topics: bytes


class Drop(Control, frozen=True):
    """Topics that are not known here, and were before the receiver went away."""

    topics: bytes


@dataclass(slots=True)
class Counts:
    rounds: int = 0  # comparisons that were begun
    repaired: int = 0  # messages that were sent because a peer lacked them
    dropped: int = 0  # topics that were deleted while this node was away for too long


class Healing(Part):
    controls = (Buckets, Differing, AskTopics, Topics, Want, Drop)

    def __init__(
        self,
        me: int,
        retained: Retained,
        clock: HybridClock,
        tombstone_s: float,
        now: float,
        is_behind: Callable[[int], bool] = lambda peer: False,
        dead_since_ms: Mapping[int, int] | None = None,
    ) -> None:
        """`is_behind` says whether entries wait for a peer: what is on its way need not be compared.

        `dead_since_ms` has the wall clock's times of peers that were dead before this start.
        """
        self.counts = Counts()
        self._me = me
        self._retained = retained
        self._clock = clock
        self._tombstone_ms = int(tombstone_s * 1000)
        self._linked: list[int] = []
        self._is_behind = is_behind
        self._due: dict[int, float] = {}  # peers to begin with, and when
        self._due_at_the_latest: dict[int, float] = {}
        self._rounds: dict[int, deque[int]] = {}  # begun here: the buckets that have yet to be looked into
        self._away_since_ms = dict(dead_since_ms or {})
        self._were_away_ms: dict[int, int] = {}  # linked peers that were away for too long, and since when
        self._compared: set[int] = set()  # linked peers with which all was compared
        self._i_was_away_ms: dict[int, int] = {}  # the same as linked peers have seen it; 0: not for too long
        self._next_round_at_s = now + ROUND_S
        self._sweep_at_s = now + SWEEP_S
        self._step_at_s = inf
        self._plan()

    # -- peers -----------------------------------------------------------------------------------------------

    def linked(self, peer: int, now: float) -> Iterable[Effect]:
        self._linked.append(peer)
        since_ms = self._away_since_ms.pop(peer, None)
        self._were_away_ms.pop(peer, None)
        if since_ms is not None and self._clock.wall_ms(now) - since_ms > self._tombstone_ms:
            self._were_away_ms[peer] = since_ms
        if self._me < peer:  # one of the two is enough
            self._due[peer] = now + AFTER_LINK_S
            self._due_at_the_latest[peer] = now + AFTER_LINK_S_MAX
        self._plan()
        return ()

    def unlinked(self, peer: int, now: float) -> Iterable[Effect]:
        if peer in self._linked:
            self._linked.remove(peer)
        self._rounds.pop(peer, None)
        self._due.pop(peer, None)
        self._i_was_away_ms.pop(peer, None)
        since_ms = self._were_away_ms.pop(peer, None)
        if since_ms is None or peer in self._compared:  # else it is as if it had not come back
            since_ms = self._clock.wall_ms(now)
        self._away_since_ms[peer] = since_ms  # also of who is forgotten: it may come back with all it had
        if len(self._away_since_ms) > AWAY_MAX:
            del self._away_since_ms[next(iter(self._away_since_ms))]
        self._compared.discard(peer)
        self._plan()
        return ()

    # -- time ------------------------------------------------------------------------------------------------

    def time_came(self, now: float) -> Iterable[Effect]:
        effects: list[Effect] = []
        if self._sweep_at_s <= now:
            self._sweep_at_s = now + SWEEP_S
            self._retained.sweep(self._clock.wall_ms(now) - self._tombstone_ms)
        if self._next_round_at_s <= now:
            self._next_round_at_s = now + ROUND_S
            if self._linked:  # another one each time
                self._linked.append(self._linked.pop(0))
                self._due.setdefault(self._linked[-1], now)
        effects += [self._begin(peer) for peer in self._take_due(now)]
        if self._step_at_s <= now:
            self._step_at_s = now + STEP_S
            effects += [self._step(peer) for peer in list(self._rounds)]
        self._plan()
        return effects

    def _take_due(self, now: float) -> list[int]:
        due = [peer for peer, at_s in self._due.items() if at_s <= now]
        for peer in [peer for peer in due if self._is_behind(peer)]:
            if now < self._due_at_the_latest.get(peer, now):
                self._due[peer] = now + AFTER_LINK_S
                due.remove(peer)
        for peer in due:
            del self._due[peer]
        return due

    def _plan(self) -> None:
        if not self._rounds:
            self._step_at_s = inf
        first_due_s = min(self._due.values(), default=inf)
        self.next_at_s = min(self._sweep_at_s, self._next_round_at_s, self._step_at_s, first_due_s)

    def _begin(self, peer: int) -> Effect:
        self.counts.rounds += 1
        digests = _DIGESTS.pack(*self._retained.digests())
        return SendControl(peer, Buckets(digests, self._were_away_ms.get(peer, 0)))

    def _step(self, peer: int) -> Effect:
        left = self._rounds[peer]
        some = [left.popleft() for _ in range(min(BUCKETS_AT_A_TIME, len(left)))]
        if not some:
            del self._rounds[peer]
            self._compared.add(peer)
        return SendControl(peer, AskTopics(tuple(some)))

    # -- what peers say --------------------------------------------------------------------------------------

    def received(self, peer: int, control: Any, now: float) -> Iterable[Effect]:
        match control:
            case Buckets():
                return self._compare(peer, control)
            case Differing():
                return self._ask(peer, control, now)
            case AskTopics():
                return self._tell_topics(peer, control)
            case Topics():
                return self._look_into(peer, control)
            case Want():
                return self._give(peer, _hashes(control.topics))
            case _:
                return self._drop(peer, _hashes(control.topics))

    def _compare(self, peer: int, theirs: Buckets) -> Iterable[Effect]:
        if len(theirs.digests) != _DIGESTS.size:
            raise FrameError(f"digests of {len(theirs.digests)} bytes are not those of {BUCKETS} buckets")
        self._i_was_away_ms[peer] = theirs.away_since_ms
        pairs = zip(self._retained.digests(), _DIGESTS.unpack(theirs.digests), strict=True)
        differing = tuple([bucket for bucket, (mine, other) in enumerate(pairs) if mine != other])
        return [SendControl(peer, Differing(differing, self._were_away_ms.get(peer, 0)))]

    def _ask(self, peer: int, differing: Differing, now: float) -> Iterable[Effect]:
        self._i_was_away_ms[peer] = differing.away_since_ms
        self._rounds[peer] = deque(_checked(differing.buckets))
        self._step_at_s = min(self._step_at_s, now)
        self._plan()
        return ()

    def _tell_topics(self, peer: int, asked: AskTopics) -> Iterable[Effect]:
        if not asked.buckets:
            self._compared.add(peer)
        if len(asked.buckets) > BUCKETS_AT_A_TIME:
            raise FrameError(f"more than {BUCKETS_AT_A_TIME} buckets at a time")
        for bucket in _checked(asked.buckets):
            stamps = sorted(map(Stamped._make, self._retained.stamps(bucket)))
            first = 0
            for start in range(0, max(len(stamps), 1), TOPICS_MAX):
                some = stamps[start : start + TOPICS_MAX]
                is_last = start + TOPICS_MAX >= len(stamps)
                last = _HASH_MAX if is_last else some[-1].topic
                packed = b"".join([_STAMPED.pack(*stamp) for stamp in some])
                yield SendControl(peer, Topics(bucket, first, last, packed))
                first = last + 1

    def _look_into(self, peer: int, said: Topics) -> Iterable[Effect]:
        """Give what is newer here, and ask for what is newer there."""
        _checked((said.bucket,))
        if len(said.stamps) % _STAMPED.size:
            raise FrameError("stamps of topics that are cut off")
        theirs = {stamp.topic: stamp for stamp in map(Stamped._make, _STAMPED.iter_unpack(said.stamps))}
        mine = {
            stamp.topic: stamp
            for stamp in map(Stamped._make, self._retained.stamps(said.bucket))
            if said.first <= stamp.topic <= said.last
        }
        newer_there = [stamp for topic, stamp in theirs.items() if topic in mine and stamp > mine[topic]]
        newer_here = [topic for topic, stamp in mine.items() if topic in theirs and stamp > theirs[topic]]
        only_there = [stamp for topic, stamp in theirs.items() if topic not in mine]
        only_here = [stamp for topic, stamp in mine.items() if topic not in theirs]
        lost_here, new_here = _split(only_here, self._i_was_away_ms.get(peer, 0))
        lost_there, new_there = _split(only_there, self._were_away_ms.get(peer, 0))
        self._drop_here(lost_here)
        yield from self._give(peer, newer_here + new_here)
        if wanted := [stamp.topic for stamp in newer_there] + new_there:
            yield SendControl(peer, Want(_packed(wanted)))
        if lost_there:
            yield SendControl(peer, Drop(_packed(lost_there)))

    def _give(self, peer: int, topics: Iterable[int]) -> Iterable[Effect]:
        for topic in topics:
            message = self._retained.message(topic)
            if message is not None:
                self.counts.repaired += 1
                yield Enter(peer, PUBLISH, b"", message, NOT_DELIVERED)

    def _drop(self, peer: int, topics: list[int]) -> Iterable[Effect]:
        """The peer lacks them. Those are dropped that this node had before it went away for too long."""
        since_ms = self._i_was_away_ms.get(peer, 0)
        for topic in topics:
            message = self._retained.message(topic)
            if message is not None and message.stamp is not None and _is_before(message.stamp[0], since_ms):
                self._drop_here([topic])
        return ()

    def _drop_here(self, topics: list[int]) -> None:
        self.counts.dropped += len(topics)
        for topic in topics:
            self._retained.drop(topic)


def _split(stamps: list[Stamped], since_ms: int) -> tuple[list[int], list[int]]:
    """Topics from before that time, and the others."""
    old = [stamp.topic for stamp in stamps if _is_before(stamp.hlc, since_ms)]
    return old, [stamp.topic for stamp in stamps if not _is_before(stamp.hlc, since_ms)]


def _is_before(hlc: int, since_ms: int) -> bool:
    """Whether it was surely before, however far the nodes' clocks are apart."""
    return milliseconds(hlc) < since_ms - SKEW_MAX_S * 1000


def _packed(topics: list[int]) -> bytes:
    return b"".join(map(_HASH.pack, topics))


def _hashes(packed: bytes) -> list[int]:
    if len(packed) % _HASH.size:
        raise FrameError("hashes of topics that are cut off")
    return [topic for (topic,) in _HASH.iter_unpack(packed)]


def _checked(buckets: tuple[int, ...]) -> tuple[int, ...]:
    if not all(0 <= bucket < BUCKETS for bucket in buckets):
        raise FrameError(f"there are only {BUCKETS} buckets")
    return buckets
