"""Chapters 1 and 2: strings, variable byte integers, fixed header flags, packet identifiers, properties."""

from __future__ import annotations

import pytest

from braidmq.wire import V5, Pingresp, Puback, Pubcomp, Publish, Pubrec, Pubrel
from tests.conformance.kit import BROKEN, Connector, Dial, Reason, assert_serving
from tests.support import frames
from tests.support.broker import Broker

ILL_FORMED = {
    "surrogate": b"a\xed\xa0\x80b",
    "overlong": b"a\xc1\x81b",
    "cut short": b"a\xe2\x82",
    "stray continuation": b"a\x80b",
    "beyond U+10FFFF": b"a\xf4\x90\x80\x80",
}


@pytest.mark.mqtt("MQTT-1.5.4-1", "MQTT-3.3.2-1", "MQTT-4.13.1-1")
@pytest.mark.mqtt311("MQTT-1.5.3-1")
@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize("bad", ILL_FORMED.values(), ids=ILL_FORMED.keys())
def test_ill_formed_utf8_in_a_topic_closes(connect: Connector, bad: bytes, version: int) -> None:
    client = connect(version=version)
    client.send_bytes(frames.publish(bad, properties=b"\x00" if version == V5 else b""))
    client.expect_disconnect(Reason.MALFORMED_PACKET)


@pytest.mark.mqtt("MQTT-1.5.4-1", "MQTT-3.8.3-1", "MQTT-3.10.3-1")
@pytest.mark.parametrize("bad", ILL_FORMED.values(), ids=ILL_FORMED.keys())
def test_ill_formed_utf8_in_a_filter_closes(connect: Connector, bad: bytes) -> None:
    for packet in (frames.subscribe(1, (bad, 0)), frames.unsubscribe(1, bad)):
        client = connect()
        client.send_bytes(packet)
        client.expect_disconnect(Reason.MALFORMED_PACKET)


@pytest.mark.mqtt("MQTT-1.5.7-1", "MQTT-3.3.2-19")
@pytest.mark.parametrize(
    "block",
    [
        frames.props(frames.user_property(b"\xff", "v")),
        frames.props(frames.user_property("k", b"\xed\xb0\x80")),
        frames.props(frames.user_property("k", b"a\x00b")),
        frames.props(b"\x03" + frames.blob(b"\xc3")),
    ],
    ids=["name", "value", "null in value", "content type"],
)
def test_ill_formed_utf8_in_properties_closes(connect: Connector, name: str, block: bytes) -> None:
    client = connect()
    client.send_bytes(frames.publish(name, properties=block))
    client.expect_disconnect(Reason.MALFORMED_PACKET)


@pytest.mark.mqtt("MQTT-1.5.4-2", "MQTT-4.7.3-2")
@pytest.mark.mqtt311("MQTT-1.5.3-2")
@pytest.mark.parametrize("version", [4, 5])
def test_null_character_closes(broker: Broker, connect: Connector, version: int) -> None:
    block = b"\x00" if version == V5 else b""
    packets = [frames.publish(b"a\x00b", properties=block)]
    packets.append(frames.subscribe(1, (b"a\x00b", 0), properties=block))
    packets.append(frames.unsubscribe(1, b"a\x00b", properties=block))
    for packet in packets:
        client = connect(version=version)
        client.send_bytes(packet)
        client.expect_disconnect(*BROKEN, Reason.TOPIC_NAME_INVALID, Reason.TOPIC_FILTER_INVALID)
    assert_serving(broker)


@pytest.mark.mqtt("MQTT-1.5.4-3", "MQTT-4.7.3-4")
@pytest.mark.mqtt311("MQTT-1.5.3-3")
def test_byte_order_mark_is_part_of_the_string(connect: Connector, name: str) -> None:
    with_mark, without = f"\ufeff{name}\ufeff/x", f"{name}/x"
    client = connect()
    client.subscribe(with_mark)
    client.publish(without, b"other topic")
    client.publish(with_mark, b"same topic")
    client.take(topic=with_mark, payload=b"same topic")
    client.expect_nothing()


@pytest.mark.mqtt("MQTT-1.5.5-1")
@pytest.mark.parametrize("length", [127, 128, 16_383, 16_384])
def test_lengths_take_the_fewest_bytes(connect: Connector, name: str, length: int) -> None:
    client = connect()
    client.subscribe(name)
    overhead = len(frames.blob(name)) + 1
    client.publish(name, bytes(length - overhead))
    client.take(topic=name)
    assert client.last_frame.length_field == frames.varint(length)


@pytest.mark.mqtt("MQTT-1.5.5-1", "MQTT-4.13.1-1")
def test_a_length_of_five_bytes_closes(broker: Broker, connect: Connector) -> None:
    client = connect()
    client.send_bytes(b"\x30\xff\xff\xff\xff\x01")
    client.expect_disconnect(Reason.MALFORMED_PACKET)
    assert_serving(broker)


BAD_FLAGS = {
    "PUBACK": frames.frame(0x41, frames.u16(1)),
    "PUBREC": frames.frame(0x52, frames.u16(1)),
    "PUBREL": frames.frame(0x60, frames.u16(1)),
    "PUBCOMP": frames.frame(0x71, frames.u16(1)),
    "SUBSCRIBE": frames.frame(0x80, frames.u16(1), b"\x00", frames.blob("a"), b"\x00"),
    "UNSUBSCRIBE": frames.frame(0xA0, frames.u16(1), b"\x00", frames.blob("a")),
    "PINGREQ": b"\xc1\x00",
    "DISCONNECT": b"\xe1\x00",
    "AUTH": b"\xf1\x00",
    "type 0": b"\x00\x00",
}
OWN_STATEMENTS = {
    "PUBREL": ["MQTT-3.6.1-1"],
    "SUBSCRIBE": ["MQTT-3.8.1-1"],
    "UNSUBSCRIBE": ["MQTT-3.10.1-1"],
    "DISCONNECT": ["MQTT-3.14.1-1"],
    "AUTH": ["MQTT-3.15.1-1"],
}


