"""The core of a cluster's node: links, members and the parts that work on them.

`Cluster.handle(event, now)` answers with what is to be done, in order; it reads no clock and opens no socket.
`next_at_s` says when it wants to be told `TimeCame`.
"""

from collections.abc import Callable, Iterable, Iterator
from math import inf
from random import Random
from typing import Any, Final, Protocol

from braidmq.cluster import events as ev
from braidmq.cluster import frames
from braidmq.cluster.clock import HybridClock
from braidmq.cluster.dialling import DELAY_MAX_S, DELAY_MIN_S, Dialling
from braidmq.cluster.effects import (
    Close,
    Dial,
    Died,
    Effect,
    Forgotten,
    Hold,
    Linked,
    MembersChanged,
    Met,
    Proven,
    RoutesChanged,
    Send,
    SendControl,
    SendFrame,
    Tell,
    Unlinked,
)
from braidmq.cluster.frames import Beat, Control, Controls, FrameError
from braidmq.cluster.goodbyes import why
from braidmq.cluster.handshake import (
    HANDSHAKE,
    U64,
    Goodbye,
    Handshake,
    Hello,
    Introduced,
    Proof,
    RefusalError,
    Welcome,
    are_apart,
)
from braidmq.cluster.links import Link, Links
from braidmq.cluster.members import Member, Members, State, microseconds
from braidmq.cluster.parts import Part
from braidmq.cluster.settings import Identity, Remembered, Settings
from braidmq.cluster.telling import Faults, Telling

_SLOW_REDIAL_S: Final = 60.0  # where an operator has to do something first


class Local(Protocol):
    """What the core has to know of the broker beside it."""

    def kept_position(self, peer: int) -> int:
        """The highest sequence of this peer that the store has kept."""

    def connections(self) -> int:
        """How many clients are connected."""


class Introduce(Control, frozen=True):
    """Nodes that are new to the sender, to be dialled."""

    members: tuple[Introduced, ...]


class Draining(Control, frozen=True):
    is_draining: bool


class Forgot(Control, frozen=True):
    """The operator says that this node won't come back."""

    node: U64


_OWN: Final = (Goodbye, Introduce, Draining, Forgot)


