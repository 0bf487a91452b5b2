"""The fast lane against the slow path, and what a batch offers."""

from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from braidmq.client import properties_of
from braidmq.client._batch import MessageBatch
from braidmq.client.session import Session
from braidmq.wire import (
    NO_PROPERTIES,
    V5,
    V311,
    Pingresp,
    Properties,
    Puback,
    Publish,
    Pubrec,
    encode,
)
from tests.client.helpers import connected, deliver, sent_packets

TOPICS = st.sampled_from(["a", "a/b", "/", "$SYS/x", "ütf/8/💡", "x" * 300])
PROPERTIES = st.one_of(
    st.just(NO_PROPERTIES),
    st.builds(
        Properties,
        payload_format=st.sampled_from([None, 0, 1]),
        message_expiry_s=st.none() | st.integers(0, 2**32 - 1),
        content_type=st.none() | st.just("text/plain"),
        response_topic=st.none() | st.just("re/ply"),
        correlation_data=st.none() | st.binary(max_size=5),
        subscription_identifiers=st.lists(st.integers(1, 300), max_size=2).map(tuple),
        topic_alias=st.none() | st.integers(1, 3),
        user_properties=st.lists(st.tuples(st.just("k"), st.just("v")), max_size=2).map(tuple),
    ),
)
VERSIONS = st.sampled_from([V311, V5])
MESSAGES = st.builds(
    Publish,
    TOPICS,
    st.binary(max_size=200),
    st.sampled_from([0, 0, 0, 1, 1, 2]),
    st.booleans(),
    properties=PROPERTIES,
)


def numbered(packets: list[Publish]) -> list[Publish]:
    """The same messages with packet identifiers, and DUP on some."""
    return [
        structs.replace(packet, dup=number % 3 == 0, packet_id=number + 1) if packet.qos else packet
        for number, packet in enumerate(packets)
    ]


def pieces(data: bytes, sizes: list[int]) -> list[bytes]:
    cut, start = [], 0
    for size in sizes:
        cut.append(data[start : start + size])
        start += size
    return [*cut, data[start:]]


def take_all(session: Session) -> list[tuple[Any, ...]]:
    rows = []
    while session.queued_messages:
        for message in session.take_batch(7):
            rows.append((
                message.topic, message.payload, message.qos, message.retain, message.dup, message.packet_id,
                message.properties,
            ))
            message.ack()
    return rows


class TestDifferential:
    @given(st.lists(MESSAGES, max_size=20), st.lists(st.integers(0, 60), max_size=30), VERSIONS)
    def test_both_paths_agree(self, packets: list[Publish], cuts: list[int], version: int) -> None:
        if version != V5:
            packets = [Publish(p.topic, p.payload, p.qos, p.retain) for p in packets]
        data = b"".join(encode(packet, version) for packet in numbered(packets))
        rows, answers = [], []
        for fast in (True, False):
            session = connected(version=version, topic_alias_maximum=3)
            session._inbound.scanner.fast = fast
            for piece in pieces(data, cuts):
                session.receive(piece, 0.0)
            rows.append(take_all(session))
            answers.append(sent_packets(session))
        assert rows[0] == rows[1]
        assert answers[0] == answers[1]
        assert [row[:4] for row in rows[0]] == [(p.topic, p.payload, p.qos, p.retain) for p in packets]

    @given(st.binary(max_size=60), VERSIONS, st.sampled_from([0x30, 0x32, 0x34, 0x3B, 0x38, 0x36]))
    def test_they_agree_on_rubbish(self, body: bytes, version: int, first_byte: int) -> None:
        """Any body: both take it as the same message, or both end the connection for the same reason."""
        self.agree_on(bytes((first_byte, len(body))) + body, version)

    @given(MESSAGES, st.data(), VERSIONS)
    def test_they_agree_on_damage(self, packet: Publish, data: st.DataObject, version: int) -> None:
        """A good frame with one byte changed: more likely to be nearly right than pure rubbish."""
        frame = bytearray(encode(numbered([packet])[0], version))
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
        self.agree_on(bytes(frame), version)

    def agree_on(self, data: bytes, version: int) -> None:
        outcomes = []
        for fast in (True, False):
            session = connected(version=version, topic_alias_maximum=3)
            session._inbound.scanner.fast = fast
            events = [type(event).__name__ for event in session.receive(data, 0.0)]
            outcomes.append((events, take_all(session), sent_packets(session)))
        assert outcomes[0] == outcomes[1]


