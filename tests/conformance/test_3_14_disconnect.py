"""Section 3.14: DISCONNECT from both sides."""

from __future__ import annotations

import pytest

from braidmq.wire import Disconnect, Will
from tests.conformance.kit import BROKEN, DISCONNECT_REASONS, Connector, Dial, Reason
from tests.support import frames
from tests.support.broker import serve


@pytest.mark.mqtt("MQTT-3.14.4-2", "MQTT-3.14.4-1")
@pytest.mark.parametrize("version", [3, 4, 5])
def test_a_clients_disconnect_is_followed_by_silence(connect: Connector, name: str, version: int) -> None:
    client, publisher = connect(version=version), connect()
    client.subscribe(name)
    client.send_bytes(b"\xe0\x00\xc0\x00")
    client.expect_closed()
    publisher.publish(name, b"too late")


@pytest.mark.mqtt("MQTT-3.14.2-1", "MQTT-3.14.2-2", "MQTT-3.14.2-3", "MQTT-3.14.2-4", "MQTT-3.1.2-24")
def test_the_brokers_disconnect_is_well_made_and_small_enough(connect: Connector, name: str) -> None:
    client = connect(maximum_packet_size_bytes=40, session_expiry_s=30)
    client.send_bytes(frames.publish(f"{name}/+/{'long/' * 30}", b"x"))
    disconnect = client.expect(Disconnect)
    assert disconnect.reason in DISCONNECT_REASONS
    assert disconnect.properties.session_expiry_s is None
    assert client.last_frame.size_bytes <= 40
    client.expect_closed()


@pytest.mark.mqtt("MQTT-3.14.4-1", "MQTT-3.14.4-2", "MQTT-4.13.2-1", "MQTT-4.13.1-1")
def test_nothing_follows_the_brokers_disconnect(connect: Connector, name: str) -> None:
    witness, client = connect(), connect()
    witness.subscribe(name)
    client.send_bytes(frames.publish("bad/#", b"x") + frames.publish(name, b"after the error") + b"\xc0\x00")
    client.expect_disconnect(*BROKEN, Reason.TOPIC_NAME_INVALID)
    witness.expect_nothing()


@pytest.mark.mqtt("MQTT-3.14.2-1", "MQTT-3.14.4-2")
@pytest.mark.braidmq_only
def test_a_broker_that_stops_says_so(dial: Dial, name: str) -> None:
    stopping = serve()
    clients = [dial(version, stopping) for version in (3, 4, 5)]
    for client in clients:
        client.connect(f"{name}v{client.version}", will=Will(name, b"gone"))
    waiting = dial(5, stopping)
    assert stopping.stop() == 0
    for client in clients:
        client.expect_disconnect(Reason.SERVER_SHUTTING_DOWN)
    waiting.expect_closed()


BAD_DISCONNECTS = {
    "alien reason": frames.frame(frames.DISCONNECT, b"\x7b"),
    "alien property": frames.frame(frames.DISCONNECT, b"\x00", frames.props(b"\x23\x00\x01")),
    "session expiry twice": frames.frame(
        frames.DISCONNECT, b"\x00", frames.props((b"\x11" + frames.u32(1)) * 2)
    ),
    "properties cut": frames.frame(frames.DISCONNECT, b"\x00", b"\x05\x11"),
}


@pytest.mark.mqtt("MQTT-4.13.1-1")
@pytest.mark.parametrize("packet", BAD_DISCONNECTS.values(), ids=BAD_DISCONNECTS.keys())
def test_a_broken_disconnect_is_an_error(connect: Connector, packet: bytes) -> None:
    client = connect(session_expiry_s=30)
    client.send_bytes(packet)
    client.expect_disconnect(*BROKEN)


@pytest.mark.mqtt("MQTT-3.14.4-3")
@pytest.mark.parametrize(
    "packet",
    [
        b"\xe0\x00",
        b"\xe0\x01\x00",
        b"\xe0\x02\x00\x00",
        frames.frame(frames.DISCONNECT, b"\x00", frames.props(b"\x1f" + frames.blob("bye"))),
    ],
    ids=["empty", "reason", "reason and length", "reason string"],
)
def test_all_forms_of_a_disconnect_are_understood(connect: Connector, packet: bytes) -> None:
    client = connect()
    client.send_bytes(packet)
    client.expect_closed()


@pytest.mark.mqtt("MQTT-4.13.1-1")
@pytest.mark.parametrize(
    "packet",
    [
        b"\x20\x03\x00\x00\x00",
        frames.frame(frames.SUBACK, frames.u16(1), b"\x00\x00"),
        frames.frame(frames.UNSUBACK, frames.u16(1), b"\x00\x00"),
        b"\xd0\x00",
    ],
    ids=["CONNACK", "SUBACK", "UNSUBACK", "PINGRESP"],
)
@pytest.mark.parametrize("version", [4, 5])
def test_packets_only_a_server_sends_close(connect: Connector, packet: bytes, version: int) -> None:
    client = connect(version=version)
    client.send_bytes(packet)
    client.expect_disconnect(*BROKEN)
