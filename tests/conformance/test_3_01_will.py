"""Sections 3.1.2.5, 3.1.3.2 and 3.14.4: the will, its properties, its delay, and what cancels it."""

from __future__ import annotations

import pytest

from braidmq.wire import Connect, Disconnect, Properties, Publish, Subscription, Will
from tests.conformance.kit import Connector, Dial, Elapse, Reason
from tests.support import frames


@pytest.mark.mqtt("MQTT-3.1.2-7", "MQTT-3.1.2-8", "MQTT-3.1.2-12")
@pytest.mark.mqtt311("MQTT-3.1.2-8")
@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_the_will_is_published_when_the_connection_breaks(
    connect: Connector, name: str, qos: int, version: int
) -> None:
    witness = connect()
    witness.subscribe(name, qos=2)
    connect(version=version, will=Will(name, b"gone", qos)).drop()
    witness.take(topic=name, payload=b"gone", qos=qos, retain=False)


@pytest.mark.mqtt("MQTT-3.1.2-8", "MQTT-3.1.2-10", "MQTT-3.14.4-3")
@pytest.mark.mqtt311("MQTT-3.1.2-10", "MQTT-3.14.4-3")
@pytest.mark.parametrize("version", [3, 4, 5])
def test_a_normal_disconnect_deletes_the_will(connect: Connector, name: str, version: int) -> None:
    witness = connect()
    witness.subscribe(name)
    connect(version=version, will=Will(name, b"gone")).disconnect()
    witness.expect_nothing()


@pytest.mark.mqtt("MQTT-3.1.2-8", "MQTT-3.14.4-3")
@pytest.mark.parametrize("reason", [Reason.DISCONNECT_WITH_WILL, Reason.UNSPECIFIED_ERROR])
def test_a_disconnect_with_another_reason_publishes_the_will(
    connect: Connector, name: str, reason: int
) -> None:
    witness = connect()
    witness.subscribe(name)
    connect(will=Will(name, b"gone")).disconnect(reason)
    witness.take(payload=b"gone")


@pytest.mark.mqtt("MQTT-3.1.2-8", "MQTT-4.13.1-1")
def test_a_protocol_error_publishes_the_will(connect: Connector, name: str) -> None:
    witness = connect()
    witness.subscribe(name)
    offender = connect(will=Will(name, b"gone"))
    offender.send(Connect(offender.client_id))
    offender.expect_disconnect(Reason.PROTOCOL_ERROR)
    witness.take(payload=b"gone")


@pytest.mark.mqtt("MQTT-3.1.2-10", "MQTT-3.1.2-8")
def test_a_published_will_is_not_published_again(connect: Connector, name: str) -> None:
    witness = connect()
    witness.subscribe(name)
    connect(f"{name}x", will=Will(name, b"gone"), session_expiry_s=30).drop()
    witness.take(payload=b"gone")
    connect(f"{name}x", clean_start=False).drop()
    witness.expect_nothing()


@pytest.mark.mqtt("MQTT-3.1.2-14")
@pytest.mark.mqtt311("MQTT-3.1.2-16")
def test_a_will_without_retain_is_not_retained(connect: Connector, name: str) -> None:
    witness = connect()
    witness.subscribe(name)
    connect(will=Will(name, b"gone", retain=False)).drop()
    witness.take(payload=b"gone", retain=False)
    late = connect()
    late.subscribe(name)
    late.expect_nothing()


@pytest.mark.mqtt("MQTT-3.1.2-15")
@pytest.mark.mqtt311("MQTT-3.1.2-17")
@pytest.mark.parametrize("version", [3, 4, 5])
def test_a_will_with_retain_is_retained(connect: Connector, name: str, version: int) -> None:
    witness = connect()
    witness.subscribe(name)
    connect(version=version, will=Will(name, b"gone", retain=True)).drop()
    witness.take(payload=b"gone", retain=False)
    late = connect()
    late.subscribe(name)
    late.take(payload=b"gone", retain=True)


@pytest.mark.mqtt("MQTT-3.1.2-9", "MQTT-3.1.3-10", "MQTT-3.3.2-4", "MQTT-3.3.2-15", "MQTT-3.3.2-16")
@pytest.mark.mqtt("MQTT-3.3.2-17", "MQTT-3.3.2-18", "MQTT-3.3.2-20")
def test_the_properties_of_the_will_arrive(connect: Connector, name: str) -> None:
    properties = Properties(
        payload_format=1,
        message_expiry_s=60,
        content_type="text/plain",
        response_topic=f"{name}/answer",
        correlation_data=b"\x00\xff",
        user_properties=(("b", "1"), ("a", "2"), ("b", "1")),
        will_delay_s=0,
    )
    witness = connect()
    witness.subscribe(name, qos=1)
    connect(will=Will(name, b"gone", 1, properties=properties)).drop()
    arrived = witness.take(topic=name, payload=b"gone", qos=1).properties
    for field in ("payload_format", "content_type", "response_topic", "correlation_data", "user_properties"):
        assert getattr(arrived, field) == getattr(properties, field)
    assert 0 < (arrived.message_expiry_s or 0) <= 60
    assert arrived.will_delay_s is None


