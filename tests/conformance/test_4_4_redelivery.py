"""Sections 4.4 and 4.6: what is sent again on a resumed session, and in which order messages come."""

from __future__ import annotations

import pytest

from braidmq.wire import Puback, Pubcomp, Publish, Pubrec, Pubrel
from tests.conformance.kit import Connector, Reason
from tests.support import frames
from tests.support.raw import RawClient, read_exactly

SESSIONS = pytest.mark.parametrize("version", [3, 4, 5])


def kept(version: int) -> dict[str, int]:
    """The CONNECT properties of a session that outlives its connection."""
    return {"session_expiry_s": 30} if version == 5 else {}


@pytest.mark.mqtt("MQTT-4.4.0-1", "MQTT-3.3.1-1", "MQTT-4.3.2-3", "MQTT-4.3.3-3", "MQTT-4.6.0-5")
@pytest.mark.mqtt311("MQTT-4.4.0-1", "MQTT-3.3.1-1", "MQTT-4.6.0-1")
@SESSIONS
def test_unacknowledged_messages_come_again_in_order_with_dup(
    connect: Connector, name: str, version: int
) -> None:
    publisher = connect()
    first = connect(name, version=version, clean_start=False, **kept(version))
    first.subscribe(f"{name}/t", qos=2)
    for number in range(6):
        publisher.publish(f"{name}/t", b"%d" % number, qos=1 + number % 2)
    sent = [first.expect(Publish, payload=b"%d" % number) for number in range(6)]
    first.drop()
    second = connect(name, version=version, clean_start=False, **kept(version))
    assert version == 3 or second.connack.session_present
    for message in sent:
        second.take(payload=message.payload, packet_id=message.packet_id, qos=message.qos, dup=True)
    second.expect_nothing()


@pytest.mark.mqtt("MQTT-4.4.0-1")
@pytest.mark.parametrize("version", [4, 5])
def test_only_what_was_not_acknowledged_comes_again(connect: Connector, name: str, version: int) -> None:
    publisher = connect()
    first = connect(name, version=version, clean_start=False, **kept(version))
    first.subscribe(f"{name}/t", qos=1)
    for number in range(4):
        publisher.publish(f"{name}/t", b"%d" % number, qos=1)
    sent = [first.expect(Publish) for _ in range(4)]
    first.send(Puback(sent[0].packet_id), Puback(sent[2].packet_id))
    first.barrier()
    first.drop()
    second = connect(name, version=version, clean_start=False, **kept(version))
    for number in (1, 3):
        second.take(payload=b"%d" % number, packet_id=sent[number].packet_id, dup=True)
    second.expect_nothing()


@pytest.mark.mqtt("MQTT-4.4.0-1")
def test_nothing_is_sent_again_while_the_connection_lives(connect: Connector, name: str) -> None:
    client = connect()
    client.subscribe(name, qos=2)
    client.publish(name, b"1", qos=1)
    client.publish(name, b"2", qos=2)
    client.expect(Publish, payload=b"1")
    client.expect(Publish, payload=b"2")
    for _ in range(3):
        client.expect_nothing()


@pytest.mark.mqtt("MQTT-4.4.0-2")
@pytest.mark.parametrize("qos", [1, 2])
def test_a_refused_message_is_not_sent_again(connect: Connector, name: str, qos: int) -> None:
    first, publisher = connect(name, session_expiry_s=30), connect()
    first.subscribe(f"{name}/t", qos=2)
    publisher.publish(f"{name}/t", b"unwanted", qos=qos)
    message = first.expect(Publish)
    acknowledgement = Puback if qos == 1 else Pubrec
    first.send(acknowledgement(message.packet_id, Reason.IMPLEMENTATION_SPECIFIC_ERROR))
    first.expect_nothing()
    first.drop()
    connect(name, clean_start=False).expect_nothing()


@pytest.mark.mqtt("MQTT-4.4.0-1", "MQTT-4.6.0-5")
def test_messages_queued_behind_come_after_those_sent_again(connect: Connector, name: str) -> None:
    first, publisher = connect(name, session_expiry_s=30, receive_maximum=2), connect()
    first.subscribe(f"{name}/t", qos=1)
    for number in range(3):
        publisher.publish(f"{name}/t", b"%d" % number, qos=1)
    sent = [first.expect(Publish, dup=False) for _ in range(2)]
    first.drop()
    publisher.publish(f"{name}/t", b"3", qos=1)
    second = connect(name, clean_start=False)
    for number in range(4):
        message = second.take(payload=b"%d" % number, dup=number < 2)
        assert number >= 2 or message.packet_id == sent[number].packet_id


