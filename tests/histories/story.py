"""Clients of every kind in one broker, each step held against the `Ledger`.

The clients are bytes (tests.broker.world): no sockets and no clock. Things to do take numbers that pick among
candidates, so that hypothesis can shrink them; without a candidate they do nothing. Whoever isn't slow reads
at once. The store keeps what it is given at once, or is lazy.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeVar

from braidmq.config import GroupsConfig
from braidmq.wire import (
    V5,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingresp,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Subscription,
    Unsuback,
    Unsubscribe,
    Will,
    encode,
)
from tests.broker.world import Client, SlowStore, World
from tests.histories.standard import NEVER, Ledger, Letter, Session, Wish

NAMES: Final = ("ann", "bob", "cat", "dan")
TOPICS: Final = ("a", "a/b", "b")
FILTERS: Final = ("a", "a/#", "#", "+", "a/b")
INFLIGHT_MAX: Final = 3
REQUEST_ID: Final = 100  # of SUBSCRIBE and UNSUBSCRIBE; publishes use 1 to 6
QUEUE_MESSAGES_MAX: Final = 4
OUTPUT_BYTES_MAX: Final = 400
NO_MATCHING_SUBSCRIBERS: Final = 0x10
NOT_AUTHORIZED: Final = 0x87
WITH_WILL: Final = 0x04
FOR_GOOD: Final = 0xFFFFFFFF
Candidate = TypeVar("Candidate")


def pick(number: int, candidates: Sequence[Candidate]) -> Candidate | None:
    return candidates[number % len(candidates)] if candidates else None


class Draft(NamedTuple):
    """A message to publish."""

    topic: int
    qos: int
    retain: bool = False
    alias: int = 0
    expiry_s: int | None = None


class LastWill(NamedTuple):
    """A will, and when it is due once the connection is lost."""

    topic: str
    qos: int
    retain: bool
    delay_s: float


class Published(NamedTuple):
    """A QoS 1 or 2 publish of ours that has no final answer."""

    letter: Letter
    packet: Publish | None  # None once PUBREL is sent
    reason: int  # that the broker must answer with
    hesitates: bool  # PUBREL is left for later


class Actor:
    """A client id, and whoever connects with it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.client: Client | None = None
        self.session: Session | None = None
        self.version = V5
        self.awaits_connack: bool | None = None  # whether the session must be present in it
        self.acknowledges_at_once = True
        self.will: LastWill | None = None
        self.will_letter: Letter | None = None
        self.was_slow = False  # on this connection
        self.is_writing = False  # in the middle of a packet: no answer can go in between
        self.will_due_s = NEVER
        self.unanswered: dict[int, Published] = {}
        self.unreleased: set[int] = set()  # PUBREC has come, PUBREL isn't sent
        self.seen: set[int] = set()  # deliveries that have reached us on this connection
        self.pubrels: set[int] = set()  # PUBREL has come, PUBCOMP isn't sent
        self.aliases_ours: dict[int, str] = {}
        self.aliases_theirs: dict[int, str] = {}
        self.last_id = 0

    @property
    def is_here(self) -> bool:
        return self.client is not None

    def next_id(self) -> int:
        while True:
            self.last_id = self.last_id % 6 + 1
            if self.last_id not in self.unanswered:
                return self.last_id


