"""What clients may do to a broker, as values that hypothesis makes up, and how to play it."""

from collections.abc import Callable
from typing import Any, NamedTuple

from hypothesis import strategies as st

from braidmq.broker.broker import Broker
from braidmq.broker.restoring import living
from braidmq.messages.message import Message
from braidmq.store.records import (
    AWAY,
    GROUP_ENDED,
    GROUP_QUEUED,
    NUMBERED,
    QUEUED,
    RECEIVED,
    RETAINED,
    SENT,
    SESSION_ENDED,
    WILL,
    Record,
)
from braidmq.wire import (
    Connect,
    Disconnect,
    Packet,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Subscribe,
    Subscription,
    Unsubscribe,
    Will,
)
from tests.broker.world import Client, World

CLIENT_IDS = ("a", "b", "c", "passing")
PASSING = "passing"  # its session never lasts
TOPICS = ("t", "t/u", "x")
ENDINGS = (SESSION_ENDED, GROUP_ENDED)  # at the head of what rebuilds something
SEQUENCE_AT = {QUEUED: 2, SENT: 2, RECEIVED: 2, GROUP_QUEUED: 3}  # where a record has its sequence number
WILL_TOPIC = "w"  # no shared filter matches it, because whose turn it is in a group is not kept
FILTERS = ("t", "t/#", "#", "w", "$share/g/t/#", "$share/g/t")


class Come(NamedTuple):
    client_id: str
    clean_start: bool
    expiry_s: int
    will_delay_s: int | None  # None = no will
    receive_maximum: int


class Go(NamedTuple):
    client_id: str
    how: str  # "goodbye", "goodbye with will", "for good", "vanish"


class Want(NamedTuple):
    client_id: str
    filter: str
    qos: int
    identifier: int
    retain_as_published: bool


class Drop(NamedTuple):
    client_id: str
    filter: str


class Say(NamedTuple):
    client_id: str
    topic: str
    qos: int
    retain: bool
    packet_id: int
    expiry_s: int | None
    payload: bytes


class Release(NamedTuple):
    client_id: str
    packet_id: int


class Answer(NamedTuple):
    client_id: str
    count: int


class Wait(NamedTuple):
    seconds: float


client_ids = st.sampled_from(CLIENT_IDS)
steps = st.one_of(
    st.builds(
        Come, client_ids, st.booleans(), st.sampled_from((50, 0xFFFFFFFF)),
        st.sampled_from((None, 0, 5)), st.sampled_from((1, 2, 100)),
    ),
    st.builds(
        Go, client_ids, st.sampled_from(("goodbye", "goodbye with will", "for good", "vanish", "vanish"))
    ),
    st.builds(
        Want, client_ids, st.sampled_from(FILTERS), st.integers(0, 2), st.sampled_from((0, 7)), st.booleans()
    ),
    st.builds(Drop, client_ids, st.sampled_from(FILTERS)),
    *[
        st.builds(
            Say, client_ids, st.sampled_from(TOPICS), st.sampled_from((0, 1, 1, 2, 2)), st.booleans(),
            st.integers(1, 3), st.sampled_from((None, None, 8)), st.sampled_from((b"", b"1", b"2", b"33")),
        )
    ] * 3,
    st.builds(Release, client_ids, st.integers(1, 3)),
    *[st.builds(Answer, client_ids, st.integers(1, 9))] * 2,
    st.builds(Wait, st.sampled_from((1.0, 6.0, 60.0))),
)
# Everybody is there and wants something, so that what is made up has effects.
BEGINNING = (
    *(Come(client_id, True, 50, 5 if client_id == "a" else None, 2) for client_id in CLIENT_IDS),
    Want("a", "#", 2, 0, False),
    Want("b", "t/#", 1, 7, True),
    Want("b", "$share/g/t/#", 2, 0, False),
    Want("c", "$share/g/t/#", 2, 0, False),
)
histories = st.lists(steps, min_size=5, max_size=60).map(lambda made_up: [*BEGINNING, *made_up])