class TestScanner:
    def test_control_packets_between_messages_keep_their_place(self) -> None:
        session = connected()
        session.publish(Publish("t", b"", 1))
        session.data_to_send(0.0)
        packets = [Publish("t", b"1"), Puback(1), Publish("t", b"2"), Pingresp(), Publish("t", b"3")]
        events = deliver(session, *packets)
        assert [type(event).__name__ for event in events] == ["Completed", "MessagesReceived"]
        assert session.take_batch(10).payloads == [b"1", b"2", b"3"]

    def test_a_large_packet_in_small_pieces(self) -> None:
        session = connected()
        payload = bytes(range(256)) * 2000
        data = encode(Publish("t", payload), V5) + encode(Publish("t", b"after"), V5)
        for start in range(0, len(data), 1000):
            session.receive(memoryview(data)[start : start + 1000], 0.0)
        assert session.take_batch(10).payloads == [payload, b"after"]

    def test_byte_by_byte(self) -> None:
        session = connected()
        for byte in encode(Publish("topic", b"payload", 1, packet_id=3), V5) * 3:
            session.receive(bytes((byte,)), 0.0)
        assert session.take_batch(10).payloads == [b"payload"] * 3

    def test_the_callers_buffer_is_free_after_the_call(self) -> None:
        """The shells read into one buffer again and again."""
        session = connected()
        buffer = bytearray(encode(Publish("t", b"first"), V5) + encode(Publish("t", b"second"), V5)[:-3])
        session.receive(buffer, 0.0)
        buffer[:] = b"\xff" * len(buffer)
        buffer += b"a bytearray can only grow while nobody has a view of it"
        session.receive(b"ond", 0.0)
        assert session.take_batch(10).payloads == [b"first", b"second"]

    def test_the_callers_buffer_is_free_after_an_error(self) -> None:
        session = connected()
        buffer = bytearray(encode(Publish("t", b"first"), V5) + b"\x36\x00" + encode(Publish("t", b"x"), V5))
        session.receive(buffer, 0.0)
        buffer += b"grows"
        assert session.take_batch(10).payloads == [b"first"]

    @pytest.mark.parametrize("length", [b"\xff\xff\xff\xff\x01", b"\x80\x00"])
    def test_malformed_lengths(self, length: bytes) -> None:
        session = connected()
        [event] = session.receive(b"\x30" + length, 0.0)
        assert type(event).__name__ == "Closed"

    def test_a_promised_length_alone_costs_nothing(self) -> None:
        session = connected()
        session.receive(b"\x30\xff\xff\xff\x7f" + b"\x00\x01t", 0.0)
        assert session.queued_messages == 0
        assert session.queued_bytes == 0


def batch_of(*packets: Publish, take: int = 100) -> MessageBatch:
    session = connected()
    deliver(session, *packets)
    return session.take_batch(take)


