"""The core of a cluster's node: links, members and the parts that work on them.

`Cluster.handle(event, now)` answers with what is to be done, in order; it reads no clock and opens no socket.
`next_at_s` says when it wants to be told `TimeCame`.
"""

from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Any, Final

from braidmq.cluster import events as ev
from braidmq.cluster import frames
from braidmq.cluster.beating import Beating
from braidmq.cluster.clock import HybridClock
from braidmq.cluster.controls import Draining, Forgot, Introduce, Rules
from braidmq.cluster.effects import (
    Close,
    Dial,
    Died,
    Effect,
    Forgotten,
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
from braidmq.cluster.finding import Finding
from braidmq.cluster.frames import Controls, FrameError
from braidmq.cluster.goodbyes import why
from braidmq.cluster.greeting import Greeting
from braidmq.cluster.handshake import (
    HANDSHAKE,
    Goodbye,
    Hello,
    Proof,
    RefusalError,
    Welcome,
)
from braidmq.cluster.links import Link, Links
from braidmq.cluster.local import Local
from braidmq.cluster.members import Member, Members, State, fitting
from braidmq.cluster.parts import Part
from braidmq.cluster.settings import Identity, Remembered, Settings
from braidmq.cluster.telling import Faults, Telling

_SLOW_REDIAL_S: Final = 60.0  # where an operator has to do something first
# What a handshake may take. It is as long as a silence that is borne, but a busy machine gets its chance, and
# who only holds a connection open doesn't do it for long.
_HANDSHAKE_S_MIN: Final = 3.0
_HANDSHAKE_S_MAX: Final = 10.0

_OWN: Final = (Goodbye, Introduce, Draining, Rules, Forgot)


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
        self._links = Links(identity.node)
        self._finding = Finding(identity, settings, self.members, rng)
        self._telling = Telling()
        self._faults = Faults()
        self._beating = Beating(self.members, clock, local, self._telling)
        self._greeting = Greeting(identity, settings, clock, rng, local, self.members, self._faults)
        self._newcomers: list[Member] = []  # to be introduced
        self._written = self.members.written(clock)
        self._beat_s = settings.failure_s / 12
        self._handshake_s = min(max(_HANDSHAKE_S_MIN, settings.failure_s), _HANDSHAKE_S_MAX)
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
            ev.RulesChanged: self._rules_changed,
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
        return min(self._tick_at_s, self._finding.next_at_s, *(part.next_at_s for part in self._parts))

    @property
    def is_draining(self) -> bool:
        return self._greeting.is_draining

    @property
    def has_left(self) -> bool:
        return self._greeting.has_left

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
        handshake = self._greeting.handshake(event.dialled is not None, now)
        link = Link(event.link, event.dialled, event.source, handshake, now)
        pushed_out = self._links.add(link)
        if pushed_out is not None:
            yield from self._end(pushed_out, "busy", now)
        if event.dialled is not None:
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
        self._finding.ended(event.address, now)
        sentence = f"can't reach {event.address}: {event.why}; this node will try again"
        yield from self._telling.tell((event.address, "not reached"), "info", sentence, now)

    def _end(self, link: Link, reason: str, now: float) -> Iterator[Effect]:
        """Say goodbye."""
        yield Send(link.number, frames.control(Goodbye(reason)))
        yield Close(link.number, reason)
        yield from self._tell_why(link, reason, why(reason).refusing, now)
        if reason == "myself" and link.dialled is not None:
            self._finding.is_me(link.dialled)
        yield from self._lose(link, now, self._rest_after(reason))

    def _blame(self, link: Link, fault: str, now: float) -> Iterator[Effect]:
        """The peer has sent what it must not."""
        yield from self._note_fault(link, fault, now)
        yield from self._end(link, "fault" if link.is_proven else "order", now)

    def _note_fault(self, link: Link, fault: str, now: float) -> Iterator[Effect]:
        if link.node is not None:
            self._faults.note(link.node, now)
            sentence = f"{self._who(link)} broke the rules of a link: {fault}"
            yield from self._telling.tell((link.node, "fault"), "warning", sentence, now)

    def _lose(self, link: Link, now: float, rest_s: float = 0.0) -> Iterator[Effect]:
        if not self._links.drop(link):
            return
        self._finding.ended(link.dialled, now, rest_s)
        member = self.members.info(link.hello.node) if link.is_open else None
        if member is not None and member.link == link.number:
            self.members.unlink(member)
            self._beating.unlinked(member.node)
            self._finding.lost(member, now)
            yield Unlinked(member.node)
            yield RoutesChanged()
            for part in self._parts:
                yield from part.unlinked(member.node, now)

    @staticmethod
    def _rest_after(reason: str) -> float:
        return _SLOW_REDIAL_S if reason in ("forgotten", "left", "myself", "resting") else 0.0

    def _tell_why(self, link: Link, reason: str, sentence: str, now: float) -> Iterator[Tell]:
        if sentence:
            told = sentence.format(peer=self._who(link))
            yield from self._telling.tell((link.dialled, link.node, reason), why(reason).level, told, now)

    def _who(self, link: Link) -> str:
        member = self.members.info(link.hello.node) if link.is_proven else None
        name = f"node {member.name}" if member is not None and member.name else "the node"
        address = link.dialled or link.source
        return f"{name} at {address}" if address else name

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
            self._finding.answered(link.dialled, link.hello.node)
            self._greeting.judge(link.hello, now)
            self.members.heard(link.hello.node, now)
            loser = self._links.loser(link)
            if loser is not None:
                reason = "newer" if loser.hello.boot < link.hello.boot else "twice"
                yield from self._end(loser, reason, now)
        if answer is not None:
            yield Send(link.number, frames.control(answer))
        if link.is_proven:
            yield Proven(link.number, link.hello.node)
            said: dict[str, Any] = {}
            for part in self._parts:
                said |= part.welcome(link.hello.node)
            welcome = self._greeting.welcome(link.hello.node, said, now)
            yield Send(link.number, frames.control(welcome))

    def _open(self, link: Link, welcome: Welcome, now: float) -> Iterator[Effect]:
        """Both Welcomes are there."""
        hello = link.hello
        is_news = self.members.info(hello.node) is None
        member = self.members.link(hello, welcome, link.number, now)
        member.clock_offset_s = (hello.wall_ms - self.clock.wall_ms(link.opened_s)) / 1000
        link.is_open = True
        self._finding.stop(member.node)
        self.clock.seen(welcome.hlc, now)
        if is_news:
            yield Met(member.node)
        yield Linked(member.node, link.number, welcome.position, member.is_new_boot, member.was_absent)
        yield RoutesChanged()
        yield from self._compare_rules(member, now)
        yield from self._learn(member, welcome, now)
        yield from self._changed()
        yield from self._beating.send(member, now)
        if member.is_new_boot:
            self._newcomers.append(member)
        for part in self._parts:
            yield from part.welcomed(member.node, welcome.parts, now)
            yield from part.linked(member.node, now)

    def _learn(self, teller: Member, welcome: Welcome, now: float) -> Iterator[Effect]:
        for node in welcome.forgotten:
            if node != teller.node and not self.members.is_banned(node):
                yield from self._take_forgot(Forgot(node), now)
        yield from self._take_introduce(Introduce(welcome.members), now)

    def _introduce(self) -> Iterator[Effect]:
        """Tell all of those who came since the last beat: two that came at once don't know of each other."""
        newcomers, self._newcomers = self._newcomers, []
        if newcomers:
            introduce = Introduce(fitting(member.introduced() for member in newcomers))
            for peer in self.members.linked():
                yield SendControl(peer, introduce)

    def _compare_rules(self, member: Member, now: float) -> Iterator[Tell]:
        member.warnings.pop("digest", None)
        if member.digest != self._greeting.digest:
            sentence = (
                f"node {member.name} has other access rules or group settings than this node: "
                "give all nodes the same, or clients are treated by where they are connected"
            )
            member.warnings["digest"] = sentence
            yield from self._telling.tell((member.node, "digest", member.digest), "warning", sentence, now)

    def _rules_changed(self, event: ev.RulesChanged, now: float) -> Iterator[Effect]:
        self._greeting.digest = event.digest
        for peer in self.members.linked():
            yield SendControl(peer, Rules(event.digest))
        for member in self.members:
            if member.is_linked:
                yield from self._compare_rules(member, now)

    # -- frames of an open link ------------------------------------------------------------------------------

    def _take_frame(self, link: Link, first: int, body: bytes, now: float) -> Iterator[Effect]:
        member = self.members.info(link.hello.node)
        assert member is not None
        self.members.heard(member.node, now)
        if first == frames.BEAT:
            yield from self._beating.take(member, frames.read_beat(body), now)
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
        elif isinstance(control, Rules):
            member.digest = control.digest
            yield from self._compare_rules(member, now)
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
                self._finding.look_for(member, now)
                yield Met(member.node)

    def _take_forgot(self, control: Forgot, now: float) -> Iterator[Effect]:
        if control.node != self.identity.node:
            self.members.ban(control.node)
            yield from self._part_with(control.node, State.FORGOTTEN, now)

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
            if not link.is_open and now - link.opened_s >= self._handshake_s:
                yield from self._end(link, "late", now)
        for member in self.members.silent(now):
            if member.link is not None and (link_ := self._links.get(member.link)) is not None:
                yield from self._end(link_, "silent", now)
        while changed := self.members.judge(now):
            for member in changed:
                yield from self._became(member, now)
            yield from self._changed()
        yield from self._introduce()
        yield from self._beating.send_all(now)

    def _became(self, member: Member, now: float) -> Iterator[Effect]:
        """A member that was waited for in vain has another state now."""
        yield RoutesChanged()
        if member.state is State.DEAD:
            yield Tell("warning", f"node {member.name} counts as dead: nobody has heard it for a while")
            yield Died(member.node)
            for part in self._parts:
                yield from part.died(member.node, now)
        elif member.state is State.FORGOTTEN:
            self._finding.forgotten(member, now)
            yield from self._parted(member, now)

    def _bytes_came(self, event: ev.BytesCame, now: float) -> Iterable[Effect]:
        self.members.heard(event.peer, now)
        return ()

    def _flow_changed(self, event: ev.FlowChanged, now: float) -> Iterable[Effect]:
        return self._beating.hold(event.peer, event.is_held, now)

    def _turn_ended(self, event: ev.TurnEnded, now: float) -> Iterator[Effect]:
        for part in self._parts:
            yield from part.turn_ended(now)

    # -- finding each other ----------------------------------------------------------------------------------

    def _discovered(self, event: ev.Discovered, now: float) -> Iterator[Effect]:
        self._finding.discovered(event.addresses)
        yield from self._dial(now)

    def _dial(self, now: float) -> Iterator[Effect]:
        for address in self._finding.due(now):
            yield Dial(address)

    # -- parting ---------------------------------------------------------------------------------------------

    def _forget(self, event: ev.Forget, now: float) -> Iterator[Effect]:
        state = self.members.state(event.node)
        if state is not State.DEAD:
            sentence = f"node {event.node:016x} is {state}: only the dead can be forgotten"
            yield Tell("warning", sentence)
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
        yield from self._changed()

    def _parted(self, member: Member, now: float) -> Iterator[Effect]:
        self._finding.stop(member.node)
        self._faults.forget(member.node)
        yield Forgotten(member.node)
        yield RoutesChanged()
        for part in self._parts:
            yield from part.forgotten(member.node, now)

    def _leave(self, event: ev.Leave, now: float) -> Iterator[Effect]:
        self._greeting.has_left = True
        self._finding.give_up()
        for link in list(self._links):
            yield from self._end(link, "left", now)

    def _drain(self, is_draining: bool) -> Iterator[Effect]:
        self._greeting.is_draining = is_draining
        for peer in self.members.linked():
            yield SendControl(peer, Draining(is_draining))

    def _changed(self) -> Iterator[Effect]:
        written = self.members.written(self.clock)
        if written != self._written:
            self._written = written
            yield MembersChanged(written)
