"""Sections 3.1.2.4, 3.1.2.11.2 and 4.1: clean start, session expiry, what a session keeps and how long."""

from __future__ import annotations

import pytest

from braidmq.wire import Connack, Publish
from tests.conformance.kit import Connector, Dial, Elapse, Reason
from tests.support import frames
from tests.support.broker import Broker


@pytest.mark.mqtt("MQTT-3.1.2-4", "MQTT-3.1.4-4", "MQTT-3.2.2-2")
def test_clean_start_discards_the_session(connect: Connector, name: str) -> None:
    publisher, first = connect(), connect(name, session_expiry_s=30)
    first.subscribe(f"{name}/t", qos=1)
    first.disconnect()
    publisher.publish(f"{name}/t", b"for the old session", qos=1)
    second = connect(name, clean_start=True, session_expiry_s=30)
    assert not second.connack.session_present
    publisher.publish(f"{name}/t", b"no subscription any more", qos=1)
    second.expect_nothing()


@pytest.mark.mqtt("MQTT-3.1.2-5", "MQTT-3.2.2-3", "MQTT-3.1.2-23", "MQTT-3.1.4-4", "MQTT-4.5.0-1")
@pytest.mark.parametrize("qos", [1, 2])
def test_a_session_resumes_with_what_came_meanwhile(connect: Connector, name: str, qos: int) -> None:
    publisher, first = connect(), connect(name, session_expiry_s=30)
    first.subscribe(f"{name}/t", qos=2)
    first.disconnect()
    for number in range(5):
        publisher.publish(f"{name}/t", b"%d" % number, qos=qos)
    second = connect(name, clean_start=False, session_expiry_s=30)
    assert second.connack.session_present
    for number in range(5):
        second.take(payload=b"%d" % number, qos=qos, dup=False)
    second.expect_nothing()


@pytest.mark.mqtt("MQTT-3.1.2-6", "MQTT-3.2.2-3", "MQTT-3.1.4-4")
def test_without_a_session_a_new_one_is_made(connect: Connector, name: str) -> None:
    client = connect(name, clean_start=False)
    assert not client.connack.session_present
    client.subscribe(name, qos=1)
    client.publish(name, b"new session", qos=1)
    client.take(payload=b"new session")


@pytest.mark.mqtt("MQTT-3.1.2-23", "MQTT-4.1.0-2")
@pytest.mark.parametrize("options", [{}, {"session_expiry_s": 0}], ids=["absent", "zero"])
def test_without_expiry_interval_the_session_ends_with_the_connection(
    connect: Connector, name: str, options: dict[str, int]
) -> None:
    connect(name, **options).disconnect()
    assert not connect(name, clean_start=False).connack.session_present


@pytest.mark.mqtt("MQTT-4.1.0-2")
def test_the_session_ends_when_its_expiry_interval_has_passed(
    connect: Connector, elapse: Elapse, name: str
) -> None:
    connect(name, session_expiry_s=1).drop()
    elapse()
    assert not connect(name, clean_start=False).connack.session_present


@pytest.mark.mqtt("MQTT-3.1.2-23")
def test_the_longest_expiry_interval_never_expires(connect: Connector, elapse: Elapse, name: str) -> None:
    connect(name, session_expiry_s=0xFFFF_FFFF).drop()
    elapse()
    assert connect(name, clean_start=False, session_expiry_s=0).connack.session_present


@pytest.mark.mqtt("MQTT-4.1.0-1")
def test_a_session_lives_while_it_is_connected_beyond_its_interval(
    connect: Connector, elapse: Elapse, name: str
) -> None:
    client = connect(name, session_expiry_s=1)
    client.subscribe(f"{name}/t", qos=1)
    elapse()
    client.publish(f"{name}/t", b"alive", qos=1)
    client.take(payload=b"alive")
    second = connect(name, clean_start=False)
    assert second.connack.session_present


@pytest.mark.mqtt("MQTT-3.1.2-23", "MQTT-4.1.0-2")
def test_disconnect_can_end_a_kept_session(connect: Connector, name: str) -> None:
    connect(name, session_expiry_s=30).disconnect(session_expiry_s=0)
    assert not connect(name, clean_start=False).connack.session_present


@pytest.mark.mqtt("MQTT-3.1.2-23")
def test_disconnect_can_prolong_a_kept_session(connect: Connector, elapse: Elapse, name: str) -> None:
    connect(name, session_expiry_s=1).disconnect(session_expiry_s=60)
    elapse()
    assert connect(name, clean_start=False).connack.session_present


@pytest.mark.mqtt("MQTT-4.13.1-1")
def test_disconnect_cannot_keep_a_session_of_interval_zero(dial: Dial, name: str) -> None:
    client = dial()
    client.connect(name)
    client.send_bytes(frames.frame(frames.DISCONNECT, b"\x00", frames.props(b"\x11" + frames.u32(30))))
    client.expect_disconnect(Reason.PROTOCOL_ERROR)
    again = dial()
    assert not again.connect(name, clean_start=False).session_present


@pytest.mark.mqtt("MQTT-3.1.3-2")
def test_client_ids_are_told_apart_by_case_and_length(connect: Connector, name: str) -> None:
    connect(name, session_expiry_s=30).disconnect()
    for other in (name.upper(), name + "0", name[:-1] + "_"):
        assert not connect(other, clean_start=False).connack.session_present
    assert connect(name, clean_start=False).connack.session_present


@pytest.mark.mqtt("MQTT-3.2.0-1", "MQTT-3.2.2-1", "MQTT-3.2.2-3")
def test_the_connack_comes_before_kept_messages(dial: Dial, connect: Connector, name: str) -> None:
    publisher, first = connect(), connect(name, session_expiry_s=30)
    first.subscribe(f"{name}/t", qos=1)
    first.disconnect()
    publisher.publish(f"{name}/t", b"kept", qos=1)
    second = dial()
    second.send_bytes(frames.connect(frames.blob(name), flags=0))
    second.expect(Connack, session_present=True, reason=Reason.SUCCESS)
    assert second.last_frame.body[0] == 1
    second.expect(Publish, payload=b"kept")


@pytest.mark.mqtt("MQTT-4.1.0-1")
def test_qos_0_messages_of_a_connected_session_arrive(connect: Connector, name: str) -> None:
    publisher, subscriber = connect(), connect(name, session_expiry_s=30)
    subscriber.subscribe(f"{name}/t", qos=0)
    publisher.publish(f"{name}/t", b"live", qos=0)
    subscriber.take(payload=b"live", qos=0)


@pytest.mark.braidmq_only
def test_the_broker_says_when_it_shortens_the_expiry(small: Broker, connect: Connector, name: str) -> None:
    assert connect(name, to=small, session_expiry_s=101).connack.properties.session_expiry_s == 100
    assert connect(name, to=small, session_expiry_s=99).connack.properties.session_expiry_s is None
