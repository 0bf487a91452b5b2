"""Sessions over any interleaving of sending, acknowledging, losing the connection and coming back."""

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from braidmq.wire import (
    V5,
    V311,
    Packet,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    ReasonCode,
)
from tests.broker.world import Client, World

FOR_EVER = Properties(session_expiry_s=0xFFFFFFFF)


class Subscriber:
    """A client that keeps its own half of the protocol, with what it got."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.to_answer: list[Packet] = []
        self.open_qos2: set[int] = set()
        self.got: list[tuple[int, bytes]] = []

    def read(self) -> None:
        for packet in self.client.read():
            if isinstance(packet, Publish):
                self.take(packet)
            elif isinstance(packet, Pubrel):
                self.open_qos2.discard(packet.packet_id)
                self.to_answer.append(Pubcomp(packet.packet_id))

    def take(self, packet: Publish) -> None:
        if packet.qos == 2:
            if packet.packet_id not in self.open_qos2:
                self.got.append((2, packet.payload))
                self.open_qos2.add(packet.packet_id)
            self.to_answer.append(Pubrec(packet.packet_id))
        else:
            self.got.append((packet.qos, packet.payload))
            if packet.qos:
                self.to_answer.append(Puback(packet.packet_id))


class SessionMachine(RuleBasedStateMachine):
    """One persistent subscriber that comes and goes; one publisher that numbers its messages."""

    @initialize(version=st.sampled_from((V311, V5)), window=st.integers(1, 4))
    def begin(self, version: int, window: int) -> None:
        self.world = World(queue_messages_max=1000, inflight_max=3, receive_maximum=65_535)
        self.version = version
        self.window = window
        self.publisher = self.world.connect("publisher")
        self.subscriber = Subscriber(
            self.world.connect("subscriber", version, clean_start=False, properties=self.properties())
        )
        self.subscriber.client.subscribe("t/#", qos=2)
        self.sent: dict[int, list[bytes]] = {1: [], 2: []}
        self.next_packet_id = 1

    def properties(self) -> Properties:
        if self.version != V5:
            return Properties()
        return Properties(session_expiry_s=1000, receive_maximum=self.window)

    @rule(qos=st.integers(0, 2))
    def publish(self, qos: int) -> None:
        payload = str(self.next_packet_id).encode()
        self.publisher.send(Publish("t/x", payload, qos, packet_id=self.next_packet_id if qos else 0))
        if qos:
            self.sent[qos].append(payload)
            (answer,) = self.publisher.read()
            assert answer == (Puback if qos == 1 else Pubrec)(self.next_packet_id)
            if qos == 2:
                self.publisher.send(Pubrel(self.next_packet_id))
                assert self.publisher.expect(Pubcomp).reason == ReasonCode.SUCCESS
        self.next_packet_id += 1

    @rule()
    def read(self) -> None:
        if not self.subscriber.client.is_closed:
            self.subscriber.read()

    @precondition(lambda self: self.subscriber.to_answer and not self.subscriber.client.is_closed)
    @rule(count=st.integers(1, 5))
    def answer(self, count: int) -> None:
        now, self.subscriber.to_answer = self.subscriber.to_answer[:count], self.subscriber.to_answer[count:]
        self.subscriber.client.send(*now)

    @rule()
    def lose_connection(self) -> None:
        if not self.subscriber.client.is_closed:
            self.subscriber.client.is_closed = True
            self.subscriber.client.vanish()

    @rule(window=st.integers(1, 4))
    def come_back(self, window: int) -> None:
        """Also as a takeover, while the old connection still stands."""
        self.window = window
        client, packets = self.world.resume("subscriber", self.version, properties=self.properties())
        self.subscriber.client = client
        self.subscriber.to_answer.clear()
        for packet in packets:
            if isinstance(packet, Publish):
                self.subscriber.take(packet)
            elif isinstance(packet, Pubrel):
                self.subscriber.open_qos2.discard(packet.packet_id)
                self.subscriber.to_answer.append(Pubcomp(packet.packet_id))

    @invariant()
    def is_sound(self) -> None:
        if hasattr(self, "world"):
            self.world.check()

    @invariant()
    def window_is_kept(self) -> None:
        if hasattr(self, "world") and self.version == V5:
            assert self.world.broker.sessions["subscriber"].outstanding <= self.window

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        self.come_back(4)
        for _ in range(1000):
            self.subscriber.read()
            if not self.subscriber.to_answer:
                break
            self.answer(100)
        session = self.world.broker.sessions["subscriber"]
        assert (session.inflight.count, session.queued) == (0, 0)
        exactly_once = [payload for qos, payload in self.subscriber.got if qos == 2]
        assert exactly_once == self.sent[2]
        at_least_once = [payload for qos, payload in self.subscriber.got if qos == 1]
        assert set(at_least_once) == set(self.sent[1])
        # Repetitions aside, in order [MQTT-4.6.0-6].
        first_times = list(Counter(at_least_once))
        assert first_times == self.sent[1]


TestSessions = SessionMachine.TestCase
TestSessions.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_all_packet_ids_in_use_means_waiting() -> None:
    world = World(inflight_max=65_535, queue_messages_max=10, output_bytes_max=1 << 26)
    subscriber = world.connect("s", V5, clean_start=True, properties=FOR_EVER)
    subscriber.subscribe("t", qos=1)
    publisher = world.connect("p")
    publisher.send(*(Publish("t", b"", 1, packet_id=1) for _ in range(65_540)))
    session = world.broker.sessions["s"]
    assert (session.inflight.count, session.queued) == (65_535, 5)
    ids = {packet.packet_id for packet in subscriber.read() if isinstance(packet, Publish)}
    assert ids == set(range(1, 65_536))
    subscriber.send(Puback(4711))
    assert subscriber.expect(Publish).packet_id == 4711
    session.check()


WRONG_ANSWERS = (
    (1, [Pubrec(1)]),
    (1, [Pubcomp(1)]),
    (2, [Puback(1)]),
    (2, [Pubcomp(1)]),
    (2, [Pubrec(1), Puback(1)]),
)


def test_an_answer_of_the_wrong_kind_ends_the_connection() -> None:
    """Ignored, it would leave the delivery open and, with a Receive Maximum of 1, be the last one."""
    for version in (V5, V311):
        for qos, answers in WRONG_ANSWERS:
            world = World(inflight_max=1)
            client = world.connect("c", version)
            client.subscribe("t", qos=qos)
            world.connect("p").send(Publish("t", b"", qos, packet_id=1))
            assert client.expect(Publish).packet_id == 1
            client.send(*answers)
            assert client.is_closed, (version, qos, answers)
            if version == V5:
                assert client.read()[-1].reason == ReasonCode.PROTOCOL_ERROR  # type: ignore[union-attr]


def test_an_answer_to_nothing_is_let_pass() -> None:
    world = World()
    client = world.connect("c")
    client.send(Puback(7), Pubcomp(7), Pubrec(7, ReasonCode.UNSPECIFIED_ERROR))
    assert client.read() == []
    client.send(Pubrec(7))
    assert client.read() == [Pubrel(7, ReasonCode.PACKET_IDENTIFIER_NOT_FOUND)]
