"""Sections 3.10 and 3.11: UNSUBSCRIBE and UNSUBACK."""

from __future__ import annotations

import pytest

from braidmq.wire import Puback, Publish, Pubrec, Pubrel
from tests.conformance.kit import BROKEN, UNSUBACK_REASONS, Connector, Reason
from tests.support import frames


@pytest.mark.mqtt("MQTT-3.10.4-1", "MQTT-3.10.4-2", "MQTT-3.10.4-4")
@pytest.mark.mqtt311("MQTT-3.10.4-2")
@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize("suffix", ["t", "+", "#", "+/x/#"])
def test_an_unsubscribed_filter_delivers_no_more(
    connect: Connector, name: str, suffix: str, version: int
) -> None:
    client = connect(version=version)
    client.subscribe(f"{name}/{suffix}")
    client.unsubscribe(f"{name}/{suffix}")
    for topic in ("t", "t/x/y"):
        client.publish(f"{name}/{topic}", b"x")
    client.expect_nothing()


@pytest.mark.mqtt("MQTT-3.10.4-1")
@pytest.mark.mqtt311("MQTT-3.10.4-1")
@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("other", ["#", "T/+", "t/x", "t/", "t/+/", "t/#"])
def test_only_the_very_same_filter_is_deleted(
    connect: Connector, name: str, other: str, version: int
) -> None:
    client = connect(version=version)
    client.subscribe(f"{name}/t/+")
    client.unsubscribe(f"{name}/{other}")
    client.publish(f"{name}/t/x", b"x")
    client.take(topic=f"{name}/t/x")


@pytest.mark.mqtt("MQTT-3.10.4-4", "MQTT-3.10.4-5", "MQTT-3.11.3-1", "MQTT-3.11.3-2", "MQTT-3.10.4-6")
def test_one_unsuback_has_a_reason_for_each_filter_in_order(connect: Connector, name: str) -> None:
    client = connect()
    client.subscribe(f"{name}/a", f"{name}/b")
    unsuback = client.unsubscribe(f"{name}/none", f"{name}/b", f"{name}/b", f"{name}/a")
    missing = Reason.NO_SUBSCRIPTION_EXISTED
    assert unsuback.reasons == (missing, 0, missing, 0)
    assert set(unsuback.reasons) <= UNSUBACK_REASONS
    for topic in ("a", "b"):
        client.publish(f"{name}/{topic}", b"x")
    client.expect_nothing()


@pytest.mark.mqtt311("MQTT-3.10.4-4", "MQTT-3.10.4-5", "MQTT-3.10.4-6")
@pytest.mark.parametrize("version", [3, 4])
def test_below_v5_an_unsuback_has_no_payload(connect: Connector, name: str, version: int) -> None:
    client = connect(version=version)
    client.subscribe(f"{name}/a")
    client.unsubscribe(f"{name}/a", f"{name}/never")
    assert client.last_frame.body == frames.u16(2)
    client.publish(f"{name}/a", b"x")
    client.expect_nothing()


@pytest.mark.mqtt("MQTT-3.10.4-3")
@pytest.mark.mqtt311("MQTT-3.10.4-3")
@pytest.mark.parametrize("version", [4, 5])
def test_messages_under_way_are_delivered_to_the_end(connect: Connector, name: str, version: int) -> None:
    publisher, subscriber = connect(), connect(version=version)
    subscriber.subscribe(name, qos=2)
    publisher.publish(name, b"one", qos=1)
    publisher.publish(name, b"two", qos=2)
    one, two = subscriber.expect(Publish, payload=b"one"), subscriber.expect(Publish, payload=b"two")
    subscriber.unsubscribe(name)
    publisher.publish(name, b"three", qos=1)
    subscriber.send(Puback(one.packet_id), Pubrec(two.packet_id))
    subscriber.expect(Pubrel, packet_id=two.packet_id)
    subscriber.expect_nothing()


@pytest.mark.mqtt("MQTT-3.10.4-3", "MQTT-4.4.0-1")
def test_messages_under_way_are_resent_after_an_unsubscribe(connect: Connector, name: str) -> None:
    publisher, first = connect(), connect(name, session_expiry_s=30)
    first.subscribe(f"{name}/t", qos=1)
    publisher.publish(f"{name}/t", b"x", qos=1)
    message = first.expect(Publish)
    first.unsubscribe(f"{name}/t")
    first.drop()
    second = connect(name, clean_start=False)
    second.take(payload=b"x", dup=True, packet_id=message.packet_id)
    second.expect_nothing()


@pytest.mark.mqtt("MQTT-3.10.3-2", "MQTT-4.13.1-1")
@pytest.mark.mqtt311("MQTT-3.10.3-2")
@pytest.mark.parametrize("version", [4, 5])
def test_an_unsubscribe_without_filters_closes(connect: Connector, version: int) -> None:
    client = connect(version=version)
    client.send_bytes(frames.unsubscribe(1, properties=b"\x00" if version == 5 else b""))
    client.expect_disconnect(*BROKEN)


@pytest.mark.mqtt("MQTT-3.10.4-1")
def test_an_unsubscribe_is_part_of_the_session(connect: Connector, name: str) -> None:
    publisher, first = connect(), connect(name, session_expiry_s=30)
    first.subscribe(f"{name}/a", f"{name}/b", qos=1)
    first.unsubscribe(f"{name}/a")
    first.disconnect()
    for topic in ("a", "b"):
        publisher.publish(f"{name}/{topic}", b"x", qos=1)
    second = connect(name, clean_start=False)
    second.take(topic=f"{name}/b")
    second.expect_nothing()
