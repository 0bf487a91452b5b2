"""Section 3.2: the CONNACK, its flags, its reason codes and what it says of the broker."""

from __future__ import annotations

import contextlib

import pytest

from braidmq.wire import Connack, Subscription, Will
from tests.conformance.kit import BROKEN, CONNACK_REASONS, Connector, Dial, Reason
from tests.support import frames
from tests.support.broker import Broker
from tests.support.raw import ClosedError, read_frame


@pytest.mark.mqtt("MQTT-3.2.2-1", "MQTT-3.2.2-2", "MQTT-3.2.2-3")
@pytest.mark.mqtt311("MQTT-3.2.2-1", "MQTT-3.2.2-2", "MQTT-3.2.2-3")
@pytest.mark.parametrize("version", [4, 5])
def test_the_flags_byte_holds_session_present_and_nothing_else(
    connect: Connector, name: str, version: int
) -> None:
    kept = {"session_expiry_s": 30} if version == 5 else {}
    first = connect(name, version=version, clean_start=False, **kept)
    assert first.last_frame.body[0] == 0
    first.disconnect()
    resumed = connect(name, version=version, clean_start=False, **kept)
    assert resumed.last_frame.body[0] == 1
    resumed.disconnect()
    clean = connect(name, version=version, clean_start=True)
    assert clean.last_frame.body[0] == 0


@pytest.mark.mqtt("MQTT-3.2.2-6", "MQTT-3.2.2-7", "MQTT-3.2.2-8")
def test_a_refusal_says_no_session_even_if_there_is_one(connect: Connector, dial: Dial, name: str) -> None:
    connect(name, session_expiry_s=30).disconnect()
    refused = dial()
    refused.send_bytes(
        frames.connect(frames.blob(name), flags=0, properties=frames.props(b"\x15" + frames.blob("no such")))
    )
    connack = refused.expect(Connack, session_present=False)
    assert refused.last_frame.body[0] == 0
    assert connack.reason in CONNACK_REASONS
    assert connack.reason >= Reason.UNSPECIFIED_ERROR
    refused.expect_closed()


@pytest.mark.mqtt("MQTT-3.2.2-9", "MQTT-3.2.2-10", "MQTT-3.2.2-12")
def test_all_of_mqtt_is_on_offer(connect: Connector, name: str) -> None:
    client = connect(will=Will(f"{name}/will", b"gone", qos=2, retain=True))
    said = client.connack.properties
    assert said.maximum_qos is None
    for available in (
        said.retain_available,
        said.wildcard_subscription_available,
        said.subscription_identifiers_available,
        said.shared_subscription_available,
    ):
        assert available in (None, 1)
    granted = client.subscribe(f"{name}/#", f"$share/{name}/x", Subscription(name, 2), qos=2)
    assert granted.reasons == (2, 2, 2)
    assert client.publish(name, b"", qos=2, retain=True) == Reason.SUCCESS


@pytest.mark.mqtt("MQTT-3.2.2-19", "MQTT-3.2.2-20", "MQTT-3.1.2-24")
def test_a_refusal_fits_the_packet_size_of_the_client(dial: Dial, name: str) -> None:
    client = dial()
    client.send_bytes(
        frames.connect(
            frames.blob(name),
            properties=frames.props(b"\x27" + frames.u32(8), b"\x15" + frames.blob("no such method")),
        )
    )
    if client.expect_refused(Reason.BAD_AUTHENTICATION_METHOD, Reason.PACKET_TOO_LARGE, *BROKEN):
        assert client.last_frame.size_bytes <= 8


@pytest.mark.mqtt("MQTT-3.1.2-24", "MQTT-3.14.0-1")
@pytest.mark.parametrize("size_bytes", [1, 4, 5, 8, 12, 20, 40])
def test_nothing_larger_than_the_client_takes_is_sent(dial: Dial, name: str, size_bytes: int) -> None:
    client = dial()
    client.send_bytes(
        frames.connect(frames.blob(name), properties=frames.props(b"\x27" + frames.u32(size_bytes)))
        + frames.subscribe(1, (name, 0))
        + b"\xe0\x00"
    )
    with contextlib.suppress(ClosedError):
        while True:
            assert read_frame(client.sock).size_bytes <= size_bytes


@pytest.mark.mqtt("MQTT-3.2.2-15")
def test_a_packet_beyond_the_servers_maximum_closes(small: Broker, connect: Connector, name: str) -> None:
    client = connect(to=small)
    assert client.connack.properties.maximum_packet_size_bytes == 2000
    overhead = 3 + len(frames.blob(name)) + 1
    client.subscribe(name)
    client.publish(name, bytes(2000 - overhead))
    client.take(topic=name)
    client.send_bytes(frames.publish(name, bytes(2001 - overhead)))
    client.expect_disconnect(Reason.PACKET_TOO_LARGE)


@pytest.mark.mqtt("MQTT-3.2.2-17", "MQTT-3.3.2-9")
@pytest.mark.parametrize("alias", [5, 65_535])
def test_an_alias_beyond_the_servers_maximum_closes(
    small: Broker, connect: Connector, name: str, alias: int
) -> None:
    client = connect(to=small)
    assert client.connack.properties.topic_alias_maximum == 4
    client.send_bytes(frames.publish(name, properties=frames.props(b"\x23" + frames.u16(alias))))
    client.expect_disconnect(Reason.TOPIC_ALIAS_INVALID)


@pytest.mark.mqtt("MQTT-3.2.2-18", "MQTT-3.3.2-9")
def test_any_alias_closes_where_there_are_none(bare: Broker, connect: Connector, name: str) -> None:
    client = connect(to=bare)
    assert not client.connack.properties.topic_alias_maximum
    client.send_bytes(frames.publish(name, properties=frames.props(b"\x23\x00\x01")))
    client.expect_disconnect(Reason.TOPIC_ALIAS_INVALID)


@pytest.mark.mqtt("MQTT-3.2.2-13")
def test_a_retained_will_is_refused_where_nothing_is_retained(bare: Broker, dial: Dial, name: str) -> None:
    client = dial(5, bare)
    client.connect(name, will=Will(name, b"gone", retain=True), reason=Reason.RETAIN_NOT_SUPPORTED)
    client.expect_closed()


@pytest.mark.mqtt("MQTT-3.2.2-14")
def test_a_retained_message_closes_where_nothing_is_retained(
    bare: Broker, connect: Connector, name: str
) -> None:
    client = connect(to=bare)
    assert client.connack.properties.retain_available == 0
    client.send_bytes(frames.publish(name, b"x", flags=0x01))
    client.expect_disconnect(Reason.RETAIN_NOT_SUPPORTED)