@pytest.mark.mqtt("MQTT-2.1.3-1", "MQTT-4.13.1-1")
@pytest.mark.parametrize(
    "packet",
    [
        pytest.param(packet, id=kind, marks=pytest.mark.mqtt(*OWN_STATEMENTS.get(kind, [])))
        for kind, packet in BAD_FLAGS.items()
    ],
)
def test_reserved_header_flags_close(broker: Broker, connect: Connector, packet: bytes) -> None:
    client = connect()
    client.send_bytes(packet)
    client.expect_disconnect(*BROKEN)
    assert_serving(broker)


@pytest.mark.mqtt311("MQTT-2.2.2-2")
@pytest.mark.parametrize("kind", [kind for kind in BAD_FLAGS if kind not in ("SUBSCRIBE", "UNSUBSCRIBE")])
def test_reserved_header_flags_close_v311(connect: Connector, kind: str) -> None:
    client = connect(version=4)
    client.send_bytes(BAD_FLAGS[kind])
    client.expect_closed()


@pytest.mark.mqtt("MQTT-2.2.1-2", "MQTT-2.2.2-1", "MQTT-4.3.1-1", "MQTT-3.3.1-2")
def test_qos_0_goes_out_without_packet_id_and_dup(connect: Connector, name: str) -> None:
    client = connect()
    client.subscribe(name)
    client.publish(name, b"payload")
    client.take(topic=name)
    assert client.last_frame.first_byte == frames.PUBLISH
    assert client.last_frame.body == frames.blob(name) + b"\x00" + b"payload"


@pytest.mark.mqtt("MQTT-2.2.2-1", "MQTT-3.8.4-2", "MQTT-2.2.1-6")
def test_no_properties_are_a_zero_length(connect: Connector, name: str) -> None:
    client = connect()
    client.subscribe(name, qos=1)
    assert client.last_frame.body == frames.u16(1) + b"\x00" + b"\x01"
    client.unsubscribe(name)
    assert client.last_frame.body == frames.u16(2) + b"\x00" + b"\x00"


@pytest.mark.mqtt("MQTT-2.2.1-3")
@pytest.mark.mqtt311("MQTT-2.3.1-1")
@pytest.mark.parametrize("version", [4, 5])
def test_packet_id_zero_closes(connect: Connector, name: str, version: int) -> None:
    block = b"\x00" if version == V5 else b""
    packets = [frames.publish(name, flags=qos << 1, packet_id=0, properties=block) for qos in (1, 2)]
    packets.append(frames.subscribe(0, (name, 0), properties=block))
    packets.append(frames.unsubscribe(0, name, properties=block))
    for packet in packets:
        client = connect(version=version)
        client.send_bytes(packet)
        client.expect_disconnect(*BROKEN)


@pytest.mark.mqtt("MQTT-2.2.1-4", "MQTT-4.3.2-1", "MQTT-4.3.3-1")
def test_unacknowledged_messages_have_distinct_packet_ids(connect: Connector, name: str) -> None:
    subscriber, publisher = connect(), connect()
    subscriber.subscribe(name, qos=2)
    for number in range(15):
        publisher.publish(name, b"%d" % number, qos=1 + number % 2)
    taken = [subscriber.expect(Publish).packet_id for _ in range(15)]
    assert 0 not in taken
    assert len(set(taken)) == 15


@pytest.mark.mqtt("MQTT-2.2.1-5", "MQTT-4.3.2-4", "MQTT-4.3.3-8", "MQTT-4.3.3-11", "MQTT-3.3.4-1")
def test_acknowledgements_carry_the_packet_id_of_the_publish(connect: Connector, name: str) -> None:
    client = connect()
    client.send(Publish(name, qos=1, packet_id=65_535))
    client.expect(Puback, packet_id=65_535)
    client.send(Publish(name, qos=2, packet_id=258))
    client.expect(Pubrec, packet_id=258)
    client.send(Pubrel(258))
    client.expect(Pubcomp, packet_id=258, reason=Reason.SUCCESS)


@pytest.mark.mqtt("MQTT-2.2.1-6", "MQTT-3.8.4-2", "MQTT-3.10.4-5")
def test_suback_and_unsuback_carry_the_packet_id(connect: Connector, name: str) -> None:
    client = connect()
    client.send_bytes(frames.subscribe(40_000, (name, 0)) + frames.unsubscribe(1, name))
    assert client.receive().packet_id == 40_000  # type: ignore[union-attr]
    assert client.receive().packet_id == 1  # type: ignore[union-attr]


@pytest.mark.mqtt("MQTT-4.2-1")
@pytest.mark.parametrize("chunk_bytes", [1, 2, 7])
def test_packets_cut_anywhere_are_put_together(dial: Dial, name: str, chunk_bytes: int) -> None:
    client = dial()
    stream = frames.connect(frames.blob(name))
    stream += frames.subscribe(1, (name, 0)) + frames.publish(name, b"x" * 200) + b"\xc0\x00"
    for start in range(0, len(stream), chunk_bytes):
        client.send_bytes(stream[start : start + chunk_bytes])
    assert [type(client.receive()).__name__ for _ in range(2)] == ["Connack", "Suback"]
    client.take(topic=name, payload=b"x" * 200)
    client.expect(Pingresp)
