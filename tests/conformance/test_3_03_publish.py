"""Section 3.3: flags and topic of PUBLISH, subscription identifiers, what the broker answers."""

from __future__ import annotations

import pytest

from braidmq.wire import Puback, Publish, Pubrec, Subscription
from tests.conformance.kit import BROKEN, Connector, Reason, assert_serving
from tests.support import frames
from tests.support.broker import Broker


@pytest.mark.mqtt("MQTT-3.3.1-4", "MQTT-4.13.1-1")
@pytest.mark.mqtt311("MQTT-3.3.1-4")
@pytest.mark.parametrize("version", [3, 4, 5])
def test_qos_3_closes(broker: Broker, connect: Connector, name: str, version: int) -> None:
    client = connect(version=version)
    block = b"\x00" if version == 5 else b""
    client.send_bytes(frames.publish(name, b"x", flags=0x06, packet_id=1, properties=block))
    client.expect_disconnect(*BROKEN)
    assert_serving(broker)


@pytest.mark.mqtt("MQTT-3.3.1-3", "MQTT-4.3.2-2")
@pytest.mark.mqtt311("MQTT-3.3.1-3")
@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("qos", [1, 2])
def test_dup_of_the_publisher_is_not_passed_on(connect: Connector, name: str, qos: int, version: int) -> None:
    publisher, subscriber = connect(version=version), connect(version=version)
    subscriber.subscribe(name, qos=2)
    publisher.publish(name, b"said twice", qos=qos, dup=True)
    subscriber.take(payload=b"said twice", qos=qos, dup=False)


@pytest.mark.mqtt("MQTT-3.3.2-2", "MQTT-4.7.0-1", "MQTT-4.13.1-1")
@pytest.mark.mqtt311("MQTT-3.3.2-2", "MQTT-4.7.1-1")
@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("topic", ["a/+/b", "a/#", "+", "#", "a+b", "a#"])
def test_a_wildcard_in_a_topic_name_closes(
    broker: Broker, connect: Connector, topic: str, version: int
) -> None:
    witness, client = connect(), connect(version=version)
    witness.subscribe(Subscription("#", retain_handling=2))
    client.send_bytes(frames.publish(topic, b"x", properties=b"\x00" if version == 5 else b""))
    client.expect_disconnect(*BROKEN, Reason.TOPIC_NAME_INVALID)
    witness.expect_nothing()
    assert_serving(broker)


@pytest.mark.mqtt("MQTT-4.7.3-1", "MQTT-3.3.2-8")
@pytest.mark.mqtt311("MQTT-4.7.3-1")
@pytest.mark.parametrize("version", [4, 5])
def test_an_empty_topic_without_alias_closes(connect: Connector, version: int) -> None:
    client = connect(version=version)
    client.send_bytes(frames.publish("", b"x", properties=b"\x00" if version == 5 else b""))
    client.expect_disconnect(*BROKEN, Reason.TOPIC_NAME_INVALID)


@pytest.mark.mqtt("MQTT-3.3.2-1", "MQTT-4.13.1-1")
@pytest.mark.parametrize(
    "packet",
    [b"\x30\x00", b"\x30\x01\x00", b"\x30\x03\x00\x05a", b"\x32\x04\x00\x01a\x00", b"\x30\x03\x00\x01a"],
    ids=["empty", "half a length", "topic cut", "packet id cut", "no property length"],
)
def test_a_publish_cut_short_closes(broker: Broker, connect: Connector, packet: bytes) -> None:
    client = connect()
    client.send_bytes(packet)
    client.expect_disconnect(*BROKEN)
    assert_serving(broker)


@pytest.mark.mqtt("MQTT-3.3.2-3")
def test_the_topic_that_arrives_is_the_one_published(connect: Connector, name: str) -> None:
    client = connect()
    client.subscribe(f"{name}/+/#")
    for topic in (f"{name}/ü/Ω", f"{name}//", f"{name}/a b/c", f"{name}/😀"):
        client.publish(topic, b"x")
        client.take(topic=topic)


@pytest.mark.mqtt("MQTT-3.3.4-1", "MQTT-4.3.2-4", "MQTT-4.3.3-8")
def test_each_qos_is_answered_with_its_own_packet(connect: Connector, name: str) -> None:
    client = connect()
    client.send(*(Publish(name, b"x", qos, packet_id=8 + qos if qos else 0) for qos in (0, 1, 2)))
    client.expect(Puback, packet_id=9)
    client.expect(Pubrec, packet_id=10)
    client.expect_nothing()


