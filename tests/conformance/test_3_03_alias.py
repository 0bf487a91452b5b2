"""Section 3.3.2.3.4: topic aliases in both directions."""

from __future__ import annotations

import pytest

from braidmq.wire import Properties, Publish
from tests.conformance.kit import BROKEN, Connector, Reason
from tests.support import frames


def alias(number: int) -> bytes:
    return frames.props(b"\x23" + frames.u16(number))


@pytest.mark.mqtt("MQTT-3.3.2-12")
def test_every_alias_up_to_the_maximum_is_accepted(connect: Connector, name: str) -> None:
    client = connect()
    maximum = client.connack.properties.topic_alias_maximum
    assert maximum
    client.subscribe(f"{name}/#")
    numbers = sorted({1, 2, maximum // 2 or 1, maximum})
    for number in numbers:
        client.send_bytes(frames.publish(f"{name}/{number}", b"named", properties=alias(number)))
        client.take(topic=f"{name}/{number}", payload=b"named")
    for number in numbers:
        client.send_bytes(frames.publish("", b"by alias", properties=alias(number)))
        client.take(topic=f"{name}/{number}", payload=b"by alias")


@pytest.mark.mqtt("MQTT-3.3.2-12")
def test_an_alias_can_be_given_to_another_topic(connect: Connector, name: str) -> None:
    client = connect()
    client.subscribe(f"{name}/#", qos=2)
    for qos, topic in enumerate((f"{name}/a", f"{name}/b", f"{name}/c")):
        client.publish(topic, b"named", qos=qos, topic_alias=1)
        client.take(topic=topic)
        client.publish("", b"by alias", qos=qos, topic_alias=1)
        assert client.take(topic=topic, payload=b"by alias").properties.topic_alias is None


@pytest.mark.mqtt("MQTT-3.3.2-7")
def test_an_alias_ends_with_the_connection(connect: Connector, name: str) -> None:
    first = connect(name, session_expiry_s=30)
    first.publish(f"{name}/t", b"x", topic_alias=1)
    first.disconnect()
    second = connect(name, clean_start=False)
    assert second.connack.session_present
    second.send_bytes(frames.publish("", b"x", properties=alias(1)))
    second.expect_disconnect(*BROKEN, Reason.TOPIC_ALIAS_INVALID)


@pytest.mark.mqtt("MQTT-3.3.2-7")
def test_aliases_of_two_connections_are_apart(connect: Connector, name: str) -> None:
    witness, one, two = connect(), connect(), connect()
    witness.subscribe(f"{name}/#")
    one.publish(f"{name}/one", b"x", topic_alias=1)
    two.publish(f"{name}/two", b"x", topic_alias=1)
    one.publish("", b"y", topic_alias=1)
    two.publish("", b"y", topic_alias=1)
    for topic in ("one", "two", "one", "two"):
        witness.take(topic=f"{name}/{topic}")


@pytest.mark.mqtt("MQTT-3.3.2-8")
def test_alias_zero_closes(connect: Connector, name: str) -> None:
    client = connect()
    client.send_bytes(frames.publish(name, b"x", properties=alias(0)))
    client.expect_disconnect(Reason.TOPIC_ALIAS_INVALID)


@pytest.mark.mqtt("MQTT-4.13.1-1")
def test_an_alias_never_named_closes(connect: Connector) -> None:
    client = connect()
    client.send_bytes(frames.publish("", b"x", properties=alias(1)))
    client.expect_disconnect(*BROKEN, Reason.TOPIC_ALIAS_INVALID)


@pytest.mark.mqtt("MQTT-3.1.2-27", "MQTT-3.3.2-11")
@pytest.mark.parametrize("options", [{}, {"topic_alias_maximum": 0}], ids=["absent", "zero"])
def test_no_alias_is_sent_to_a_client_that_takes_none(
    connect: Connector, name: str, options: dict[str, int]
) -> None:
    client = connect(**options)
    client.subscribe(f"{name}/#")
    for topic in (f"{name}/a", f"{name}/a", f"{name}/b"):
        client.publish(topic, b"x", topic_alias=1)
        assert client.take(topic=topic).properties.topic_alias is None


@pytest.mark.mqtt("MQTT-3.1.2-26", "MQTT-3.3.2-11", "MQTT-3.3.2-8")
def test_aliases_sent_stay_within_the_clients_maximum(connect: Connector, name: str) -> None:
    subscriber, publisher = connect(topic_alias_maximum=2), connect()
    subscriber.subscribe(f"{name}/#")
    named: dict[int, str] = {}
    for topic in ["a", "b", "c", "a", "b", "c", "a", "a", "d", "a"] * 2:
        publisher.publish(f"{name}/{topic}", b"x")
        message = subscriber.expect(Publish)
        number = message.properties.topic_alias
        if number is not None:
            assert 1 <= number <= 2
            if message.topic:
                named[number] = message.topic
        assert (message.topic or named[number or 0]) == f"{name}/{topic}"


@pytest.mark.braidmq_only
def test_a_repeated_topic_is_sent_by_alias(connect: Connector, name: str) -> None:
    subscriber, publisher = connect(topic_alias_maximum=5), connect()
    subscriber.subscribe(f"{name}/#", qos=1)
    topics: list[str] = []
    for number in range(10):
        publisher.publish(f"{name}/one/and/the/same", b"%d" % number, qos=1)
        message = subscriber.take(payload=b"%d" % number)
        assert message.properties.topic_alias
        topics.append(message.topic)
    assert topics[0] == f"{name}/one/and/the/same"
    assert "" in topics


@pytest.mark.mqtt("MQTT-3.3.2-7", "MQTT-4.4.0-1")
def test_a_resent_message_names_its_topic_on_the_new_connection(connect: Connector, name: str) -> None:
    first, publisher = connect(name, session_expiry_s=30, topic_alias_maximum=5), connect()
    first.subscribe(f"{name}/t", qos=1)
    for number in range(3):
        publisher.publish(f"{name}/t", b"%d" % number, qos=1)
        first.expect(Publish, payload=b"%d" % number)
    first.drop()
    second = connect(name, clean_start=False, topic_alias_maximum=5)
    topics: dict[int | None, str] = {}
    for number in range(3):
        message = second.expect(Publish, payload=b"%d" % number, dup=True)
        if message.topic:
            topics[message.properties.topic_alias] = message.topic
        assert topics[message.properties.topic_alias] == f"{name}/t"


@pytest.mark.mqtt("MQTT-3.3.2-12")
def test_an_alias_with_other_properties(connect: Connector, name: str) -> None:
    client = connect()
    client.subscribe(name)
    client.send(Publish(name, b"1", properties=Properties(topic_alias=3, content_type="a")))
    client.send(Publish("", b"2", properties=Properties(topic_alias=3, content_type="b")))
    for payload, content_type in ((b"1", "a"), (b"2", "b")):
        arrived = client.take(topic=name, payload=payload)
        assert arrived.properties.content_type == content_type