@pytest.mark.mqtt("MQTT-4.4.0-1", "MQTT-3.3.4-9", "MQTT-4.9.0-1")
def test_a_smaller_receive_maximum_holds_for_what_is_sent_again(connect: Connector, name: str) -> None:
    first, publisher = connect(name, session_expiry_s=30), connect()
    first.subscribe(f"{name}/t", qos=1)
    for number in range(4):
        publisher.publish(f"{name}/t", b"%d" % number, qos=1)
        first.expect(Publish)
    first.drop()
    second = connect(name, clean_start=False, receive_maximum=1)
    for number in range(4):
        message = second.expect(Publish, payload=b"%d" % number)
        second.expect_nothing()
        second.send(Puback(message.packet_id))


@pytest.mark.mqtt("MQTT-4.4.0-1", "MQTT-4.3.3-5")
def test_pubrel_and_publish_come_again_together(connect: Connector, name: str) -> None:
    first, publisher = connect(name, session_expiry_s=30), connect()
    first.subscribe(f"{name}/t", qos=2)
    for number in range(3):
        publisher.publish(f"{name}/t", b"%d" % number, qos=2)
    sent = [first.expect(Publish) for _ in range(3)]
    first.send(Pubrec(sent[1].packet_id))
    first.expect(Pubrel)
    first.drop()
    second = connect(name, clean_start=False)
    arrived = second.barrier()
    assert [packet.payload for packet in arrived if isinstance(packet, Publish)] == [b"0", b"2"]
    assert [packet.packet_id for packet in arrived if isinstance(packet, Pubrel)] == [sent[1].packet_id]
    second.send(Pubcomp(sent[1].packet_id))
    second.expect_nothing()


@pytest.mark.mqtt("MQTT-4.6.0-5", "MQTT-4.6.0-6")
@pytest.mark.mqtt311("MQTT-4.6.0-5", "MQTT-4.6.0-6")
@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_messages_keep_the_order_of_their_publisher(
    connect: Connector, name: str, qos: int, version: int
) -> None:
    subscriber, publisher = connect(version=version), connect(version=version)
    subscriber.subscribe(f"{name}/#", qos=2)
    packet_ids = range(1, 16)
    publisher.send(
        *(Publish(f"{name}/t", b"%d" % number, qos, packet_id=number if qos else 0) for number in packet_ids)
    )
    if qos == 2:
        publisher.send(*(Pubrel(number) for number in packet_ids))
    for number in packet_ids:
        subscriber.take(payload=b"%d" % number, qos=qos)


@pytest.mark.mqtt("MQTT-4.6.0-5")
def test_order_holds_for_messages_that_have_to_wait(connect: Connector, name: str) -> None:
    subscriber, publisher = connect(receive_maximum=3), connect()
    subscriber.subscribe(f"{name}/+", qos=1)
    for number in range(20):
        publisher.publish(f"{name}/t", b"%d" % number, qos=1)
    for number in range(20):
        subscriber.take(payload=b"%d" % number)


def pump(publisher: RawClient, subscriber: RawClient, topic: str, count: int) -> list[int]:
    """Send `count` QoS 1 messages at once, acknowledge what arrives, give the packet ids used."""
    message = frames.publish(topic, b"", flags=0x02, packet_id=1)
    publisher.send_bytes(message * count)
    arrived = read_exactly(subscriber.sock, len(message) * count)
    at = len(message) - 3
    packet_ids = [
        int.from_bytes(arrived[start + at : start + at + 2], "big")
        for start in range(0, len(arrived), len(message))
    ]
    subscriber.send_bytes(b"".join(b"\x40\x02" + frames.u16(packet_id) for packet_id in packet_ids))
    read_exactly(publisher.sock, 4 * count)
    return packet_ids


@pytest.mark.mqtt("MQTT-2.2.1-4", "MQTT-4.3.2-1")
def test_packet_ids_wrap_around_past_those_in_use(connect: Connector, name: str) -> None:
    publisher, subscriber = connect(), connect()
    subscriber.subscribe(name, qos=1)
    publisher.publish(name, b"held", qos=1)
    held = subscriber.expect(Publish).packet_id
    seen: list[int] = []
    batch = min(500, publisher.connack.properties.receive_maximum or 500) - 5
    while len(seen) < 66_000:
        seen += pump(publisher, subscriber, name, batch)
        assert len(set(seen[-batch:])) == batch
    assert held not in seen
    assert 0 not in seen
