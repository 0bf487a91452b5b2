"""Every limit of the broker: what lies within is served, what lies beyond gets its reason, others go on."""

from __future__ import annotations

import pytest

from braidmq.wire import Connack, Disconnect, Packet, Puback, Publish
from tests.conformance.kit import SMALL, Connector, Dial, Limited, Reason, assert_serving
from tests.support import frames
from tests.support.broker import Broker
from tests.support.raw import RawClient, read_exactly

pytestmark = pytest.mark.braidmq_only


def reason_of(client: RawClient) -> int | None:
    """The reason in the next packet: an acknowledgement that refuses, or the DISCONNECT."""
    packet: Packet = client.receive()
    if isinstance(packet, Disconnect):
        client.expect_closed()
    return getattr(packet, "reason", None)


@pytest.mark.parametrize("version", [4, 5])
def test_packet_bytes_max(small: Broker, connect: Connector, version: int) -> None:
    client, neighbour = connect(to=small, version=version), connect(to=small)
    # The header alone condemns the packet: the broker doesn't wait for, nor keep, what it will not take.
    client.send_bytes(b"\x30" + frames.varint(200_000_000) + b"\x00\x01a")
    client.expect_disconnect(Reason.PACKET_TOO_LARGE)
    neighbour.expect_nothing()
    assert_serving(small)


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_topic_bytes_max(small: Broker, connect: Connector, name: str, qos: int) -> None:
    client = connect(to=small)
    longest = name.ljust(50, "x")
    client.subscribe(longest, qos=2)
    client.publish(longest, b"as long as it may be", qos=qos)
    client.take(topic=longest)
    client.send(Publish(longest + "x", b"x", qos, packet_id=9 if qos else 0))
    assert reason_of(client) == Reason.TOPIC_NAME_INVALID
    assert_serving(small)


def test_topic_levels_max(small: Broker, connect: Connector, name: str) -> None:
    client = connect(to=small)
    client.subscribe(f"{name}/#", qos=1)
    client.publish(f"{name}/2/3/4/5", b"as deep as it may be", qos=1)
    client.take(topic=f"{name}/2/3/4/5")
    client.send(Publish(f"{name}/2/3/4/5/6", b"x", 1, packet_id=9))
    assert reason_of(client) == Reason.TOPIC_NAME_INVALID
    assert_serving(small)


@pytest.mark.parametrize("suffix", ["/2/3/4/5/6", "/" + "x" * 60, "/+/+/+/+/+"])
def test_filters_are_bound_like_topics(small: Broker, connect: Connector, name: str, suffix: str) -> None:
    client = connect(to=small)
    client.send_bytes(frames.subscribe(1, (f"{name}/2", 0), (name + suffix, 0)))
    packet = client.receive()
    if isinstance(packet, Disconnect):
        assert packet.reason == Reason.TOPIC_FILTER_INVALID
    else:
        assert packet.reasons == (0, Reason.TOPIC_FILTER_INVALID)  # type: ignore[union-attr]
    assert_serving(small)


def test_properties_of_a_publish_are_bound_by_its_size(small: Broker, connect: Connector, name: str) -> None:
    client = connect(to=small)
    client.subscribe(name)
    client.send_bytes(frames.publish(name, b"x", properties=frames.props(frames.user_property("k", "v") * 9)))
    assert len(client.take().properties.user_properties) == 9  # properties_max is 5
    assert_serving(small)


def test_properties_max_of_a_connect(small: Broker, dial: Dial, name: str) -> None:
    client = dial(to=small)
    client.send_bytes(
        frames.connect(frames.blob(name), properties=frames.props(frames.user_property("k", "v") * 6))
    )
    assert client.expect_refused(Reason.QUOTA_EXCEEDED) is not None
    assert_serving(small)


def test_connections_max(limited: Limited, connect: Connector, dial: Dial, name: str) -> None:
    broker = limited(connections_max=3)
    clients = [connect(to=broker) for _ in range(3)]
    refused, refused_too = dial(5, broker), dial(4, broker)
    refused.send_bytes(frames.connect(frames.blob(name)))
    told = refused.expect_refused(Reason.SERVER_BUSY)
    refused_too.send_bytes(frames.connect(frames.blob(name), level=4))
    told_too = refused_too.expect_refused(3)
    assert told is not None
    assert told_too is not None
    for client in clients:
        client.expect_nothing()
    # The seat is free as soon as the broker has seen the end of a connection, which it has after this.
    clients.pop().disconnect()
    dial(5, broker).connect(name)


def test_sessions_max(limited: Limited, connect: Connector, dial: Dial, name: str) -> None:
    broker = limited(sessions_max=2)
    for number in range(2):
        connect(f"{name}{number}", to=broker, session_expiry_s=1000).disconnect()
    refused = dial(5, broker)
    refused.send_bytes(frames.connect(frames.blob(name)))
    refused.expect_refused(Reason.QUOTA_EXCEEDED, Reason.SERVER_BUSY, Reason.SERVER_UNAVAILABLE)
    for number in range(2):
        assert connect(f"{name}{number}", to=broker, clean_start=False).connack.session_present


