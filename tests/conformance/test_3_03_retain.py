"""Sections 3.3.1.3 and 3.8.3.1: retained messages, retain handling, retain as published."""

from __future__ import annotations

import pytest

from braidmq.wire import Publish, Subscription
from tests.conformance.kit import Connector, Reason


@pytest.mark.mqtt("MQTT-3.3.1-5")
@pytest.mark.mqtt311("MQTT-3.3.1-5", "MQTT-3.3.1-6", "MQTT-3.3.1-7", "MQTT-3.3.1-8")
@pytest.mark.parametrize("version", [3, 4, 5])
def test_the_last_retained_message_greets_a_new_subscriber(
    connect: Connector, name: str, version: int
) -> None:
    publisher, subscriber = connect(version=version), connect(version=version)
    publisher.publish(name, b"first", qos=1, retain=True)
    publisher.publish(name, b"second", qos=0, retain=True)
    subscriber.subscribe(name, qos=1)
    subscriber.take(topic=name, payload=b"second", qos=0, retain=True, dup=False)
    subscriber.expect_nothing()


@pytest.mark.mqtt("MQTT-3.3.1-6", "MQTT-3.3.1-7")
@pytest.mark.mqtt311("MQTT-3.3.1-10", "MQTT-3.3.1-11")
@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_an_empty_payload_deletes_the_retained_message(
    connect: Connector, name: str, qos: int, version: int
) -> None:
    publisher, early, late = connect(version=version), connect(version=version), connect(version=version)
    publisher.publish(name, b"kept", qos=1, retain=True)
    early.subscribe(name, qos=2)
    early.take(payload=b"kept")
    publisher.publish(name, b"", qos=qos, retain=True)
    early.take(payload=b"", retain=False)
    late.subscribe(name, qos=2)
    late.expect_nothing()


@pytest.mark.mqtt("MQTT-3.3.1-7")
def test_an_empty_retained_message_alone_is_not_kept(connect: Connector, name: str) -> None:
    client = connect()
    client.publish(name, b"", qos=1, retain=True)
    client.subscribe(name)
    client.expect_nothing()


@pytest.mark.mqtt("MQTT-3.3.1-8")
@pytest.mark.mqtt311("MQTT-3.3.1-12")
@pytest.mark.parametrize("version", [3, 4, 5])
def test_without_the_flag_nothing_is_kept_or_replaced(
    connect: Connector, name: str, version: int
) -> None:
    client = connect(version=version)
    client.publish(f"{name}/kept", b"kept", retain=True)
    client.publish(f"{name}/kept", b"passing", qos=1)
    client.publish(f"{name}/kept", b"", qos=1)
    client.publish(f"{name}/other", b"passing", qos=1)
    client.subscribe(f"{name}/+")
    client.take(topic=f"{name}/kept", payload=b"kept", retain=True)
    client.expect_nothing()


@pytest.mark.mqtt("MQTT-3.3.1-9", "MQTT-3.8.4-4")
def test_retain_handling_0_sends_at_every_subscribe(connect: Connector, name: str) -> None:
    client = connect()
    client.publish(name, b"kept", retain=True)
    for _ in range(2):
        client.subscribe(Subscription(name, retain_handling=0))
        client.take(payload=b"kept", retain=True)


@pytest.mark.mqtt("MQTT-3.3.1-10")
def test_retain_handling_1_sends_to_new_subscriptions_only(connect: Connector, name: str) -> None:
    client = connect()
    client.publish(name, b"kept", retain=True)
    client.subscribe(Subscription(name, retain_handling=1))
    client.take(payload=b"kept", retain=True)
    client.subscribe(Subscription(name, qos=1, retain_handling=1))
    client.expect_nothing()
    client.unsubscribe(name)
    client.subscribe(Subscription(name, retain_handling=1))
    client.take(payload=b"kept", retain=True)


@pytest.mark.mqtt("MQTT-3.3.1-10")
def test_retain_handling_1_knows_the_subscriptions_of_a_resumed_session(
    connect: Connector, name: str
) -> None:
    first = connect(name, session_expiry_s=30)
    first.publish(f"{name}/t", b"kept", retain=True)
    first.subscribe(f"{name}/t")
    first.take(payload=b"kept")
    first.disconnect()
    second = connect(name, clean_start=False)
    second.expect_nothing()
    second.subscribe(Subscription(f"{name}/t", retain_handling=1))
    second.expect_nothing()


