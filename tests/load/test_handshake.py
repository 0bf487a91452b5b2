"""The generator's own small codec, read by the broker's."""

import socket
import struct

import pytest

from braidmq.load.handshake import (
    HandshakeError,
    connect_frame,
    publish_template,
    read_connack,
    read_suback,
    subscribe_frame,
    varint,
)
from braidmq.wire import (
    Connack,
    Connect,
    FrameReader,
    Packet,
    Properties,
    Publish,
    Suback,
    Subscribe,
    decode,
    encode,
)

VERSIONS = [4, 5]


def decoded(frame: bytes, version: int) -> Packet:
    reader = FrameReader(1 << 20)
    reader.feed(frame)
    ((first_byte, body),) = reader.frames()
    return decode(first_byte, body, version)


def answered(frame: bytes) -> socket.socket:
    """A socket from which the frame can be read; after it the peer is gone."""
    near, far = socket.socketpair()
    with far:
        far.sendall(frame)
    return near


@pytest.mark.parametrize("version", VERSIONS)
def test_connect(version: int) -> None:
    packet = decoded(connect_frame("someone", version, 1000), version)
    assert isinstance(packet, Connect)
    assert (packet.client_id, packet.version, packet.clean_start) == ("someone", version, True)
    assert packet.properties.receive_maximum == (1000 if version == 5 else None)


def test_connect_for_a_session_that_lasts() -> None:
    packet = decoded(connect_frame("someone", 5, 1000, 60), 5)
    assert isinstance(packet, Connect)
    assert (packet.properties.session_expiry_s, packet.properties.receive_maximum) == (60, 1000)


@pytest.mark.parametrize("version", VERSIONS)
def test_subscribe(version: int) -> None:
    packet = decoded(subscribe_frame("a/+", 2, version), version)
    assert isinstance(packet, Subscribe)
    assert [(one.filter, one.qos) for one in packet.subscriptions] == [("a/+", 2)]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("payload_bytes", [16, 100, 1024, 16384])
def test_publish_with_its_holes_filled(version: int, qos: int, payload_bytes: int) -> None:
    frame, id_at, payload_at = publish_template("a/b", qos, payload_bytes, version)
    filled = bytearray(frame)
    if qos:
        filled[id_at : id_at + 2] = struct.pack(">H", 0x1234)
    filled[payload_at : payload_at + 16] = b"0123456789abcdef"
    packet = decoded(bytes(filled), version)
    assert isinstance(packet, Publish)
    assert (packet.topic, packet.qos, packet.packet_id) == ("a/b", qos, 0x1234 if qos else 0)
    assert packet.payload == b"0123456789abcdef" + bytes(payload_bytes - 16)


@pytest.mark.parametrize(("value", "encoded"), [(0, "00"), (127, "7f"), (128, "8001"), (2097152, "80808001")])
def test_varint(value: int, encoded: str) -> None:
    assert varint(value).hex() == encoded


def test_the_receive_maximum_is_found_among_all_properties() -> None:
    properties = Properties(
        session_expiry_s=5, assigned_client_id="x" * 200, server_keep_alive_s=7, reason_string="fine",
        receive_maximum=77, topic_alias_maximum=3, user_properties=(("a", "b"), ("c", "")),
        maximum_packet_size_bytes=9, shared_subscription_available=True,
    )
    with answered(encode(Connack(properties=properties), 5)) as connection:
        assert read_connack(connection, 5) == 77


@pytest.mark.parametrize("version", VERSIONS)
def test_a_broker_that_says_nothing_grants_all(version: int) -> None:
    with answered(encode(Connack(), version)) as connection:
        assert read_connack(connection, version) == 65535


def test_what_is_not_granted_is_an_error() -> None:
    with answered(encode(Connack(reason=0x87), 5)) as refused, pytest.raises(HandshakeError, match="0087"):
        read_connack(refused, 5)
    with answered(encode(Suback(1, (0,)), 5)) as downgraded, pytest.raises(HandshakeError, match="QoS 1"):
        read_suback(downgraded, 1)
    with answered(b"\x20") as gone, pytest.raises(HandshakeError, match="closed"):
        read_connack(gone, 5)
