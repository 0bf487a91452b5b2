"""A plain model of the sessions around a SharedGroup: it does things to the group, carries out the effects,
and objects to wrong ones.

Each message is an object that knows where it is. Every effect is checked against that: a message that is sent
twice, to somebody who is offline, out of its key's order, or lost, fails at the effect that does it.
Things to do take a `number` that picks one of the candidates, so that they can be driven by hypothesis or by
a seeded walk; without a candidate they do nothing.
"""

from enum import Enum, auto
from math import inf
from random import Random
from typing import Final, TypeVar

from braidmq.broker.sharing.effects import (
    DROP_REASONS,
    DropMessage,
    DropPage,
    Effect,
    KeepMessage,
    WithdrawMessage,
)
from braidmq.broker.sharing.group import SharedGroup
from braidmq.broker.sharing.member import Delivery, Member
from braidmq.broker.sharing.policies import make_policy
from braidmq.broker.sharing.queue import Entry, GroupPage
from braidmq.broker.sharing.settings import GroupSettings
from braidmq.wire.status import StatusReport

MEMBERS_MAX: Final = 4
IDLE_WAKES_MAX: Final = 100  # more of them without a message sent are no waiting but a standstill
REFUSAL: Final = 0x87
Candidate = TypeVar("Candidate")


class Where(Enum):
    NEW = auto()  # published, and the group hasn't said what it does with it
    WAITING = auto()
    WITH_MEMBER = auto()
    RETURNED = auto()  # its member's session ended; the group must say what becomes of it
    DONE = auto()
    DROPPED = auto()


class Message:
    def __init__(self, number: int, qos: int, publisher: str, topic: str, expires_at_s: float) -> None:
        self.number = number
        self.qos = qos
        self.publisher = publisher
        self.topic = topic
        self.expires_at_s = expires_at_s
        self.where = Where.NEW
        self.holder: Session | None = None
        self.deliveries = 0

    def __repr__(self) -> str:
        return f"<{self.number} qos {self.qos} {self.where.name}>"


class Session:
    def __init__(self, member: Member) -> None:
        self.member = member
        self.is_online = True
        self.qos: int | None = None  # of its subscription; None: not subscribed
        self.unacked: dict[int, tuple[Message, int]] = {}  # token -> message, QoS
        self.received: dict[int, Message] = {}  # between PUBREC and PUBCOMP
        self.given: dict[int, Delivery] = {}  # token -> whatever it was ever sent