@pytest.mark.mqtt("MQTT-3.3.1-11")
def test_retain_handling_2_sends_none(connect: Connector, name: str) -> None:
    client = connect()
    client.publish(name, b"kept", retain=True)
    client.subscribe(Subscription(name, retain_handling=2))
    client.expect_nothing()


@pytest.mark.mqtt("MQTT-3.3.1-12")
@pytest.mark.mqtt311("MQTT-3.3.1-9")
@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("retain", [False, True])
def test_without_retain_as_published_the_flag_is_cleared(
    connect: Connector, name: str, retain: bool, version: int
) -> None:
    client = connect(version=version)
    client.subscribe(name)
    client.publish(name, b"x", retain=retain)
    client.take(payload=b"x", retain=False)


@pytest.mark.mqtt("MQTT-3.3.1-13")
@pytest.mark.parametrize("retain", [False, True])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_with_retain_as_published_the_flag_stays(
    connect: Connector, name: str, retain: bool, qos: int
) -> None:
    client = connect()
    client.subscribe(Subscription(name, 2, retain_as_published=True))
    client.publish(name, b"x", qos=qos, retain=retain)
    client.take(payload=b"x", retain=retain)


@pytest.mark.mqtt("MQTT-3.3.1-9", "MQTT-3.3.1-5", "MQTT-3.8.4-8")
def test_retained_messages_come_at_the_lower_qos(connect: Connector, name: str) -> None:
    client = connect()
    for published in range(3):
        client.publish(f"{name}/{published}", b"kept", qos=published, retain=True)
        for granted in range(3):
            client.subscribe(f"{name}/{published}", qos=granted)
            client.take(qos=min(published, granted), retain=True)


@pytest.mark.mqtt("MQTT-3.3.1-9")
@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("#", {"a", "a/b", "a/b/c", "a/x/c", "d/b/c"}),
        ("+", {"a"}),
        ("a/#", {"a", "a/b", "a/b/c", "a/x/c"}),
        ("a/+/c", {"a/b/c", "a/x/c"}),
        ("+/b/#", {"a/b", "a/b/c", "d/b/c"}),
        ("+/+/c", {"a/b/c", "a/x/c", "d/b/c"}),
        ("a/b", {"a/b"}),
        ("a/b/c/#", {"a/b/c"}),
        ("a/b/c/+", set()),
    ],
)
def test_wildcards_find_the_retained_messages(
    connect: Connector, name: str, wanted: str, found: set[str]
) -> None:
    client = connect()
    for topic in ("a", "a/b", "a/b/c", "a/x/c", "d/b/c"):
        client.publish(f"{name}/{topic}", b"kept", retain=True)
    client.subscribe(f"{name}/{wanted}")
    arrived = [packet for packet in client.barrier() if isinstance(packet, Publish)]
    assert sorted(message.topic for message in arrived) == sorted(f"{name}/{topic}" for topic in found)
    assert all(message.retain for message in arrived)


@pytest.mark.mqtt("MQTT-3.3.1-9")
def test_a_shared_subscription_gets_no_retained_messages(connect: Connector, name: str) -> None:
    client = connect()
    client.publish(name, b"kept", retain=True)
    client.subscribe(f"$share/{name}/{name}")
    client.expect_nothing()


@pytest.mark.mqtt("MQTT-3.3.1-5")
@pytest.mark.mqtt311("MQTT-3.1.2.7")
def test_retained_messages_outlive_the_session_that_sent_them(connect: Connector, name: str) -> None:
    for version in (4, 5):
        sender = connect(f"{name}x", version=version)
        assert sender.publish(f"{name}/{version}", b"kept", qos=1, retain=True) in (
            Reason.SUCCESS,
            Reason.NO_MATCHING_SUBSCRIBERS,
        )
        sender.disconnect()
        reader = connect()
        reader.subscribe(f"{name}/{version}")
        reader.take(payload=b"kept", retain=True)


@pytest.mark.mqtt("MQTT-3.3.1-9", "MQTT-3.3.4-3")
def test_retained_messages_carry_the_subscription_identifier(connect: Connector, name: str) -> None:
    client = connect()
    client.publish(name, b"kept", retain=True)
    client.subscribe(name, subscription_identifiers=(9,))
    assert client.take(retain=True).properties.subscription_identifiers == (9,)