@pytest.mark.mqtt("MQTT-3.4.2-1", "MQTT-3.5.2-1")
@pytest.mark.parametrize("qos", [1, 2])
def test_no_matching_subscribers_is_said(connect: Connector, name: str, qos: int) -> None:
    client = connect()
    assert client.publish(f"{name}/nobody", b"x", qos=qos) == Reason.NO_MATCHING_SUBSCRIBERS
    client.subscribe(f"{name}/somebody", qos=2)
    assert client.publish(f"{name}/somebody", b"x", qos=qos) == Reason.SUCCESS


@pytest.mark.mqtt("MQTT-3.3.4-6", "MQTT-4.13.1-1")
def test_a_publish_with_a_subscription_identifier_closes(connect: Connector, name: str) -> None:
    client = connect()
    client.send_bytes(frames.publish(name, b"x", properties=frames.props(b"\x0b\x05")))
    client.expect_disconnect(Reason.PROTOCOL_ERROR)


def received_by(
    connect: Connector, subscriptions: list[tuple[Subscription, int]], topic: str
) -> list[Publish]:
    """What a client with these subscriptions (and identifiers) gets of one QoS 2 message."""
    subscriber, publisher = connect(), connect()
    for subscription, identifier in subscriptions:
        subscriber.subscribe(subscription, subscription_identifiers=(identifier,) if identifier else ())
    publisher.publish(topic, b"x", qos=2)
    messages = [packet for packet in subscriber.barrier() if isinstance(packet, Publish)]
    assert messages
    return messages


@pytest.mark.mqtt("MQTT-3.3.4-2")
def test_overlapping_subscriptions_deliver_at_the_highest_qos(connect: Connector, name: str) -> None:
    subscriptions = [(Subscription(f"{name}/+", 0), 0), (Subscription(f"{name}/#", 2), 0)]
    messages = received_by(connect, [*subscriptions, (Subscription(f"{name}/a", 1), 0)], f"{name}/a")
    assert max(message.qos for message in messages) == 2


@pytest.mark.mqtt("MQTT-3.3.4-3", "MQTT-3.3.4-4", "MQTT-3.3.4-5")
def test_all_matching_subscription_identifiers_arrive(connect: Connector, name: str) -> None:
    subscriptions = [
        (Subscription(f"{name}/+", 1), 1),
        (Subscription(f"{name}/#", 2), 268_435_455),
        (Subscription(f"{name}/a", 0), 0),
        (Subscription(f"{name}/other", 2), 77),
    ]
    messages = received_by(connect, subscriptions, f"{name}/a")
    if len(messages) == 1:
        assert sorted(messages[0].properties.subscription_identifiers) == [1, 268_435_455]
    else:
        assert sorted(message.properties.subscription_identifiers for message in messages) == [
            (),
            (1,),
            (268_435_455,),
        ]


@pytest.mark.mqtt("MQTT-3.3.4-3", "MQTT-3.8.4-3")
def test_resubscribing_changes_or_drops_the_identifier(connect: Connector, name: str) -> None:
    client = connect()
    for identifiers in ((5,), (6,), ()):
        client.subscribe(name, subscription_identifiers=identifiers)
        client.publish(name, b"x")
        assert client.take().properties.subscription_identifiers == identifiers


@pytest.mark.mqtt("MQTT-3.3.4-3", "MQTT-3.1.2-5")
def test_the_identifier_is_part_of_the_session(connect: Connector, name: str) -> None:
    first, publisher = connect(name, session_expiry_s=30), connect()
    first.subscribe(f"{name}/t", qos=1, subscription_identifiers=(300,))
    first.disconnect()
    publisher.publish(f"{name}/t", b"x", qos=1)
    second = connect(name, clean_start=False)
    assert second.take().properties.subscription_identifiers == (300,)


@pytest.mark.mqtt("MQTT-3.3.4-1")
@pytest.mark.parametrize("size_bytes", [0, 1, 127, 128, 16_384, 300_000])
def test_payloads_of_all_sizes_arrive_whole(connect: Connector, name: str, size_bytes: int) -> None:
    payload = bytes(number * 31 % 256 for number in range(size_bytes))
    client = connect()
    client.subscribe(name, qos=1)
    client.publish(name, payload, qos=1)
    assert client.take().payload == payload