class TestBatch:
    def test_columns(self) -> None:
        properties = Properties(content_type="x")
        rich = Publish("b", b"22", 1, True, packet_id=9, properties=properties)
        batch = batch_of(Publish("a", b"1"), rich, Publish("b", b""))
        assert len(batch) == 3
        assert batch.topics == ["a", "b", "b"]
        assert batch.payloads == [b"1", b"22", b""]
        assert batch.packet_ids == array("H", [0, 9, 0])
        assert batch.flags == bytes([0, 0x03, 0])
        none = NO_PROPERTIES
        assert [properties_of(raw) for raw in batch.raw_properties] == [none, properties, none]
        assert batch.size_bytes == len("abb122") + len(b"".join(batch.raw_properties))

    def test_columns_in_arrows_layout(self) -> None:
        batch = batch_of(Publish("a", b"1"), Publish("büro", b""), Publish("c", b"333"))
        assert batch.payload_column() == (array("i", [0, 1, 1, 4]), b"1333")
        assert batch.topic_column() == (array("i", [0, 1, 6, 7]), "abüroc".encode())

    def test_one_topic_is_one_object(self) -> None:
        topics = batch_of(*(Publish("some/topic", b"%d" % n) for n in range(100))).topics
        assert len({id(topic) for topic in topics}) == 1

    def test_alternating_topics_are_few_objects(self) -> None:
        topics = batch_of(*(Publish(f"topic/{n % 3}", b"") for n in range(99))).topics
        assert topics == [f"topic/{n % 3}" for n in range(99)]
        assert len({id(topic) for topic in topics}) == 3

    def test_indexing_and_iterating_give_the_same(self) -> None:
        batch = batch_of(*(Publish(f"t/{n}", b"%d" % n) for n in range(5)))
        assert [batch[n].payload for n in range(5)] == [message.payload for message in batch]
        assert batch[-1].topic == "t/4"
        with pytest.raises(IndexError):
            batch[5]
        with pytest.raises(IndexError):
            batch[-6]

    def test_mqtt_3_has_no_properties(self) -> None:
        session = connected(version=V311)
        deliver(session, Publish("t", b"x"))
        [message] = session.take_batch(1)
        assert message.properties is NO_PROPERTIES

    def test_an_empty_batch(self) -> None:
        batch = connected().take_batch(10)
        assert len(batch) == 0
        assert list(batch) == batch.topics == batch.payloads == []
        assert batch.payload_column() == (array("i", [0]), b"")
        batch.ack()

    def test_splitting_keeps_order_and_counts(self) -> None:
        session = connected()
        deliver(session, *(Publish("t", b"%d" % n, 1, packet_id=n + 1) for n in range(10)))
        first, second = session.take_batch(4), session.take_batch(100)
        assert session.queued_messages == session.queued_bytes == 0
        assert [*first.payloads, *second.payloads] == [b"%d" % n for n in range(10)]
        second.ack()
        assert sent_packets(session) == []
        first.ack()
        assert sent_packets(session) == [Puback(n + 1) for n in range(10)]

    def test_a_batch_does_not_change_when_more_comes(self) -> None:
        session = connected()
        deliver(session, Publish("t", b"1"), Publish("t", b"2"))
        batch = session.take_batch(1)
        deliver(session, *(Publish("u", b"x" * 1000) for _ in range(3000)))
        assert batch.topics == ["t"]
        assert batch.payloads == [b"1"]
        rest = []
        while session.queued_messages:
            rest += session.take_batch(1000).payloads
        assert rest == [b"2"] + [b"x" * 1000] * 3000

    def test_acknowledging_a_batch_of_all_kinds(self) -> None:
        session = connected()
        two, one = Publish("t", b"", 2, packet_id=5), Publish("t", b"", 1, packet_id=6)
        deliver(session, Publish("t"), two, Publish("t"), one)
        session.take_batch(10).ack()
        assert sent_packets(session) == [Pubrec(5), Puback(6)]

    def test_queued_bytes_follow_the_messages(self) -> None:
        session = connected()
        deliver(session, Publish("topic", b"x" * 1000))
        before = session.queued_bytes
        assert before >= 1005
        deliver(session, Publish("topic", b"x" * 1000))
        assert session.queued_bytes == 2 * before
        session.take_batch(1)
        assert session.queued_bytes == before
