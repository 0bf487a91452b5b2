"""Section 4.7: topic names, filters and wildcards."""

from __future__ import annotations

import pytest

from braidmq.wire import Publish, Subscription
from tests.conformance.kit import Connector, Reason, expect_filter_refused
from tests.support import frames


@pytest.mark.mqtt("MQTT-4.7.1-1", "MQTT-4.7.1-2")
@pytest.mark.mqtt311("MQTT-4.7.1-2", "MQTT-4.7.1-3")
@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("bad", ["a/#/b", "a#", "#/a", "a/b#", "##", "a+", "+a/b", "a/b+/c", "++"])
def test_a_misplaced_wildcard_is_refused(connect: Connector, name: str, bad: str, version: int) -> None:
    client = connect(version=version)
    client.send_bytes(
        frames.subscribe(1, (f"{name}/{bad}", 0), properties=b"\x00" if version == 5 else b"")
    )
    expect_filter_refused(client)


@pytest.mark.mqtt("MQTT-4.7.3-1")
def test_an_empty_filter_is_refused(connect: Connector) -> None:
    client = connect()
    client.send_bytes(frames.subscribe(1, ("", 0)))
    expect_filter_refused(client)


MATCHES = [
    ("a/b", "a/b", True),
    ("a/b", "a/B", False),
    ("a/b", "a/b/", False),
    ("a/b", "/a/b", False),
    ("+", "a", True),
    ("+", "a/b", False),
    ("+/+", "a/b", True),
    ("+/+", "/", True),
    ("a/+", "a/", True),
    ("a/+", "a", False),
    ("a/+/c", "a//c", True),
    ("a/+/c", "a/b/b/c", False),
    ("#", "a", True),
    ("#", "/a/b/c/", True),
    ("a/#", "a", True),
    ("a/#", "a/", True),
    ("a/#", "a/b/c", True),
    ("a/#", "ab", False),
    ("a/+/#", "a", False),
    ("a/+/#", "a/b", True),
    ("+/b/#", "/b", True),
    ("a//b", "a/b", False),
    ("a//b", "a//b", True),
    ("a /b", "a/b", False),
    ("é", "e\u0301", False),
    ("Å", "\u212b", False),
]


@pytest.mark.mqtt("MQTT-4.7.1-1", "MQTT-4.7.1-2", "MQTT-4.7.3-4", "MQTT-3.3.2-3")
@pytest.mark.parametrize(("wanted", "topic", "match"), MATCHES)
def test_filters_match_as_they_should(
    connect: Connector, name: str, wanted: str, topic: str, match: bool
) -> None:
    client = connect()
    client.subscribe(f"{name}/{wanted}")
    client.publish(f"{name}/{topic}", b"x")
    arrived = [packet.topic for packet in client.barrier() if isinstance(packet, Publish)]
    assert arrived == ([f"{name}/{topic}"] if match else [])


@pytest.mark.mqtt("MQTT-4.7.2-1")
@pytest.mark.mqtt311("MQTT-4.7.2-1")
@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("wanted", ["#", "+/{}", "+/#", "+/+"])
def test_a_leading_wildcard_does_not_match_dollar_topics(
    connect: Connector, name: str, wanted: str, version: int
) -> None:
    client, publisher = connect(version=version), connect(version=version)
    if version == 5:
        client.subscribe(Subscription(wanted.format(name), retain_handling=2))
    else:
        client.subscribe(wanted.format(name))
        client.barrier()
    publisher.publish(f"$private/{name}", b"hidden")
    client.expect_nothing()
    publisher.publish(f"public/{name}", b"seen")
    client.take(payload=b"seen")


@pytest.mark.mqtt("MQTT-4.7.2-1")
@pytest.mark.parametrize("wanted", ["$private/#", "$private/+", "$private/{}"])
def test_dollar_topics_are_seen_by_those_who_name_them(connect: Connector, name: str, wanted: str) -> None:
    client = connect()
    client.subscribe(Subscription(wanted.format(name), retain_handling=2))
    client.publish(f"$private/{name}", b"named")
    client.take(topic=f"$private/{name}", payload=b"named")


@pytest.mark.mqtt("MQTT-4.7.2-1")
def test_retained_dollar_topics_are_hidden_from_leading_wildcards(connect: Connector, name: str) -> None:
    client = connect()
    client.publish(f"$private/{name}", b"kept", retain=True)
    client.subscribe(f"+/{name}")
    client.expect_nothing()
    client.subscribe(f"$private/{name}")
    client.take(payload=b"kept", retain=True)


@pytest.mark.mqtt("MQTT-4.7.3-3")
@pytest.mark.braidmq_only
def test_topics_of_the_longest_length_are_handled(connect: Connector) -> None:
    # The wire can't carry more than 65,535 bytes; this many are answered, if only with a refusal.
    client = connect()
    client.send(Publish("a" * 65_535, b"x", 1, packet_id=1))
    packet = client.receive()
    assert getattr(packet, "reason", None) in (Reason.TOPIC_NAME_INVALID, Reason.NO_MATCHING_SUBSCRIBERS)


@pytest.mark.mqtt("MQTT-4.7.3-4", "MQTT-4.7.3-1")
@pytest.mark.parametrize("topic", ["/", "//", " ", "a b/c", "\ufffd", "\U0010fffd", "ÿ"])
def test_unusual_topics_are_left_as_they_are(connect: Connector, name: str, topic: str) -> None:
    client = connect()
    client.subscribe(f"{name}{topic}", qos=1)
    client.publish(f"{name}{topic}", b"x", qos=1)
    client.take(topic=f"{name}{topic}")