class Play:
    """Plays a history on a world; unanswered packets of each client are remembered."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.clients: dict[str, Client] = {}
        self.unanswered: dict[str, list[Packet]] = {}

    def step(self, step: Any) -> None:
        if isinstance(step, Wait):
            self.world.pass_time(step.seconds)
        elif isinstance(step, Come):
            self.come(step)
        elif self.is_here(step.client_id):
            getattr(self, type(step).__name__.lower())(step)
        for client_id in CLIENT_IDS:
            self.read(client_id)

    def is_here(self, client_id: str) -> bool:
        client = self.clients.get(client_id)
        return client is not None and not client.is_closed

    def come(self, step: Come) -> None:
        client = self.world.open()
        expiry_s = 0 if step.client_id == PASSING else step.expiry_s
        properties = Properties(session_expiry_s=expiry_s, receive_maximum=step.receive_maximum)
        will = None
        if step.will_delay_s is not None:
            will = Will(WILL_TOPIC, b"will", 1, False, Properties(will_delay_s=step.will_delay_s))
        client.send(Connect(step.client_id, step.clean_start, 0, will=will, properties=properties))
        self.clients[step.client_id] = client
        self.unanswered[step.client_id] = []

    def go(self, step: Go) -> None:
        client = self.clients[step.client_id]
        if step.how == "vanish":
            client.is_closed = True
            client.vanish()
            return
        reason = 4 if step.how == "goodbye with will" else 0
        expiry_s = 0 if step.how == "for good" else None
        client.send(Disconnect(reason, Properties(session_expiry_s=expiry_s)))

    def want(self, step: Want) -> None:
        identifiers = (step.identifier,) if step.identifier else ()
        wanted = Subscription(step.filter, step.qos, retain_as_published=step.retain_as_published)
        self.clients[step.client_id].send(
            Subscribe(9, (wanted,), Properties(subscription_identifiers=identifiers))
        )

    def drop(self, step: Drop) -> None:
        self.clients[step.client_id].send(Unsubscribe(9, (step.filter,)))

    def say(self, step: Say) -> None:
        packet_id = step.packet_id if step.qos else 0
        properties = Properties(message_expiry_s=step.expiry_s)
        self.clients[step.client_id].send(
            Publish(step.topic, step.payload, step.qos, step.retain, False, packet_id, properties)
        )

    def release(self, step: Release) -> None:
        self.clients[step.client_id].send(Pubrel(step.packet_id))

    def answer(self, step: Answer) -> None:
        waiting = self.unanswered[step.client_id]
        self.unanswered[step.client_id] = waiting[step.count :]
        self.clients[step.client_id].send(*waiting[: step.count])

    def read(self, client_id: str) -> None:
        if client_id not in self.clients:
            return
        self.note(client_id, self.clients[client_id].read())

    def note(self, client_id: str, packets: list[Packet]) -> None:
        """Remember what a client has to answer."""
        for packet in packets:
            if isinstance(packet, Publish) and packet.qos:
                kind = Puback if packet.qos == 1 else Pubrec
                self.unanswered[client_id].append(kind(packet.packet_id))
            elif isinstance(packet, Pubrel):
                self.unanswered[client_id].append(Pubcomp(packet.packet_id))

    def lose_everybody(self) -> None:
        """What a crash of the broker is to its clients, in the order in which a restart goes through them."""
        order = [*self.world.broker.sessions]
        for client_id in order:
            if self.is_here(client_id) and self.world.broker.sessions[client_id].is_remembered:
                self.go(Go(client_id, "vanish"))
        for client_id in order:
            if self.is_here(client_id):
                self.go(Go(client_id, "vanish"))


def plain_message(message: Message | None) -> object:
    if message is None:
        return None
    return (
        message.topic, message.payload, message.qos, message.retain, message.properties,
        round(message.expires_at_s, 3), message.publisher,
    )


def plain(record: Record) -> object:
    """A record that can be compared with another broker's."""
    match record[0]:
        case kind if kind == QUEUED:
            *head, message, qos, retain, identifiers, group = record
            # A group that everybody has left lives on for what is under way, but not over a restart.
            named = (group.name, group.filter) if group is not None and group.has_members else None
            return (*head, plain_message(message), qos, retain, identifiers, named)
        case kind if kind == GROUP_QUEUED:
            return (*record[:4], plain_message(record[4]))
        case kind if kind == RETAINED:
            return (*record[:2], plain_message(record[2]))
        case kind if kind == AWAY:
            return (*record[:2], round(record[2], 3))
        case kind if kind == WILL:
            return (*record[:3], round(record[3], 3), record[4])
    return record


def picture(
    broker: Broker, unfold: Callable[[list[Record]], list[Record]] = lambda part: part
) -> list[object]:
    """All of a broker that lasts, as comparable values. Of sequence numbers only the order counts."""
    broker.retained.expire()
    parts = [ranked(unfold(part)) for part in living(broker)]
    found = [plain(record) for part in parts for record in part if record[0] not in ENDINGS]
    return sorted(found, key=repr)


def ranked(part: list[Record]) -> list[Record]:
    """The records of one session, or one shared group, with each sequence number replaced by its rank."""
    order = sorted(record[SEQUENCE_AT[record[0]]] for record in part if record[0] in (QUEUED, GROUP_QUEUED))
    rank = {sequence: position for position, sequence in enumerate(order)}
    # Whoever is still there when a will is sent has it sent, and after a crash nobody is.
    wills = {record[2] for record in part if record[0] == QUEUED and record[3] and record[3].topic == b"w"}
    return [
        _with_rank(record, rank) for record in part
        if record[0] != NUMBERED and (record[0] != SENT or record[2] not in wills)
    ]


def _with_rank(record: Record, rank: dict[int, int]) -> Record:
    place = SEQUENCE_AT.get(record[0])
    return record if place is None else (*record[:place], rank[record[place]], *record[place + 1 :])