class Story:
    def __init__(
        self, policy: str = "adaptive", *, with_store: bool = False,
        queue_messages_max: int = QUEUE_MESSAGES_MAX,
    ) -> None:
        self.store = SlowStore() if with_store else None
        self.store_is_lazy = False
        self.world = World(
            self.store,
            inflight_max=INFLIGHT_MAX,
            queue_messages_max=queue_messages_max,
            output_bytes_max=OUTPUT_BYTES_MAX,
        )
        self.world.broker.groups.configure(GroupsConfig(policy=policy))  # type: ignore[arg-type]
        self.ledger = Ledger(queue_messages_max)
        self.actors = [Actor(name) for name in NAMES]

    def here(self) -> list[Actor]:
        return [actor for actor in self.actors if actor.is_here]

    # -- coming and going

    def connect(
        self, number: int, version: int, clean: bool = True, expiry_s: int = 0, window: int = 0,
        will: LastWill | None = None, alias_max: int = 0,
    ) -> None:
        actor = self.actors[number % len(self.actors)]
        properties = Properties()
        if version == V5:
            properties = Properties(
                session_expiry_s=expiry_s or None,
                receive_maximum=window or None,
                topic_alias_maximum=alias_max or None,
            )
        else:
            expiry_s = 0 if clean else FOR_GOOD
        if actor.client is not None:
            if actor.version == V5 and actor.will is not None and actor.will.delay_s and not clean:
                actor.will = actor.will_letter = None  # [MQTT-3.1.2-8] somebody comes within the delay
            self.lose(actor)
        if clean:
            self.fire_will(actor)  # the old session ends, and with it the wait for its will
        actor.will_due_s = NEVER
        actor.client = self.world.open(version)
        actor.version = version
        actor.session, actor.awaits_connack = self.ledger.connected(
            actor.name, clean=clean, expiry_s=expiry_s
        )
        actor.will = will
        as_sent = self.as_sent(will, actor)
        actor.client.send(Connect(actor.name, clean, 0, version, as_sent, properties=properties))
        if not actor.awaits_connack:
            actor.unanswered.clear()
            actor.unreleased.clear()
        self.send_again(actor)
        self.go_on()

    def as_sent(self, will: LastWill | None, actor: Actor) -> Will | None:
        if will is None:
            return None
        number = len(self.ledger.letters)
        self.ledger.letters.append(Letter(number, will.topic, will.qos, will.retain, actor.name))
        actor.will_letter = self.ledger.letters[-1]
        delay = int(will.delay_s) if actor.version == V5 else 0
        return Will(
            will.topic, str(number).encode(), will.qos, will.retain, Properties(will_delay_s=delay or None)
        )

    def send_again(self, actor: Actor) -> None:
        """[MQTT-4.4.0-1] what has no answer, in its order."""
        assert actor.client is not None
        assert actor.session is not None
        for packet_id, published in list(actor.unanswered.items()):
            if packet_id in actor.unreleased:
                continue
            if published.packet is None:
                self.send(actor, Pubrel(packet_id))
                continue
            self.repeat(actor, packet_id, published)

    def repeat(self, actor: Actor, packet_id: int, published: Published) -> None:
        assert actor.session is not None
        packet = published.packet
        assert packet is not None
        properties = Properties(message_expiry_s=packet.properties.message_expiry_s)
        again = Publish(
            published.letter.topic, packet.payload, packet.qos, packet.retain, True, packet_id, properties
        )
        if not (packet.qos == 2 and packet_id in actor.session.inbound):
            reason = self.publish_letter(published.letter, properties.message_expiry_s)
            actor.unanswered[packet_id] = published._replace(reason=reason)
            if packet.qos == 2:
                actor.session.inbound.add(packet_id)
        self.send(actor, again)

    def vanish(self, number: int) -> None:
        actor = pick(number, self.here())
        if actor is not None:
            assert actor.client is not None
            client = actor.client
            self.lose(actor)
            client.vanish()
            self.go_on()

    def say_goodbye(self, number: int, with_will: bool) -> None:
        actor = pick(number, self.here())
        if actor is None:
            return
        with_will = with_will and actor.version == V5
        client = actor.client
        assert client is not None
        if not with_will:
            actor.will = actor.will_letter = None
        self.lose(actor)
        client.send(Disconnect(WITH_WILL if with_will else 0))
        self.go_on()

    def lose(self, actor: Actor) -> None:
        """The connection ends: what was written and not read is lost on the way; the ledger knows of it."""
        client, session = actor.client, actor.session
        assert client is not None
        assert session is not None
        for packet in client.unread():
            if isinstance(packet, Publish):
                self.ledger.arrived(session, packet, self.topic_of(actor, packet), actor.version, None)
        actor.client = None
        actor.was_slow = False
        actor.seen.clear()
        actor.pubrels.clear()
        actor.aliases_ours.clear()
        actor.aliases_theirs.clear()
        actor.awaits_connack = None
        if actor.will is not None:
            delay_s = actor.will.delay_s if actor.version == V5 else 0
            actor.will_due_s = self.world.now + min(delay_s, session.expiry_s)
            if actor.will_due_s <= self.world.now:
                self.fire_will(actor)
        self.ledger.disconnected(session, self.world.now)
        if session.name not in self.ledger.sessions:
            actor.session = None

    def fire_will(self, actor: Actor) -> None:
        if actor.will_letter is not None and actor.will_due_s < NEVER:
            self.ledger.published(actor.will_letter, is_will=True)
        actor.will = actor.will_letter = None
        actor.will_due_s = NEVER

    # -- subscriptions

    def subscribe(
        self, number: int, group: str, topic_filter: str, qos: int, no_local: bool = False,
        as_published: bool = False, handling: int = 0, identifier: int = 0,
    ) -> None:
        actor = pick(number, self.here())
        if actor is None:
            return
        assert actor.session is not None
        if actor.version != V5:
            no_local, as_published, handling, identifier = False, False, 0, 0
        group, topic_filter = self.kind_of(actor.session, group, topic_filter)
        no_local = no_local and not group
        full = f"$share/{group}/{topic_filter}" if group else topic_filter
        wish = Wish(topic_filter, qos, no_local, as_published, identifier)
        properties = Properties(subscription_identifiers=(identifier,) if identifier else ())
        subscription = Subscription(full, qos, no_local, as_published, handling)
        self.ledger.subscribed(actor.session, group, wish, handling)
        self.send(actor, Subscribe(REQUEST_ID, (subscription,), properties))
        self.go_on()

    def kind_of(self, session: Session, group: str, topic_filter: str) -> tuple[str, str]:
        """Copies that one session gets by several ways can't be told apart: it is in one group or in none."""
        joined = [key for key, one in self.ledger.groups.items() if session in one.granted]
        if joined:
            return joined[0]
        return ("", topic_filter) if session.wishes else (group, topic_filter)

    def unsubscribe(self, number: int, which: int) -> None:
        actor = pick(number, self.here())
        if actor is None:
            return
        assert actor.session is not None
        joined = [key for key, group in self.ledger.groups.items() if actor.session in group.members]
        plain = [("", topic_filter) for topic_filter in actor.session.wishes]
        picked = pick(which, [*plain, *joined])
        if picked is not None:
            group, topic_filter = picked
            self.ledger.unsubscribed(actor.session, group, topic_filter)
            full = f"$share/{group}/{topic_filter}" if group else topic_filter
            self.send(actor, Unsubscribe(REQUEST_ID, (full,)))
            self.go_on()

    # -- messages

    def publish(
        self, number: int, drafts: Sequence[Draft], chunk: int = 10_000, hesitates: bool = False
    ) -> None:
        actor = pick(number, self.here())
        if actor is None:
            return
        data = b"".join(self.write(actor, draft, hesitates) for draft in drafts)
        assert actor.client is not None
        actor.is_writing = True
        for start in range(0, len(data), chunk):
            actor.client.send_bytes(data[start : start + chunk])
            self.end_pause(actor)
        actor.is_writing = False
        self.go_on()

    def write(self, actor: Actor, draft: Draft, hesitates: bool) -> bytes:
        assert actor.session is not None
        topic = TOPICS[draft.topic % len(TOPICS)]
        expiry_s = draft.expiry_s if actor.version == V5 and not draft.retain else None
        qos = draft.qos if len(actor.unanswered) < 5 else 0
        letter = Letter(len(self.ledger.letters), topic, qos, draft.retain, actor.name)
        self.ledger.letters.append(letter)
        packet = Publish(
            topic, str(letter.number).encode(), qos, draft.retain, False, actor.next_id() if qos else 0,
            Properties(message_expiry_s=expiry_s),
        )
        reason = self.publish_letter(letter, expiry_s)
        if qos:
            actor.unanswered[packet.packet_id] = Published(letter, packet, reason, hesitates)
        if qos == 2:
            actor.session.inbound.add(packet.packet_id)
        return encode(self.with_alias(actor, packet, draft.alias), actor.version)

    def with_alias(self, actor: Actor, packet: Publish, alias: int) -> Publish:
        if not alias or actor.version != V5:
            return packet
        known = actor.aliases_ours.get(alias) == packet.topic
        actor.aliases_ours[alias] = packet.topic
        properties = Properties(message_expiry_s=packet.properties.message_expiry_s, topic_alias=alias)
        topic = "" if known else packet.topic
        return Publish(
            topic, packet.payload, packet.qos, packet.retain, packet.dup, packet.packet_id, properties
        )

    def publish_letter(self, letter: Letter, expiry_s: int | None) -> int:
        if expiry_s is not None:
            self.ledger.expires_at_s[letter] = self.world.now + expiry_s
        return 0 if self.ledger.published(letter) else NO_MATCHING_SUBSCRIBERS

    def repeat_qos2(self, number: int) -> None:
        """A publisher that has not got, or not believed, its PUBREC [MQTT-4.3.3-10]."""
        open_now = [(actor, packet_id) for actor in self.here() for packet_id in sorted(actor.unreleased)]
        picked = pick(number, open_now)
        if picked is not None:
            actor, packet_id = picked
            actor.unreleased.remove(packet_id)
            self.repeat(actor, packet_id, actor.unanswered[packet_id])
            self.go_on()

    def release(self, number: int) -> None:
        open_now = [(actor, packet_id) for actor in self.here() for packet_id in sorted(actor.unreleased)]
        picked = pick(number, open_now)
        if picked is not None:
            self.send_pubrel(*picked)
            self.go_on()

    def send_pubrel(self, actor: Actor, packet_id: int) -> None:
        assert actor.session is not None
        actor.unreleased.discard(packet_id)
        actor.session.inbound.discard(packet_id)
        actor.unanswered[packet_id] = actor.unanswered[packet_id]._replace(packet=None)
        self.send(actor, Pubrel(packet_id))

    # -- answers

    def answerable(self) -> list[tuple[Actor, int]]:
        """What a client has read and not answered."""
        return [
            (actor, packet_id)
            for actor in self.here()
            for packet_id in (actor.session.open if actor.session is not None else ())
            if packet_id in actor.seen
        ]

    def acknowledge(self, number: int, refuses: bool = False) -> None:
        picked = pick(number, self.answerable())
        if picked is not None:
            self.answer(*picked, refuses=refuses)
            self.go_on()

    def answer(self, actor: Actor, packet_id: int, *, refuses: bool = False) -> None:
        assert actor.session is not None
        refuses = refuses and actor.version == V5
        qos = actor.session.open[packet_id].qos
        self.ledger.answered(actor.session, packet_id, refused=refuses)
        reason = NOT_AUTHORIZED if refuses else 0
        self.send(actor, Puback(packet_id, reason) if qos == 1 else Pubrec(packet_id, reason))

    def answer_wrongly(self, number: int) -> None:
        """[MQTT-4.13.1-1] the connection of who answers with the wrong packet is closed."""
        picked = pick(number, self.answerable())
        if picked is None:
            return
        actor, packet_id = picked
        assert actor.client is not None
        assert actor.session is not None
        qos = actor.session.open[packet_id].qos
        wrong = Pubrec(packet_id) if qos == 1 else (Puback(packet_id) if number % 2 else Pubcomp(packet_id))
        client = actor.client
        client.send(wrong)
        assert client.is_closed, f"{wrong} for QoS {qos} is taken"
        self.lose(actor)
        self.go_on()

    def complete(self, number: int) -> None:
        releasing = [
            (actor, packet_id)
            for actor in self.here()
            for packet_id in sorted(actor.pubrels)
        ]
        picked = pick(number, releasing)
        if picked is not None:
            self.send_pubcomp(*picked)
            self.go_on()

    def send_pubcomp(self, actor: Actor, packet_id: int) -> None:
        assert actor.session is not None
        actor.pubrels.discard(packet_id)
        actor.session.releasing.discard(packet_id)
        self.send(actor, Pubcomp(packet_id))

    # -- moods

    def change_mood(self, number: int, is_slow: bool, acknowledges: bool) -> None:
        actor = pick(number, self.here())
        if actor is not None:
            assert actor.session is not None
            actor.session.is_slow = is_slow
            actor.was_slow |= is_slow
            actor.acknowledges_at_once = acknowledges
            self.go_on()

    def change_store(self, is_lazy: bool) -> None:
        self.store_is_lazy = is_lazy
        self.go_on()

    def let_time_pass(self, seconds: int) -> None:
        for _ in range(seconds):
            self.tick()
            self.go_on()

    def tick(self) -> None:
        now = self.world.now + 1
        ending = [
            session
            for session in self.ledger.sessions.values()
            if not session.is_here and now >= session.away_since_s + session.expiry_s
        ]
        for session in ending:
            session.is_ending = True
        for actor in self.actors:
            if actor.will_due_s <= now:
                self.fire_will(actor)
        for session in ending:
            self.ledger.ended(session)
        for actor in self.actors:
            if actor.session in ending:
                actor.session = None
        self.world.pass_time(1)
        self.world.run_deferred()

    # -- what comes

    def send(self, actor: Actor, packet: Packet) -> None:
        assert actor.client is not None
        actor.client.send(packet)
        self.end_pause(actor)

    def end_pause(self, actor: Actor) -> None:
        """A publisher that is held back goes on in time, or when it reads its own answers."""
        assert actor.client is not None
        for _ in range(3):
            if not actor.client.is_paused:
                return
            self.tick()
        assert actor.session is not None
        actor.session.is_slow = self.store_is_lazy = False
        self.go_on()
        assert not actor.client.is_paused, "a client is paused for ever"

    def go_on(self) -> None:
        """Whoever isn't slow reads and answers until nothing comes any more."""
        progress = True
        while progress:
            if self.store is not None and not self.store_is_lazy:
                self.store.keep_all()
            progress = False
            for actor in self.here():
                assert actor.client is not None
                assert not actor.client.is_closed, f"{actor.name} was disconnected: {actor.client.read()}"
                if actor.session is not None and not actor.session.is_slow:
                    progress |= self.read(actor)
        self.world.check()

    def read(self, actor: Actor) -> bool:
        assert actor.client is not None
        packets = actor.client.read()
        for packet in packets:
            self.received(actor, packet)
        may_answer = actor.acknowledges_at_once and not actor.is_writing
        return bool(packets) or (may_answer and self.answer_all(actor))

    def answer_all(self, actor: Actor) -> bool:
        assert actor.session is not None
        readable = [packet_id for packet_id in actor.session.open if packet_id in actor.seen]
        released = list(actor.pubrels)
        for packet_id in readable:
            self.answer(actor, packet_id)
        for packet_id in released:
            self.send_pubcomp(actor, packet_id)
        return bool(readable or released)

    def received(self, actor: Actor, packet: Any) -> None:
        if actor.awaits_connack is not None:
            assert isinstance(packet, Connack), f"{packet} before CONNACK"  # [MQTT-3.2.0-1]
            assert packet.session_present == actor.awaits_connack
            assert packet.reason == 0
            actor.awaits_connack = None
            return
        RECEIVERS[type(packet)](self, actor, packet)

    def topic_of(self, actor: Actor, packet: Publish) -> str:
        alias = packet.properties.topic_alias
        if alias is None:
            return packet.topic
        if packet.topic:
            actor.aliases_theirs[alias] = packet.topic
        return actor.aliases_theirs[alias]

    def received_publish(self, actor: Actor, packet: Publish) -> None:
        session = actor.session
        assert session is not None
        is_fresh = not actor.was_slow and self.store is None
        sent_at_s = self.world.now if is_fresh else None
        self.ledger.arrived(session, packet, self.topic_of(actor, packet), actor.version, sent_at_s)
        if packet.qos:
            actor.seen.add(packet.packet_id)
            others = [held for held in session.open.values() if held.shared and held.shared.holder != session]
            assert len(session.open) - len(others) <= INFLIGHT_MAX

    def received_puback(self, actor: Actor, packet: Puback) -> None:
        published = actor.unanswered.pop(packet.packet_id)
        assert published.letter.qos == 1
        assert packet.reason == (published.reason if actor.version == V5 else 0)

    def received_pubrec(self, actor: Actor, packet: Pubrec) -> None:
        published = actor.unanswered[packet.packet_id]
        assert published.letter.qos == 2
        assert packet.reason in ((published.reason, 0) if actor.version == V5 else (0,))
        if published.hesitates or actor.is_writing:
            actor.unreleased.add(packet.packet_id)
        else:
            self.send_pubrel(actor, packet.packet_id)

    def received_pubrel(self, actor: Actor, packet: Pubrel) -> None:
        assert actor.session is not None
        assert packet.packet_id in actor.session.releasing, "PUBREL of what we have not received"
        actor.pubrels.add(packet.packet_id)

    def received_pubcomp(self, actor: Actor, packet: Pubcomp) -> None:
        published = actor.unanswered.pop(packet.packet_id)
        assert published.packet is None, "PUBCOMP before PUBREL"

    def received_nothing_new(self, actor: Actor, packet: Any) -> None:
        assert not isinstance(packet, Suback) or packet.reasons[0] < 0x80

    # -- the end

    def finish(self) -> None:
        """Everybody comes back, reads, answers and releases; then every copy is accounted for."""
        self.store_is_lazy = False
        for number, actor in enumerate(self.actors):
            if actor.session is not None and not actor.is_here:
                self.connect(number, V5, clean=False, expiry_s=FOR_GOOD)
            if actor.session is not None:
                actor.session.is_slow, actor.acknowledges_at_once = False, True
            self.go_on()
        for _ in range(3):
            for actor in self.here():
                for packet_id in sorted(actor.unreleased):
                    self.send_pubrel(actor, packet_id)
            self.let_time_pass(2)
        for actor in self.here():
            assert not actor.unanswered, f"no answer to {actor.unanswered}"
        self.ledger.close(self.world.now)
        counters = self.world.broker.hub.counters.by_name()
        dropped = sum(count for name, count in counters.items() if name.startswith("dropped_"))
        rejected = counters["dropped_rejected"]
        assert rejected == self.ledger.rejected
        most = self.ledger.missing + self.ledger.uncertain
        assert self.ledger.missing <= dropped - rejected <= most, counters


RECEIVERS: Final[dict[type, Any]] = {
    Publish: Story.received_publish,
    Puback: Story.received_puback,
    Pubrec: Story.received_pubrec,
    Pubrel: Story.received_pubrel,
    Pubcomp: Story.received_pubcomp,
    Suback: Story.received_nothing_new,
    Unsuback: Story.received_nothing_new,
    Pingresp: Story.received_nothing_new,
}