class Cluster:
    def __init__(
        self,
        identity: Identity,
        settings: Settings,
        clock: HybridClock,
        rng: Random,
        local: Local,
        now: float,
        remembered: Iterable[Remembered] = (),
    ) -> None:
        """`rng` draws nonces: in a running node it has to be a `SystemRandom`."""
        self.identity = identity
        self.settings = settings
        self.clock = clock
        self.members = Members(identity, settings, remembered, now, clock.wall_ms(now))
        self.is_draining = False
        self.has_left = False
        self._rng = rng
        self._local = local
        self._life = rng.getrandbits(64)
        self._links = Links(identity.node)
        self._dialling = Dialling(rng)
        self._seeds: dict[str, int | None] = {}  # who was found there
        self._haunts: dict[str, float] = {}  # where members were that are forgotten, and until when to look
        self._mine = set(identity.addresses)  # addresses at which this node itself answers
        self._telling = Telling()
        self._faults = Faults()
        self._held: set[int] = set()  # peers that were asked to hold QoS 0
        self._beat_s = settings.failure_s / 12
        self._tick_at_s = now
        self._parts: list[Part] = []
        self._takers: dict[type, Part] = {}
        self._framers: dict[int, Part] = {}
        self._controls: Controls[Any] = Controls(_OWN)
        self._handlers: dict[type, Callable[[Any, float], Iterable[Effect]]] = {
            ev.LinkOpened: self._link_opened,
            ev.FrameReceived: self._frame_received,
            ev.LinkLost: self._link_lost,
            ev.NotReached: self._not_reached,
            ev.BytesCame: self._bytes_came,
            ev.FlowChanged: self._flow_changed,
            ev.TurnEnded: self._turn_ended,
            ev.TimeCame: self._time_came,
            ev.Discovered: self._discovered,
            ev.Forget: self._forget,
            ev.Leave: self._leave,
            ev.Drain: lambda event, now: self._drain(True),
            ev.Undrain: lambda event, now: self._drain(False),
        }

    def add(self, part: Part) -> None:
        """Before the first event."""
        self._parts.append(part)
        self._handlers |= dict.fromkeys(part.events, part.handle)
        self._takers |= dict.fromkeys(part.controls, part)
        self._framers |= dict.fromkeys(part.frames, part)
        self._controls = Controls((*_OWN, *self._takers))

    def handle(self, event: object, now: float) -> list[Effect]:
        return list(self._addressed(self._handlers[type(event)](event, now)))

    @property
    def next_at_s(self) -> float:
        return min(self._tick_at_s, self._dialling.next_at_s, *(part.next_at_s for part in self._parts))

    def _addressed(self, effects: Iterable[Effect]) -> Iterator[Effect]:
        """What parts send to a peer gets the link of that peer."""
        for effect in effects:
            if isinstance(effect, SendControl):
                if (link := self.members.link_of(effect.peer)) is not None:
                    yield Send(link, frames.control(effect.control))
            elif isinstance(effect, SendFrame):
                if (link := self.members.link_of(effect.peer)) is not None:
                    yield Send(link, effect.frame)
            else:
                yield effect

    # -- links -----------------------------------------------------------------------------------------------

    def _link_opened(self, event: ev.LinkOpened, now: float) -> Iterator[Effect]:
        dials = event.dialled is not None
        handshake = Handshake(
            self.identity, self._life, self.settings, self.clock.wall_ms(now), self._rng, dials
        )
        link = Link(event.link, event.dialled, event.source, handshake, now)
        pushed_out = self._links.add(link)
        if pushed_out is not None:
            yield from self._end(pushed_out, "busy", now)
        if dials:
            yield Send(link.number, frames.control(handshake.hello()))

    def _frame_received(self, event: ev.FrameReceived, now: float) -> Iterator[Effect]:
        link = self._links.get(event.link)
        if link is None:
            return
        try:
            if link.is_open:
                yield from self._take_frame(link, event.first, event.body, now)
            else:
                yield from self._shake(link, event.first, event.body, now)
        except RefusalError as refusal:
            yield from self._end(link, refusal.reason, now)
        except FrameError as fault:
            yield from self._blame(link, str(fault), now)

    def _link_lost(self, event: ev.LinkLost, now: float) -> Iterator[Effect]:
        link = self._links.get(event.link)
        if link is None:
            return
        if event.is_fault:
            yield from self._note_fault(link, event.why, now)
        yield from self._lose(link, now)

    def _not_reached(self, event: ev.NotReached, now: float) -> Iterator[Effect]:
        self._dialling.ended(event.address, now)
        sentence = f"can't reach {event.address}: {event.why}; this node will try again"
        yield from self._telling.tell((event.address, "not reached"), "info", sentence, now)

    def _end(self, link: Link, reason: str, now: float) -> Iterator[Effect]:
        """Say goodbye."""
        yield Send(link.number, frames.control(Goodbye(reason)))
        yield Close(link.number, reason)
        yield from self._tell_why(link, reason, why(reason).refusing, now)
        if reason == "myself" and link.dialled is not None:
            self._mine.add(link.dialled)
            self._dialling.stop(link.dialled)
        yield from self._lose(link, now, self._rest_after(reason))

    def _blame(self, link: Link, fault: str, now: float) -> Iterator[Effect]:
        """The peer has sent what it must not."""
        yield from self._note_fault(link, fault, now)
        yield from self._end(link, "order", now)

    def _note_fault(self, link: Link, fault: str, now: float) -> Iterator[Effect]:
        if link.node is not None:
            self._faults.note(link.node, now)
            sentence = f"{self._who(link)} broke the rules of a link: {fault}"
            yield from self._telling.tell((link.node, "fault"), "warning", sentence, now)

    def _lose(self, link: Link, now: float, rest_s: float = 0.0) -> Iterator[Effect]:
        if not self._links.drop(link):
            return
        if link.dialled is not None:
            self._dialling.ended(link.dialled, now, rest_s)
        member = self.members.info(link.hello.node) if link.is_open else None
        if member is not None and member.link == link.number:
            self.members.unlink(member)
            self._held.discard(member.node)
            has_lasted = now - member.linked_at_s >= self.settings.failure_s
            self._want(member, now + (DELAY_MIN_S if has_lasted else DELAY_MAX_S / 4))
            yield Unlinked(member.node)
            yield RoutesChanged()
            for part in self._parts:
                yield from part.unlinked(member.node, now)

    @staticmethod
    def _rest_after(reason: str) -> float:
        return _SLOW_REDIAL_S if reason in ("forgotten", "left", "myself", "resting") else 0.0

    def _tell_why(self, link: Link, reason: str, sentence: str, now: float) -> Iterator[Tell]:
        who = self._who(link)
        if sentence:
            yield from self._telling.tell((who, reason), why(reason).level, sentence.format(peer=who), now)

    def _who(self, link: Link) -> str:
        member = self.members.info(link.hello.node) if link.is_proven else None
        name = f"node {member.name} " if member is not None and member.name else ""
        address = link.dialled or link.source
        return f"{name}at {address}" if address else name.strip() or "a node that dialled this one"

    # -- handshake -------------------------------------------------------------------------------------------

    def _shake(self, link: Link, first: int, body: bytes, now: float) -> Iterator[Effect]:
        is_large = not link.is_proven and len(body) > frames.UNPROVEN_BYTES_MAX
        if first != frames.CONTROL or is_large:
            raise RefusalError("order")
        control = HANDSHAKE.read(body)
        if isinstance(control, Goodbye):
            yield from self._take_goodbye(link, control, now)
        elif isinstance(control, Welcome):
            if not link.is_proven:
                raise RefusalError("order")
            yield from self._open(link, control, now)
        else:
            yield from self._prove(link, control, now)

    def _prove(self, link: Link, control: Hello | Proof, now: float) -> Iterator[Effect]:
        answer = link.handshake.take(control)
        if link.is_proven:
            self._found(link)
            self._judge(link, now)
            loser = self._links.loser(link)
            if loser is not None:
                reason = "newer" if loser.hello.boot < link.hello.boot else "twice"
                yield from self._end(loser, reason, now)
        if answer is not None:
            yield Send(link.number, frames.control(answer))
        if link.is_proven:
            yield Proven(link.number, link.hello.node)
            yield Send(link.number, frames.control(self._welcome(link.hello.node, now)))

    def _found(self, link: Link) -> None:
        """Who is at an address is known now: from here on the member is dialled, not the address."""
        if link.dialled in self._seeds:
            self._seeds[link.dialled] = link.hello.node

    def _judge(self, link: Link, now: float) -> None:
        """Whether a proven peer may be linked with."""
        hello = link.hello
        if hello.node == self.identity.node:
            raise RefusalError("myself" if hello.life == self._life else "duplicate")
        if self.has_left:
            raise RefusalError("left")
        if self.members.is_banned(hello.node):
            raise RefusalError("forgotten")
        if are_apart(hello.wall_ms, self.clock.wall_ms(now)):
            raise RefusalError("clock")
        if now < self._faults.rests_until_s(hello.node):
            raise RefusalError("resting")
        member = self.members.info(hello.node)
        if member is None:
            if self.members.is_full:
                raise RefusalError("full")
        elif hello.boot < member.boot or (hello.boot == member.boot and member.life not in (0, hello.life)):
            raise RefusalError("duplicate")

    def _welcome(self, peer: int, now: float) -> Welcome:
        said: dict[str, Any] = {}
        for part in self._parts:
            said |= part.welcome(peer)
        me = self.identity
        return Welcome(
            name=me.name,
            addresses=me.addresses[:16],
            client_address=me.client_address,
            keeps=me.keeps,
            version=me.version,
            host=me.host,
            worker=me.worker,
            position=self._local.kept_position(peer),
            hlc=self.clock.tick(now),
            absent=self.members.was_counted_dead(peer),
            draining=self.is_draining,
            digest=self.settings.digest,
            members=self.members.introductions(),
            forgotten=self.members.banned(),
            parts=said,
        )

    def _open(self, link: Link, welcome: Welcome, now: float) -> Iterator[Effect]:
        """Both Welcomes are there."""
        hello = link.hello
        is_news = self.members.info(hello.node) is None
        member = self.members.link(hello, welcome, link.number, now)
        member.clock_offset_s = (hello.wall_ms - self.clock.wall_ms(link.opened_s)) / 1000
        link.is_open = True
        self._dialling.stop(member.node)
        self.clock.seen(welcome.hlc, now)
        if is_news:
            yield Met(member.node)
        yield Linked(member.node, link.number, welcome.position, member.is_new_boot, member.was_absent)
        yield RoutesChanged()
        yield from self._tell_digest(member, welcome.digest, now)
        yield from self._learn(welcome, now)
        yield self._changed(now)
        yield Send(link.number, self._beat(member, now))
        if member.is_new_boot:
            yield from self._introduce(member)
        for part in self._parts:
            yield from part.welcomed(member.node, welcome.parts, now)
            yield from part.linked(member.node, now)

    def _learn(self, welcome: Welcome, now: float) -> Iterator[Effect]:
        for node in welcome.forgotten:
            if not self.members.is_banned(node):
                yield from self._take_forgot(Forgot(node), now)
        yield from self._take_introduce(Introduce(welcome.members), now)

    def _introduce(self, member: Member) -> Iterator[Effect]:
        for peer in self.members.linked():
            if peer != member.node:
                yield SendControl(peer, Introduce((member.introduced(),)))

    def _tell_digest(self, member: Member, digest: bytes, now: float) -> Iterator[Tell]:
        member.warnings.pop("digest", None)
        if digest != self.settings.digest:
            sentence = (
                f"node {member.name} has other access rules or group settings than this node: "
                "give all nodes the same, or clients are treated by where they are connected"
            )
            member.warnings["digest"] = sentence
            yield from self._telling.tell((member.node, "digest", digest), "warning", sentence, now)

    # -- frames of an open link ------------------------------------------------------------------------------

    def _take_frame(self, link: Link, first: int, body: bytes, now: float) -> Iterator[Effect]:
        member = self.members.info(link.hello.node)
        assert member is not None
        member.heard_at_s = now
        if first == frames.BEAT:
            yield from self._take_beat(member, frames.read_beat(body, self.settings.peers_max), now)
        elif first == frames.CONTROL:
            yield from self._take_control(link, member, self._controls.read(body), now)
        elif (part := self._framers.get(first)) is not None:
            yield from part.framed(member.node, first, body, now)
        else:
            raise FrameError(f"a frame of kind {first:02X} is not known")

    def _take_control(self, link: Link, member: Member, control: Any, now: float) -> Iterator[Effect]:
        if isinstance(control, Goodbye):
            yield from self._take_goodbye(link, control, now)
        elif isinstance(control, Introduce):
            yield from self._take_introduce(control, now)
        elif isinstance(control, Draining):
            self.members.drains(member, control.is_draining)
            yield RoutesChanged()
        elif isinstance(control, Forgot):
            yield from self._take_forgot(control, now)
        else:
            yield from self._takers[type(control)].received(member.node, control, now)

    def _take_goodbye(self, link: Link, goodbye: Goodbye, now: float) -> Iterator[Effect]:
        yield Close(link.number, f"the peer said goodbye: {goodbye.reason}")
        yield from self._tell_why(link, goodbye.reason, why(goodbye.reason).refused, now)
        yield from self._lose(link, now, self._rest_after(goodbye.reason) if link.is_proven else 0.0)
        if goodbye.reason == "left" and link.node is not None:
            yield from self._part_with(link.node, State.LEFT, now)

    def _take_introduce(self, control: Introduce, now: float) -> Iterator[Effect]:
        for who in control.members:
            member = self.members.meet(who, now)
            if member is not None:
                self._want(member, now)
                yield Met(member.node)

    def _take_forgot(self, control: Forgot, now: float) -> Iterator[Effect]:
        if control.node != self.identity.node:
            self.members.ban(control.node)
            yield from self._part_with(control.node, State.FORGOTTEN, now)

    def _take_beat(self, member: Member, beat: Beat, now: float) -> Iterator[Effect]:
        if not self.clock.seen(beat.hlc, now):
            sentence = (
                f"the clock of node {member.name} is more than 60 s ahead of this node's: set both by NTP"
            )
            yield from self._telling.tell((member.node, "clock"), "warning", sentence, now)
        was_holding = member.is_holding
        self.members.beaten(member, beat, now)
        if beat.is_held != was_holding:
            yield Hold(member.node, beat.is_held)

    # -- time ------------------------------------------------------------------------------------------------

    def _time_came(self, event: ev.TimeCame, now: float) -> Iterator[Effect]:
        if now >= self._tick_at_s:
            late_s = now - self._tick_at_s
            self._tick_at_s = now + self._beat_s
            if late_s > 2 * self._beat_s:
                self.members.grant(late_s, now)
            yield from self._tick(now)
        yield from self._dial(now)
        for part in self._parts:
            if part.next_at_s <= now:
                yield from part.time_came(now)

    def _tick(self, now: float) -> Iterator[Effect]:
        for link in list(self._links):
            if not link.is_open and now - link.opened_s >= self.settings.failure_s:
                yield from self._end(link, "late", now)
        for member in self.members.silent(now):
            if member.link is not None and (link_ := self._links.get(member.link)) is not None:
                yield from self._end(link_, "silent", now)
        while changed := self.members.judge(now):
            for member in changed:
                yield from self._became(member, now)
            yield self._changed(now)
        for member in self.members:
            if member.is_linked and member.link is not None:
                yield Send(member.link, self._beat(member, now))

    def _became(self, member: Member, now: float) -> Iterator[Effect]:
        """A member that was waited for in vain has another state now."""
        yield RoutesChanged()
        if member.state is State.DEAD:
            yield Tell("warning", f"node {member.name} counts as dead: nobody has heard it for a while")
            yield Died(member.node)
            for part in self._parts:
                yield from part.died(member.node, now)
        elif member.state is State.FORGOTTEN:
            self._haunt(member, now)
            yield from self._parted(member, now)

    def _haunt(self, member: Member, now: float) -> None:
        """Look where it was: after a partition, who has forgotten everybody must find somebody again."""
        until_s = now + self.settings.keep_for_dead_s
        self._haunts = {address: at_s for address, at_s in self._haunts.items() if at_s > now}
        self._haunts |= dict.fromkeys(member.addresses, until_s)
        while len(self._haunts) > self.settings.peers_max:
            del self._haunts[next(iter(self._haunts))]

    def _beat(self, member: Member, now: float) -> bytes:
        echo_us = 0
        if member.echo is not None:
            sent_us, came_s = member.echo
            echo_us = (sent_us + int((now - came_s) * 1e6)) & frames.US_MASK or 1
        return frames.beat(
            Beat(
                hlc=self.clock.tick(now),
                sent_us=microseconds(now),
                echo_us=echo_us,
                connections=self._local.connections(),
                is_held=member.node in self._held,
                heard=self.members.heard_lately(now),
            )
        )

    def _bytes_came(self, event: ev.BytesCame, now: float) -> Iterable[Effect]:
        if (member := self.members.info(event.peer)) is not None and member.is_linked:
            member.heard_at_s = now
        return ()

    def _flow_changed(self, event: ev.FlowChanged, now: float) -> Iterator[Effect]:
        member = self.members.info(event.peer)
        if member is None or member.link is None:
            return
        (self._held.add if event.is_held else self._held.discard)(event.peer)
        yield Send(member.link, self._beat(member, now))

    def _turn_ended(self, event: ev.TurnEnded, now: float) -> Iterator[Effect]:
        for part in self._parts:
            yield from part.turn_ended(now)

    # -- finding each other ----------------------------------------------------------------------------------

    def _discovered(self, event: ev.Discovered, now: float) -> Iterator[Effect]:
        for address in self._seeds.keys() - set(event.addresses):
            self._dialling.stop(address)
        self._seeds = {address: self._seeds.get(address) for address in event.addresses}
        yield from self._dial(now)

    def _want(self, member: Member, at_s: float) -> None:
        found = [address for address, node in self._seeds.items() if node == member.node]
        addresses = (address for address in (*found, *member.addresses) if address not in self._mine)
        self._dialling.want(member.node, addresses, max(at_s, self._faults.rests_until_s(member.node)))

    def _dial(self, now: float) -> Iterator[Effect]:
        if self.has_left:
            return
        for member in self.members:
            if not member.is_linked:
                self._want(member, now)
        found = {address for member in self.members for address in member.addresses}
        found |= {address for address, node in self._seeds.items() if node in self.members}
        for address in [*self._seeds, *self._haunts]:
            if address in found or address in self._mine or self._haunts.get(address, inf) <= now:
                self._dialling.stop(address)
            else:
                self._dialling.want(address, (address,), now)
        for address in self._dialling.due(now):
            yield Dial(address)

    # -- parting ---------------------------------------------------------------------------------------------

    def _forget(self, event: ev.Forget, now: float) -> Iterator[Effect]:
        state = self.members.state(event.node)
        if state in (State.LIVE, State.DRAINING, State.UNREACHABLE):
            yield Tell(
                "warning",
                f"node {event.node:016x} is {state}: let it leave, or stop it, before it is forgotten",
            )
            return
        self.members.ban(event.node)
        for peer in self.members.linked():
            yield SendControl(peer, Forgot(event.node))
        yield from self._part_with(event.node, State.FORGOTTEN, now)

    def _part_with(self, node: int, state: State, now: float) -> Iterator[Effect]:
        for link in [link for link in self._links if link.node == node]:
            yield from self._end(link, "forgotten", now)
        member = self.members.forget(node, state)
        if member is not None:
            yield from self._parted(member, now)
        yield self._changed(now)

    def _parted(self, member: Member, now: float) -> Iterator[Effect]:
        self._dialling.stop(member.node)
        self._faults.forget(member.node)
        yield Forgotten(member.node)
        yield RoutesChanged()
        for part in self._parts:
            yield from part.forgotten(member.node, now)

    def _leave(self, event: ev.Leave, now: float) -> Iterator[Effect]:
        self.has_left = True
        for target in self._dialling.targets():
            self._dialling.stop(target)
        for link in list(self._links):
            yield from self._end(link, "left", now)

    def _drain(self, is_draining: bool) -> Iterator[Effect]:
        self.is_draining = is_draining
        for peer in self.members.linked():
            yield SendControl(peer, Draining(is_draining))

    def _changed(self, now: float) -> MembersChanged:
        return MembersChanged(self.members.written(now, self.clock.wall_ms(now)))
