"""Sections 3.4 to 3.7: PUBACK, PUBREC, PUBREL and PUBCOMP as the broker sends and takes them."""

from __future__ import annotations

import pytest

from braidmq.wire import Packet, Puback, Pubcomp, Publish, Pubrec, Pubrel
from tests.conformance.kit import (
    BROKEN,
    PUBACK_REASONS,
    PUBCOMP_REASONS,
    PUBREC_REASONS,
    PUBREL_REASONS,
    Connector,
    Reason,
)
from tests.support import frames

PACKET_BYTES_MAX = 40



@pytest.mark.mqtt("MQTT-3.4.2-1", "MQTT-3.5.2-1", "MQTT-3.7.2-1")
def test_acknowledgements_use_their_own_reason_codes(connect: Connector, name: str) -> None:
    client = connect()
    for topic in (f"{name}/nobody", f"{name}/somebody"):
        client.send(Publish(topic, qos=1, packet_id=1), Publish(topic, qos=2, packet_id=2), Pubrel(2))
        assert client.expect(Puback).reason in PUBACK_REASONS
        assert client.expect(Pubrec).reason in PUBREC_REASONS
        assert client.expect(Pubcomp).reason in PUBCOMP_REASONS
        client.subscribe(f"{name}/other")


@pytest.mark.mqtt("MQTT-3.6.2-1", "MQTT-4.3.3-4")
def test_pubrel_uses_its_own_reason_codes(connect: Connector, name: str) -> None:
    client = connect()
    client.subscribe(name, qos=2)
    client.publish(name, b"x", qos=2)
    message = client.expect(Publish, qos=2)
    client.send(Pubrec(message.packet_id))
    pubrel = client.expect(Pubrel, packet_id=message.packet_id)
    assert pubrel.reason in PUBREL_REASONS
    assert client.last_frame.first_byte == frames.PUBREL


@pytest.mark.mqtt("MQTT-3.7.2-1", "MQTT-4.3.3-11")
def test_a_pubrel_of_an_unknown_packet_id_is_answered_so(connect: Connector) -> None:
    client = connect()
    client.send(Pubrel(4711))
    assert client.expect(Pubcomp, packet_id=4711).reason == Reason.PACKET_IDENTIFIER_NOT_FOUND


@pytest.mark.mqtt("MQTT-3.6.2-1")
def test_a_pubrec_of_an_unknown_packet_id_is_answered_so(connect: Connector) -> None:
    client = connect()
    client.send(Pubrec(4711))
    assert client.expect(Pubrel, packet_id=4711).reason == Reason.PACKET_IDENTIFIER_NOT_FOUND


@pytest.mark.mqtt("MQTT-4.13.1-1")
def test_stray_puback_and_pubcomp_do_no_harm(connect: Connector, name: str) -> None:
    client = connect()
    client.send(Puback(4711), Pubcomp(4712))
    client.subscribe(name, qos=1)
    client.publish(name, b"still here", qos=1)
    client.take(payload=b"still here")


@pytest.mark.mqtt("MQTT-3.4.2-2", "MQTT-3.4.2-3", "MQTT-3.5.2-2", "MQTT-3.5.2-3", "MQTT-3.7.2-2")
@pytest.mark.mqtt("MQTT-3.7.2-3", "MQTT-3.6.2-2", "MQTT-3.6.2-3", "MQTT-3.1.2-24")
def test_acknowledgements_fit_the_packet_size_of_the_client(connect: Connector, name: str) -> None:
    client = connect(maximum_packet_size_bytes=PACKET_BYTES_MAX)
    topic = "/".join([name] * 20)
    client.send(Publish(topic, qos=1, packet_id=1), Publish(topic, qos=2, packet_id=2))
    client.send(Pubrel(2), Pubrel(999), Pubrec(998))
    for kind in (Puback, Pubrec, Pubcomp, Pubcomp, Pubrel):
        client.expect(kind)
        assert client.last_frame.size_bytes <= PACKET_BYTES_MAX


BAD_ACKS: dict[str, bytes] = {
    "PUBACK empty": frames.frame(frames.PUBACK),
    "PUBACK half an id": frames.frame(frames.PUBACK, b"\x00"),
    "PUBREC empty": frames.frame(frames.PUBREC),
    "PUBREL empty": frames.frame(frames.PUBREL),
    "PUBCOMP empty": frames.frame(frames.PUBCOMP),
    "PUBACK with an alien reason": frames.frame(frames.PUBACK, frames.u16(1), b"\x7b"),
    "PUBREL with a PUBACK reason": frames.frame(frames.PUBREL, frames.u16(1), b"\x10"),
    "PUBACK with an alien property": frames.frame(
        frames.PUBACK, frames.u16(1), b"\x00", frames.props(b"\x23\x00\x01")
    ),
    "PUBREC with two reason strings": frames.frame(
        frames.PUBREC, frames.u16(1), b"\x00", frames.props((b"\x1f" + frames.blob("a")) * 2)
    ),
    "PUBACK with properties cut": frames.frame(frames.PUBACK, frames.u16(1), b"\x00", b"\x05"),
}


@pytest.mark.mqtt("MQTT-4.13.1-1")
@pytest.mark.parametrize("packet", BAD_ACKS.values(), ids=BAD_ACKS.keys())
def test_a_broken_acknowledgement_closes(connect: Connector, packet: bytes) -> None:
    client = connect()
    client.send_bytes(packet)
    client.expect_disconnect(*BROKEN)


@pytest.mark.mqtt("MQTT-4.3.2-3", "MQTT-4.3.3-4")
@pytest.mark.parametrize("tail", [b"", b"\x00", b"\x00\x00"], ids=["short", "reason", "in full"])
def test_all_forms_of_an_acknowledgement_are_understood(connect: Connector, name: str, tail: bytes) -> None:
    client = connect(receive_maximum=1)
    client.subscribe(name, qos=2)
    for qos in (1, 2):
        client.publish(name, b"x", qos=qos)
    first = client.expect(Publish, qos=1)
    client.send_bytes(frames.frame(frames.PUBACK, frames.u16(first.packet_id), tail))
    second: Packet = client.expect(Publish, qos=2)
    identifier = frames.u16(second.packet_id)  # type: ignore[union-attr]
    client.send_bytes(frames.frame(frames.PUBREC, identifier, tail))
    client.expect(Pubrel)
    client.send_bytes(frames.frame(frames.PUBCOMP, identifier, tail))
    client.expect_nothing()
    client.publish(name, b"the slot is free again", qos=1)
    client.expect(Publish, payload=b"the slot is free again")