def test_subscriptions_per_client_max(small: Broker, connect: Connector, name: str) -> None:
    client, other = connect(to=small), connect(to=small)
    filters = [f"{name}/{number}" for number in range(3)]
    assert client.subscribe(*filters).reasons == (0, 0, Reason.QUOTA_EXCEEDED)
    assert client.subscribe(filters[0], qos=1).reasons == (1,)
    assert other.subscribe(filters[2]).reasons == (0,)
    client.unsubscribe(filters[0])
    assert client.subscribe(filters[2]).reasons == (0,)


def test_connect_bytes_max(small: Broker, dial: Dial, name: str) -> None:
    dial(5, small).connect(name, username="x" * 100)
    client = dial(5, small)
    client.send_bytes(
        frames.connect(frames.blob(name), frames.blob("x" * 200), flags=frames.CLEAN | frames.USERNAME_FLAG)
    )
    client.expect_refused(Reason.PACKET_TOO_LARGE)
    assert_serving(small)


def test_connect_timeout(limited: Limited, dial: Dial, name: str) -> None:
    broker = limited(connect_timeout_s=1)
    silent, halting, prompt = dial(5, broker), dial(5, broker), dial(5, broker)
    halting.send_bytes(frames.connect(frames.blob(name))[:10])
    prompt.connect(f"{name}prompt")
    silent.expect_closed()
    halting.expect_closed()
    prompt.expect_nothing()


def test_inflight_max(small: Broker, connect: Connector, name: str) -> None:
    subscriber, publisher = connect(to=small), connect(to=small)
    subscriber.subscribe(name, qos=1)
    for number in range(6):
        publisher.publish(name, b"%d" % number, qos=1)
    under_way = [packet for packet in subscriber.barrier() if isinstance(packet, Publish)]
    assert [message.payload for message in under_way] == [b"0", b"1", b"2"]
    subscriber.send(*(Puback(message.packet_id) for message in under_way))
    for number in range(3, 6):
        subscriber.take(payload=b"%d" % number)


def test_retained_messages_max(small: Broker, connect: Connector, name: str) -> None:
    client = connect(to=small)
    fine = (Reason.SUCCESS, Reason.NO_MATCHING_SUBSCRIBERS)
    for topic in ("a", "b", "a"):
        assert client.publish(f"{name}/{topic}", b"kept", qos=1, retain=True) in fine
    assert client.publish(f"{name}/c", b"too many", qos=1, retain=True) == Reason.QUOTA_EXCEEDED
    client.publish(f"{name}/a", b"", qos=1, retain=True)
    assert client.publish(f"{name}/c", b"room again", qos=1, retain=True) in fine
    client.subscribe(f"{name}/+")
    assert sorted(client.take().topic for _ in range(2)) == [f"{name}/b", f"{name}/c"]
    for topic in ("b", "c"):
        client.publish(f"{name}/{topic}", b"", retain=True)


def test_the_limits_are_told_to_the_client(small: Broker, dial: Dial, name: str) -> None:
    client = dial(5, small)
    client.send_bytes(frames.connect(frames.blob(name)))
    said = client.expect(Connack).properties
    assert said.maximum_packet_size_bytes == SMALL["packet_bytes_max"]
    assert said.receive_maximum == SMALL["receive_maximum"]
    assert said.topic_alias_maximum == SMALL["topic_alias_max"]


def test_no_alias_is_sent_where_they_are_turned_off(bare: Broker, connect: Connector, name: str) -> None:
    client = connect(to=bare, topic_alias_maximum=10)
    client.subscribe(name)
    for _ in range(3):
        client.publish(name, b"x")
        assert client.take(topic=name).properties.topic_alias is None


@pytest.mark.mqtt("MQTT-2.2.1-4", "MQTT-3.3.4-9")
def test_all_packet_ids_in_use(limited: Limited, connect: Connector, name: str) -> None:
    """65,535 messages under way use up every identifier; the next one waits until one is free again."""
    broker = limited(inflight_max=65_535, queue_messages_max=100_000)
    subscriber, publisher = connect(to=broker, receive_maximum=65_535), connect(to=broker)
    subscriber.subscribe(name, qos=1)
    message = frames.publish(name, b"", flags=0x02, packet_id=1)
    for _ in range(66):
        publisher.send_bytes(message * 1000)
        read_exactly(publisher.sock, 4 * 1000)
    stream = read_exactly(subscriber.sock, len(message) * 65_535)
    at = len(message) - 3
    packet_ids = {stream[start + at : start + at + 2] for start in range(0, len(stream), len(message))}
    assert len(packet_ids) == 65_535
    assert b"\x00\x00" not in packet_ids
    subscriber.expect_nothing()
    subscriber.send(Puback(40_000))
    subscriber.expect(Publish, packet_id=40_000, dup=False)
    subscriber.expect_nothing()
