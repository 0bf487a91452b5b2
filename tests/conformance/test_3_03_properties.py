"""Section 3.3.2.3: the properties of a PUBLISH on their way through the broker."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.kit import BROKEN, Connector, Elapse, Reason
from tests.support import frames

UNALTERED: dict[str, tuple[str, list[Any]]] = {
    "payload_format": ("MQTT-3.3.2-4", [0, 1]),
    "content_type": ("MQTT-3.3.2-20", ["", "text/plain; charset=ü"]),
    "response_topic": ("MQTT-3.3.2-15", ["a", "answer/ü/😀"]),
    "correlation_data": ("MQTT-3.3.2-16", [b"", b"\x00\xff\x80", bytes(1000)]),
    "user_properties": (
        "MQTT-3.3.2-17",
        [(("k", "v"),), (("z", "1"), ("a", "2"), ("z", "1"), ("", ""), ("a", "1"))],
    ),
}


@pytest.mark.mqtt("MQTT-3.3.2-18")
@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize(
    ("field", "value"),
    [
        pytest.param(field, value, marks=pytest.mark.mqtt(statement), id=f"{field}-{index}")
        for field, (statement, values) in UNALTERED.items()
        for index, value in enumerate(values)
    ],
)
def test_a_property_arrives_unaltered(
    connect: Connector, name: str, field: str, value: Any, qos: int
) -> None:
    client = connect()
    client.subscribe(name, qos=2)
    client.publish(name, b"x", qos=qos, **{field: value})
    assert getattr(client.take(payload=b"x", qos=qos).properties, field) == value


@pytest.mark.mqtt("MQTT-3.3.2-4", "MQTT-3.3.2-15", "MQTT-3.3.2-16", "MQTT-3.3.2-17", "MQTT-3.3.2-18")
@pytest.mark.mqtt("MQTT-3.3.2-20")
def test_properties_survive_in_retained_and_kept_messages(connect: Connector, name: str) -> None:
    sent: dict[str, Any] = {
        "payload_format": 1,
        "content_type": "application/json",
        "response_topic": f"{name}/answer",
        "correlation_data": b"\x01\x02",
        "user_properties": (("b", "1"), ("a", "2"), ("b", "3")),
    }
    publisher, absent = connect(), connect(name, session_expiry_s=30)
    absent.subscribe(f"{name}/t", qos=1)
    absent.disconnect()
    publisher.publish(f"{name}/t", b"x", qos=1, retain=True, **sent)
    late, returned = connect(), connect(name, clean_start=False)
    late.subscribe(f"{name}/t", qos=1)
    for client in (late, returned):
        arrived = client.take(payload=b"x").properties
        assert {field: getattr(arrived, field) for field in sent} == sent


@pytest.mark.mqtt("MQTT-3.3.2-5")
def test_an_expired_message_is_not_delivered(connect: Connector, elapse: Elapse, name: str) -> None:
    publisher, first = connect(), connect(name, session_expiry_s=30)
    first.subscribe(f"{name}/t", qos=2)
    first.disconnect()
    publisher.publish(f"{name}/t", b"short-lived", qos=1, message_expiry_s=1)
    publisher.publish(f"{name}/t", b"short-lived too", qos=2, message_expiry_s=1)
    publisher.publish(f"{name}/t", b"lasting", qos=1, message_expiry_s=100)
    elapse()
    second = connect(name, clean_start=False)
    second.take(payload=b"lasting")
    second.expect_nothing()


@pytest.mark.mqtt("MQTT-3.3.2-5")
def test_a_message_waiting_for_a_slow_client_expires(connect: Connector, elapse: Elapse, name: str) -> None:
    publisher, slow = connect(), connect(receive_maximum=1)
    slow.subscribe(name, qos=1)
    publisher.publish(name, b"in flight", qos=1)
    publisher.publish(name, b"short-lived", qos=1, message_expiry_s=1)
    elapse()
    slow.take(payload=b"in flight")
    slow.expect_nothing()


@pytest.mark.mqtt("MQTT-3.3.2-5")
def test_an_expired_retained_message_is_not_delivered(
    connect: Connector, elapse: Elapse, name: str
) -> None:
    client = connect()
    client.publish(f"{name}/short", b"x", retain=True, message_expiry_s=1)
    client.publish(f"{name}/lasting", b"x", retain=True, message_expiry_s=100)
    elapse()
    client.subscribe(f"{name}/+")
    client.take(topic=f"{name}/lasting")
    client.expect_nothing()


@pytest.mark.mqtt("MQTT-3.3.2-6")
def test_the_expiry_interval_counts_down(connect: Connector, elapse: Elapse, name: str) -> None:
    publisher, live, first = connect(), connect(), connect(name, session_expiry_s=30)
    for client in (live, first):
        client.subscribe(f"{name}/t", qos=1)
    first.disconnect()
    publisher.publish(f"{name}/t", b"x", qos=1, retain=True, message_expiry_s=100)
    assert live.take().properties.message_expiry_s in (99, 100)
    elapse()
    second, late = connect(name, clean_start=False), connect()
    late.subscribe(f"{name}/t", qos=1)
    for client in (second, late):
        assert 0 < (client.take().properties.message_expiry_s or 0) <= 99


@pytest.mark.mqtt("MQTT-3.3.2-6")
def test_a_message_without_expiry_gets_none(connect: Connector, name: str) -> None:
    client = connect()
    client.subscribe(name)
    client.publish(name, b"x")
    assert client.take().properties.message_expiry_s is None


@pytest.mark.mqtt("MQTT-3.3.2-13")
def test_a_response_topic_that_is_not_utf8_closes(connect: Connector, name: str) -> None:
    client = connect()
    client.send_bytes(frames.publish(name, properties=frames.props(b"\x08" + frames.blob(b"\xff"))))
    client.expect_disconnect(Reason.MALFORMED_PACKET)


@pytest.mark.mqtt("MQTT-3.3.2-14")
@pytest.mark.parametrize("response_topic", ["a/+", "#"])
def test_a_response_topic_with_a_wildcard_closes(
    connect: Connector, name: str, response_topic: str
) -> None:
    client = connect()
    client.send_bytes(frames.publish(name, properties=frames.props(b"\x08" + frames.blob(response_topic))))
    client.expect_disconnect(*BROKEN, Reason.TOPIC_NAME_INVALID)


BAD_BLOCKS = {
    "payload format twice": frames.props(b"\x01\x00\x01\x00"),
    "payload format 2": frames.props(b"\x01\x02"),
    "expiry twice": frames.props(b"\x02\x00\x00\x00\x01" * 2),
    "content type twice": frames.props((b"\x03" + frames.blob("a")) * 2),
    "response topic twice": frames.props((b"\x08" + frames.blob("a")) * 2),
    "correlation data twice": frames.props((b"\x09" + frames.blob("a")) * 2),
    "alias twice": frames.props(b"\x23\x00\x01" * 2),
    "a CONNACK property": frames.props(b"\x24\x01"),
    "unknown property": frames.props(b"\x7f\x00"),
    "expiry cut short": frames.props(b"\x02\x00\x00"),
    "longer than the packet": b"\x7f",
}


@pytest.mark.mqtt("MQTT-4.13.1-1")
@pytest.mark.parametrize("block", BAD_BLOCKS.values(), ids=BAD_BLOCKS.keys())
def test_a_broken_property_block_closes(connect: Connector, name: str, block: bytes) -> None:
    client = connect()
    client.send_bytes(frames.publish(name, properties=block))
    client.expect_disconnect(*BROKEN)