@pytest.mark.mqtt("MQTT-3.1.2-8", "MQTT-3.1.2-7")
def test_the_will_waits_for_its_delay(connect: Connector, elapse: Elapse, name: str) -> None:
    witness = connect()
    witness.subscribe(name)
    will = Will(name, b"gone", properties=Properties(will_delay_s=1))
    connect(will=will, session_expiry_s=30).drop()
    witness.expect_nothing()
    elapse()
    witness.take(payload=b"gone")


@pytest.mark.mqtt("MQTT-3.1.3-9", "MQTT-3.1.2-8")
def test_a_resumed_session_cancels_the_delayed_will(connect: Connector, elapse: Elapse, name: str) -> None:
    witness = connect()
    witness.subscribe(name)
    will = Will(name, b"gone", properties=Properties(will_delay_s=1))
    connect(f"{name}x", will=will, session_expiry_s=30).drop()
    again = connect(f"{name}x", clean_start=False, session_expiry_s=30)
    assert again.connack.session_present
    elapse()
    witness.expect_nothing()


@pytest.mark.mqtt("MQTT-3.1.2-8")
def test_the_will_is_published_when_the_session_ends_before_the_delay(connect: Connector, name: str) -> None:
    witness = connect()
    witness.subscribe(name)
    will = Will(name, b"gone", properties=Properties(will_delay_s=1000))
    connect(f"{name}x", will=will, session_expiry_s=0).drop()
    witness.take(payload=b"gone")


@pytest.mark.mqtt("MQTT-3.1.2-8")
def test_the_will_is_published_when_the_session_expires_before_the_delay(
    connect: Connector, elapse: Elapse, name: str
) -> None:
    witness = connect()
    witness.subscribe(name)
    will = Will(name, b"gone", properties=Properties(will_delay_s=1000))
    connect(f"{name}x", will=will, session_expiry_s=1).drop()
    elapse()
    witness.take(payload=b"gone")


@pytest.mark.mqtt("MQTT-3.1.2-8", "MQTT-3.1.2-4")
def test_a_clean_start_ends_the_session_and_so_publishes_the_will(connect: Connector, name: str) -> None:
    witness = connect()
    witness.subscribe(name)
    will = Will(name, b"gone", properties=Properties(will_delay_s=1000))
    connect(f"{name}x", will=will, session_expiry_s=2000).drop()
    witness.expect_nothing()
    connect(f"{name}x", clean_start=True)
    witness.take(payload=b"gone")


@pytest.mark.mqtt("MQTT-3.1.4-3", "MQTT-3.1.2-8")
def test_a_takeover_publishes_the_will_without_delay(connect: Connector, name: str) -> None:
    witness = connect()
    witness.subscribe(name)
    first = connect(f"{name}x", will=Will(name, b"gone"), session_expiry_s=30)
    connect(f"{name}x", clean_start=False, session_expiry_s=30)
    first.expect_disconnect(Reason.SESSION_TAKEN_OVER)
    witness.take(payload=b"gone")


@pytest.mark.mqtt("MQTT-3.1.3-9")
def test_a_takeover_that_resumes_cancels_a_delayed_will(
    connect: Connector, elapse: Elapse, name: str
) -> None:
    witness = connect()
    witness.subscribe(name)
    will = Will(name, b"gone", properties=Properties(will_delay_s=1))
    connect(f"{name}x", will=will, session_expiry_s=30)
    connect(f"{name}x", clean_start=False, session_expiry_s=30)
    elapse()
    witness.expect_nothing()


@pytest.mark.mqtt("MQTT-3.1.2-9", "MQTT-3.3.1-7")
def test_an_empty_will_payload_is_a_message_and_clears_the_retained_one(
    connect: Connector, name: str
) -> None:
    witness, late = connect(), connect()
    witness.publish(name, b"kept", retain=True)
    witness.subscribe(Subscription(name, retain_handling=2))
    connect(will=Will(name, b"", retain=True)).drop()
    witness.take(payload=b"")
    late.subscribe(name)
    late.expect_nothing()


@pytest.mark.mqtt("MQTT-3.1.3-11", "MQTT-4.7.0-1")
@pytest.mark.parametrize("topic", ["a/+", "#", ""])
def test_a_will_topic_that_is_no_topic_is_refused(dial: Dial, name: str, topic: str) -> None:
    client = dial()
    client.send_bytes(
        frames.connect(
            frames.blob(name),
            b"\x00",
            frames.blob(topic),
            frames.blob("gone"),
            flags=frames.CLEAN | frames.WILL_FLAG,
        )
    )
    client.expect_refused(Reason.TOPIC_NAME_INVALID, Reason.MALFORMED_PACKET, Reason.PROTOCOL_ERROR)


@pytest.mark.mqtt("MQTT-3.1.2-10")
def test_the_will_of_a_disconnect_pipelined_with_publishes(connect: Connector, name: str) -> None:
    witness = connect()
    witness.subscribe(name, qos=1)
    leaving = connect(will=Will(name, b"gone"))
    leaving.send(Publish(name, b"last"), Disconnect())
    leaving.drain()
    witness.take(payload=b"last")
    witness.expect_nothing()