class World:
    def __init__(self, policy: str, settings: GroupSettings, *, has_disk: bool = False) -> None:
        self.group = SharedGroup(make_policy(policy, Random(1)), settings)
        self.group.queue.is_pageable = has_disk
        self.on_disk: dict[GroupPage, list[Entry]] = {}
        self.sessions: dict[Member, Session] = {}
        self.messages: list[Message] = []
        self.now = 0.0
        self.names = 0

    # -- messages

    def publish(self, qos: int, publisher: str, topic: str, life_s: float = inf) -> None:
        if any(session.qos is not None for session in self.sessions.values()):
            message = Message(len(self.messages), qos, publisher, topic, self.now + life_s)
            self.messages.append(message)
            self.carry_out(
                self.group.published(message, self.now, qos, publisher, topic, 10, message.expires_at_s)
            )

    def let_time_pass(self, seconds: float) -> None:
        self.now += seconds
        if self.group.wake_at_s <= self.now:
            self.carry_out(self.group.woken(self.now))

    def sweep(self) -> None:
        self.carry_out(self.group.swept(self.now))

    def page_out(self, count: int) -> None:
        entries = self.group.queue.take_tail(count, 1000)
        if entries:
            cost = sum(entry.size_bytes for entry in entries)
            page = GroupPage(entries[0].sequence, entries[-1].sequence, cost, 0, 0, 0, len(entries))
            self.on_disk[page] = entries
            self.group.queue.add_page(page)

    def page_in(self) -> None:
        """Read the first page, if that is wanted."""
        if self.group.queue.wants_page():
            entries = self.on_disk.pop(self.group.queue.remove_page())
            self.carry_out(self.group.unpaged(entries, self.now))

    # -- acknowledgements

    def acknowledge(self, number: int, reason: int = 0) -> None:
        """PUBACK or PUBREC of anything that is open."""
        picked = pick(number, self.open_deliveries())
        if picked is None:
            return
        session, token, qos = picked
        message, _ = session.unacked.pop(token)
        if not reason:
            message.where = Where.DONE
        if qos == 1:
            self.carry_out(self.group.acknowledged(session.given[token], self.now, reason))
        else:
            if not reason:
                session.received[token] = message
            self.carry_out(self.group.received(session.given[token], self.now, reason))
        assert (message.where is Where.DROPPED) == (reason >= 0x80)

    def complete(self, number: int) -> None:
        picked = pick(number, [(session, token) for session in self.online() for token in session.received])
        if picked is not None:
            session, token = picked
            del session.received[token]
            self.carry_out(self.group.completed(session.given[token], self.now))

    def refuse_to_send(self, number: int) -> None:
        picked = pick(number, self.open_deliveries())
        if picked is not None:
            session, token, _ = picked
            session.unacked.pop(token)
            self.carry_out(self.group.refused(session.given[token], self.now))

    def acknowledge_again(self, number: int, token: int) -> None:
        """Acknowledgements that nobody waits for, among them a second PUBREC."""
        session = pick(number, self.online())
        if session is None or token in session.unacked:
            return
        for known in [token, *session.received]:
            if known in session.given:
                assert self.group.acknowledged(session.given[known], self.now) == []
                assert self.group.received(session.given[known], self.now) == []
                assert self.group.received(session.given[known], self.now, REFUSAL) == []

    def report(self, number: int, queue: int, processing_s: float) -> None:
        session = pick(number, self.online())
        if session is not None:
            self.carry_out(self.group.reported(session.member, StatusReport(queue, processing_s), self.now))

    def press(self, number: int) -> None:
        session = pick(number, self.online())
        if session is not None:
            session.member.is_pressed = not session.member.is_pressed
            self.carry_out(self.group.pumped(self.now))

    # -- members

    def join(self, qos: int, receive_max: int, declares: bool) -> None:
        if len(self.sessions) < MEMBERS_MAX:
            self.names += 1
            member = Member(f"m{self.names}", self.now, receive_max=receive_max, acks_when_processed=declares)
            self.sessions[member] = Session(member)
            self.subscribe(len(self.online()) - 1, qos)

    def subscribe(self, number: int, qos: int) -> None:
        session = pick(number, self.online())
        if session is not None:
            session.qos = qos
            self.carry_out(self.group.subscribed(session.member, self.now, qos))

    def unsubscribe(self, number: int) -> None:
        session = pick(number, [session for session in self.online() if session.qos is not None])
        if session is not None:
            session.qos = None
            self.carry_out(self.group.unsubscribed(session.member, self.now))

    def disconnect(self, number: int) -> None:
        session = pick(number, self.online())
        if session is not None:
            session.is_online = False
            effects = self.group.disconnected(session.member, self.now)
            for effect in effects:
                if isinstance(effect, WithdrawMessage):
                    session.unacked[effect.delivery.token][0].where = Where.RETURNED
            self.carry_out(effects)

    def reconnect(self, number: int) -> None:
        session = pick(number, [session for session in self.sessions.values() if not session.is_online])
        if session is not None:
            session.is_online = True
            session.member.connected(self.now)
            self.carry_out(self.group.reconnected(session.member, self.now))

    def take_over(self, number: int) -> None:
        session = pick(number, self.online())
        if session is not None:
            self.disconnect(number)
            session.is_online = True
            session.member.connected(self.now)
            self.carry_out(self.group.reconnected(session.member, self.now))

    def end(self, number: int) -> None:
        session = pick(number, list(self.sessions.values()))
        if session is not None:
            for message, qos in session.unacked.values():
                message.where = Where.RETURNED if qos == 1 else Where.WITH_MEMBER
            del self.sessions[session.member]
            self.carry_out(self.group.ended(session.member, self.now))

    def change_policy(self, policy: str) -> None:
        self.carry_out(self.group.policy_changed(make_policy(policy, Random(2)), self.now))

    # -- the model itself

    def online(self) -> list[Session]:
        return [session for session in self.sessions.values() if session.is_online]

    def open_deliveries(self) -> list[tuple[Session, int, int]]:
        return [(s, token, qos) for s in self.online() for token, (_, qos) in s.unacked.items()]

    def carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Delivery():
                    self.send(effect)
                case KeepMessage():
                    message = effect.message
                    assert message.where in {Where.NEW, Where.RETURNED}
                    message.where = Where.WAITING
                case DropMessage():
                    assert effect.reason in DROP_REASONS
                    assert effect.message.where not in {Where.DONE, Where.DROPPED}
                    effect.message.where = Where.DROPPED
                case DropPage():
                    assert effect.reason in DROP_REASONS
                    for entry in self.on_disk.pop(effect.page):
                        assert entry.message.where is Where.WAITING
                        entry.message.where = Where.DROPPED
                case WithdrawMessage():
                    delivery = effect.delivery
                    _, qos = self.sessions[delivery.member].unacked.pop(delivery.token)
                    assert qos == 1, "only QoS 1 may move"

    def send(self, effect: Delivery) -> None:
        message, session = effect.message, self.sessions[effect.member]
        assert message.where in {Where.NEW, Where.WAITING, Where.RETURNED}, "it is elsewhere or done with"
        assert session.is_online, "an offline member gets nothing"
        assert session.qos is not None, "only subscribers get messages"
        assert effect.qos == min(message.qos, session.qos)
        self.check_order_of_key(message, session)
        message.deliveries += 1
        message.holder = session
        if effect.qos == 0:
            assert effect.token == 0
            message.where = Where.DONE
        else:
            assert effect.token not in session.unacked
            assert effect.token not in session.received
            session.unacked[effect.token] = (message, effect.qos)
            session.given[effect.token] = effect
            message.where = Where.WITH_MEMBER
            assert len(session.unacked) + len(session.received) <= session.member.receive_max

    def check_order_of_key(self, message: Message, session: Session) -> None:
        policy = self.group.policy
        if not policy.is_ordered:
            return
        key = policy.key(message.publisher, message.topic)
        for older in self.messages[: message.number]:
            if policy.key(older.publisher, older.topic) == key:
                assert older.where is not Where.WAITING, "a message of the key that is older still waits"
                if older.where is Where.WITH_MEMBER and older.holder and older.holder.is_online:
                    assert older.holder is session, "another member has an older message of the key"

    def check(self) -> None:
        self.group.check()
        waiting = [message for message in self.messages if message.where is Where.WAITING]
        on_disk = [entry for page in self.group.queue.pages for entry in self.on_disk[page]]
        entries = sorted([*self.group.queue, *on_disk], key=lambda entry: entry.sequence)
        assert [entry.message for entry in entries] == waiting
        assert len(entries) == len(self.group.queue)
        assert set(self.on_disk) == set(self.group.queue.pages)
        assert not [m for m in self.messages if m.where in {Where.NEW, Where.RETURNED}], "lost"
        for session in self.sessions.values():
            open_tokens = sorted([*session.unacked, *session.received])
            assert sorted(delivery.token for delivery in self.group.deliveries(session.member)) == open_tokens
            assert session.member.inflight == len(session.unacked)
            assert session.member.releasing == len(session.received)
        held = [message for s in self.sessions.values() for message, _ in s.unacked.values()]
        assert len(held) == len(set(held)), "two members have one message"
        assert all(message.where is Where.WITH_MEMBER for message in held)
        self.check_nothing_waits_in_vain()

    def check_nothing_waits_in_vain(self) -> None:
        """Policies that don't bind late and have no keys leave nothing waiting for a member with room."""
        policy = self.group.policy
        in_lanes = len(self.group.queue) - self.group.queue.behind_count
        first = next(iter(self.group.queue), None) if in_lanes or not self.on_disk else None
        if first is not None and not policy.is_ordered and policy.name != "adaptive":
            assert first.expires_at_s > self.now
            assert policy.choose(self.now, first.publisher, first.topic, first.qos) is None

    def is_at_work(self) -> bool:
        """Whether something is under way, or on disk and about to be read."""
        return bool(self.on_disk or self.open_deliveries() or any(s.received for s in self.online()))

    def finish(self) -> None:
        """In the end all members return and do their work: then nothing is left."""
        while any(not session.is_online for session in self.sessions.values()):
            self.reconnect(0)
        idle_wakes = 0  # late binding may let what waits wait for its time, though nothing is under way
        while self.is_at_work() or (len(self.group.queue) and idle_wakes < IDLE_WAKES_MAX):
            before = len(self.group.queue)
            self.let_time_pass(0.02 if self.is_at_work() else min(self.group.wake_at_s - self.now, 100.0))
            self.page_in()
            self.acknowledge(0)
            self.complete(0)
            self.check()
            idle_wakes = 0 if self.is_at_work() or len(self.group.queue) < before else idle_wakes + 1
        assert len(self.group.queue) == 0, "messages are stuck"
        assert {message.where for message in self.messages} <= {Where.DONE, Where.DROPPED}


def pick(number: int, candidates: list[Candidate]) -> Candidate | None:
    return candidates[number % len(candidates)] if candidates else None
