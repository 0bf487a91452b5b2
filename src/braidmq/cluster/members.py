"""Who belongs to the cluster, and what has become of each: the table behind all questions about peers.

| state | becomes | when |
|---|---|---|
| dialling | live | both Welcomes are there |
| live | suspect | the link is lost, or silent for a third of failure_s |
| dialling, suspect | unreachable | failure_s is over, and a linked peer has heard it |
| dialling, suspect, unreachable | dead | failure_s is over, and no linked peer has heard it |
| live | draining, left | it says so |
| dead | forgotten | it keeps nothing: at once; else after keep_for_dead_s, or when the operator says so |

*Linked* is live or draining. A member that was never linked and doesn't answer is forgotten without having
been dead: nothing was promised to it.
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from itertools import accumulate
from math import inf
from typing import Final

import msgspec

from braidmq.cluster.clock import HybridClock
from braidmq.cluster.frames import US_MASK, Beat, hears, packed
from braidmq.cluster.handshake import Hello, Introduced, Welcome
from braidmq.cluster.settings import Identity, Remembered, Settings
from braidmq.limits import KIB

_TOLD_BYTES_MAX: Final = 32 * KIB  # of introductions in a frame; the rest is learnt from others
GONE_MAX: Final = 1024  # ids of members that are no more


def microseconds(now: float) -> int:
    """A time as it stands in beats; it comes round every 71 minutes."""
    return int(now * 1e6) & US_MASK


class State(StrEnum):
    DIALLING = "dialling"
    LIVE = "live"
    SUSPECT = "suspect"
    UNREACHABLE = "unreachable"
    DEAD = "dead"
    DRAINING = "draining"
    LEFT = "left"
    FORGOTTEN = "forgotten"


LINKED: Final = (State.LIVE, State.DRAINING)
WAITED_FOR: Final = (State.DIALLING, State.SUSPECT, State.UNREACHABLE)


class Member:
    """A peer. Everybody may read it, only `Members` writes."""

    def __init__(self, node: int, boot: int, name: str, addresses: Iterable[str], keeps: bool) -> None:
        self.node = node
        self.boot = boot
        self.life = 0  # 0: not known
        self.name = name
        self.addresses = tuple(addresses)
        self.client_address = ""
        self.keeps = keeps
        self.version = ""
        self.host = ""
        self.worker = (0, 1)
        self.state = State.DIALLING
        self.link: int | None = None
        self.was_linked = False  # ever, in this life or one before
        self.is_new_boot = True  # as of the last time that it was linked
        self.was_absent = False  # as of then: one of us counted the other dead
        self.linked_at_s = -inf
        self.heard_at_s = -inf
        self.dead_since_s = inf
        self.heard = b""  # whom it has heard, by its last beat
        self.beat_at_s = -inf
        self.rtt_s: float | None = None
        self.clock_offset_s = 0.0
        self.connections = 0
        self.echo: tuple[int, float] | None = None  # sent_us of its last beat, and when that came
        self.is_holding = False  # it asks to hold QoS 0 back
        self.digest = b""  # of its rules and group settings
        self.warnings: dict[str, str] = {}

    @property
    def is_linked(self) -> bool:
        return self.state in LINKED

    def introduced(self) -> Introduced:
        return Introduced(self.node, self.boot, self.name, self.addresses[:16], self.keeps)


class Members:
    def __init__(
        self, me: Identity, settings: Settings, remembered: Iterable[Remembered], now: float, wall_ms: int
    ) -> None:
        self.me = me
        self._settings = settings
        self._members: dict[int, Member] = {}
        self._gone: dict[int, State] = {}  # left, or forgotten by us; the oldest first
        self._banned: dict[int, Remembered] = {}  # forgotten by the operator
        for entry in remembered:
            self._recall(entry, now, wall_ms)

    def _recall(self, entry: Remembered, now: float, wall_ms: int) -> None:
        if entry.is_forgotten:
            self._banned[entry.node] = entry
            return
        member = self._add(entry.node, entry.boot, entry.name, entry.addresses, entry.keeps, now)
        member.was_linked = True
        member.client_address = entry.client_address
        if entry.dead_since_ms:
            member.state = State.DEAD
            member.dead_since_s = now - max(0, wall_ms - entry.dead_since_ms) / 1000

    # -- questions -------------------------------------------------------------------------------------------

    def __contains__(self, node: object) -> bool:
        return node in self._members

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._members.values())

    def linked(self) -> list[int]:
        return [member.node for member in self._members.values() if member.is_linked]

    def remembered(self) -> list[int]:
        """All peers that are not forgotten, whether they are there or not."""
        return list(self._members)

    def state(self, peer: int) -> State:
        member = self._members.get(peer)
        return member.state if member else self._gone.get(peer, State.FORGOTTEN)

    def is_linked(self, peer: int) -> bool:
        member = self._members.get(peer)
        return member is not None and member.is_linked

    def info(self, peer: int) -> Member | None:
        return self._members.get(peer)

    def elsewhere(self) -> Member | None:
        """Where a client should go that can't stay: the linked node with the fewest connections."""
        fit = (m for m in self._members.values() if m.state is State.LIVE and m.client_address)
        return min(fit, key=lambda member: (member.connections, member.node), default=None)

    def link_of(self, peer: int) -> int | None:
        """The link that carries what is for this peer."""
        member = self._members.get(peer)
        return member.link if member is not None and member.is_linked else None

    @property
    def is_full(self) -> bool:
        return len(self._members) >= self._settings.peers_max

    def banned(self) -> tuple[int, ...]:
        return tuple(self._banned)

    def is_banned(self, node: int) -> bool:
        return node in self._banned

    def was_counted_dead(self, node: int) -> bool:
        member = self._members.get(node)
        return member.state is State.DEAD if member else node in self._gone

    def heard_lately(self, now: float) -> bytes:
        """Those for whom this node vouches, as a beat has them."""
        since_s = now - self._settings.failure_s / 3
        return packed(m.node for m in self._members.values() if m.is_linked and m.heard_at_s >= since_s)

    def introductions(self) -> tuple[Introduced, ...]:
        """Whom a newcomer should dial. Hearsay isn't passed on, nor the dead: who would ever forget them?"""
        told = (*LINKED, State.SUSPECT, State.UNREACHABLE)
        return fitting(m.introduced() for m in self._members.values() if m.was_linked and m.state in told)

    def written(self, clock: HybridClock) -> tuple[Remembered, ...]:
        """What has to be found again after a restart."""
        found = [_remembered(m, clock) for m in self._members.values() if m.was_linked]
        return (*found, *self._banned.values())

    # -- changes ---------------------------------------------------------------------------------------------

    def meet(self, who: Introduced, now: float) -> Member | None:
        """Somebody has told of this node. The member, if it is news."""
        if (known := self._members.get(who.node)) is not None:
            if who.boot > known.boot and not known.is_linked:
                known.addresses = who.addresses  # its boot counts when it says so itself
            return None
        if who.node in self._banned or who.node == self.me.node or self.is_full:
            return None
        return self._add(who.node, who.boot, who.name, who.addresses, who.keeps, now)

    def link(self, hello: Hello, welcome: Welcome, link: int, now: float) -> Member:
        """Both Welcomes are there."""
        absent = welcome.absent or self.was_counted_dead(hello.node)
        member = self._members.get(hello.node)
        if member is None:
            member = self._add(hello.node, hello.boot, welcome.name, welcome.addresses, welcome.keeps, now)
        member.is_new_boot = not member.was_linked or member.boot != hello.boot
        member.was_absent = absent
        member.boot, member.life = hello.boot, hello.life
        member.name, member.addresses = welcome.name, welcome.addresses
        member.client_address, member.keeps = welcome.client_address, welcome.keeps
        member.version, member.host, member.worker = welcome.version, welcome.host, welcome.worker
        member.digest = welcome.digest
        member.state = State.DRAINING if welcome.draining else State.LIVE
        member.link, member.was_linked = link, True
        member.linked_at_s = member.heard_at_s = now
        member.dead_since_s, member.echo, member.rtt_s = inf, None, None
        member.heard, member.beat_at_s, member.is_holding = b"", -inf, False
        self._gone.pop(hello.node, None)
        return member

    def unlink(self, member: Member) -> None:
        member.state, member.link = State.SUSPECT, None

    def drains(self, member: Member, is_draining: bool) -> None:
        if member.is_linked:
            member.state = State.DRAINING if is_draining else State.LIVE

    def heard(self, node: int, now: float) -> None:
        """There is something from it, so it is alive."""
        if (member := self._members.get(node)) is not None:
            member.heard_at_s = now

    def beaten(self, member: Member, beat: Beat, now: float) -> None:
        member.beat_at_s = now
        member.heard = beat.heard
        member.connections = beat.connections
        member.echo = (beat.sent_us, now)
        member.is_holding = beat.is_held
        if beat.echo_us:
            rtt_s = ((microseconds(now) - beat.echo_us) & US_MASK) / 1e6
            member.rtt_s = rtt_s if member.rtt_s is None else member.rtt_s + (rtt_s - member.rtt_s) / 8

    def forget(self, node: int, state: State = State.FORGOTTEN) -> Member | None:
        member = self._members.pop(node, None)
        if member is not None:
            member.state, member.link = state, None
            self._gone[node] = state
            if len(self._gone) > GONE_MAX:
                del self._gone[next(iter(self._gone))]
        return member

    def ban(self, node: int) -> None:
        """The operator says that it won't come back: it may not, under this id."""
        self._banned[node] = Remembered(node=node, boot=0, name="", is_forgotten=True)
        if len(self._banned) > GONE_MAX:
            del self._banned[next(iter(self._banned))]

    # -- time ------------------------------------------------------------------------------------------------

    def grant(self, seconds: float, now: float) -> None:
        """This node itself has stood still: that nobody was heard meanwhile says nothing about them."""
        for member in self._members.values():
            member.heard_at_s = min(now, member.heard_at_s + seconds)
            member.beat_at_s = min(now, member.beat_at_s + seconds)

    def silent(self, now: float) -> list[Member]:
        """Those whose link has been silent for too long."""
        since_s = now - self._settings.failure_s / 3
        return [m for m in self._members.values() if m.is_linked and m.heard_at_s < since_s]

    def judge(self, now: float) -> list[Member]:
        """Let those change that nobody has heard for long enough; these are the ones that did."""
        return [m for m in list(self._members.values()) if self._judge_one(m, now)]

    def _judge_one(self, member: Member, now: float) -> bool:
        before = member.state
        if before in WAITED_FOR and now - member.heard_at_s >= self._settings.failure_s:
            if self._is_vouched_for(member, now):
                member.state = State.UNREACHABLE
            elif member.was_linked:
                member.state = State.DEAD
                member.dead_since_s = now
            else:
                self.forget(member.node)
        elif before is State.DEAD:
            keep_s = self._settings.keep_for_dead_s if member.keeps else 0.0
            if now - member.dead_since_s >= keep_s:
                self.forget(member.node)
        return member.state is not before

    def _is_vouched_for(self, member: Member, now: float) -> bool:
        since_s = now - self._settings.failure_s / 3
        return any(
            hears(other.heard, member.node)
            for other in self._members.values()
            if other.is_linked and other.beat_at_s >= since_s
        )

    def _add(
        self, node: int, boot: int, name: str, addresses: Iterable[str], keeps: bool, now: float
    ) -> Member:
        member = Member(node, boot, name, addresses, keeps)
        member.heard_at_s = now
        self._members[node] = member
        return member


def fitting(introduced: Iterable[Introduced]) -> tuple[Introduced, ...]:
    """As many as fit a frame."""
    found = list(introduced)
    sizes_bytes = accumulate(len(msgspec.msgpack.encode(one)) for one in found)
    return tuple(one for one, bytes_ in zip(found, sizes_bytes, strict=True) if bytes_ <= _TOLD_BYTES_MAX)


def _remembered(member: Member, clock: HybridClock) -> Remembered:
    return Remembered(
        node=member.node,
        boot=member.boot,
        name=member.name,
        addresses=member.addresses,
        client_address=member.client_address,
        keeps=member.keeps,
        dead_since_ms=max(1, clock.wall_ms(member.dead_since_s)) if member.state is State.DEAD else 0,
    )
