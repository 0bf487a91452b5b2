"""Every limit of the broker: what lies within is served, what lies beyond gets its reason, others go on."""

from __future__ import annotations

import pytest

from braidmq.wire import Connack, Disconnect, Packet, Puback, Publish
from tests.conformance.kit import Connector, Dial, Limited, Reason, assert_serving
from tests.support import frames
from tests.support.raw import ClosedError, RawClient

pytestmark = pytest.mark.braidmq_only

# The standard has no reason for too many user properties of its own.
TOO_MUCH = (Reason.QUOTA_EXCEEDED, Reason.IMPLEMENTATION_SPECIFIC_ERROR, Reason.PACKET_TOO_LARGE)


def reason_of(client: RawClient) -> int | None:
    """The reason in the next packet: an acknowledgement that refuses, or the DISCONNECT."""
    packet: Packet = client.receive()
    if isinstance(packet, Disconnect):
        client.expect_closed()
    return getattr(packet, "reason", None)


@pytest.mark.parametrize("version", [4, 5])
def test_packet_bytes_max(limited: Limited, connect: Connector, name: str, version: int) -> None:
    broker = limited(packet_bytes_max=2000)
    client, neighbour = connect(to=broker, version=version), connect(to=broker)
    # The header alone condemns the packet: the broker doesn't wait for, nor keep, what it will not take.
    client.send_bytes(b"\x30" + frames.varint(200_000_000) + b"\x00\x01a")
    client.expect_disconnect(Reason.PACKET_TOO_LARGE)
    neighbour.expect_nothing()
    assert_serving(broker)


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_topic_bytes_max(limited: Limited, connect: Connector, name: str, qos: int) -> None:
    broker = limited(topic_bytes_max=50, topic_levels_max=5)
    client = connect(to=broker)
    client.subscribe(name.ljust(50, "x"), qos=2)
    client.publish(name.ljust(50, "x"), b"as long as it may be", qos=qos)
    client.take(topic=name.ljust(50, "x"))
    client.send(Publish(name.ljust(51, "x"), b"x", qos, packet_id=9 if qos else 0))
    assert reason_of(client) == Reason.TOPIC_NAME_INVALID
    assert_serving(broker)


def test_topic_levels_max(limited: Limited, connect: Connector, name: str) -> None:
    broker = limited(topic_bytes_max=50, topic_levels_max=5)
    client = connect(to=broker)
    client.subscribe(f"{name}/#", qos=1)
    client.publish(f"{name}/2/3/4/5", b"as deep as it may be", qos=1)
    client.take(topic=f"{name}/2/3/4/5")
    client.send(Publish(f"{name}/2/3/4/5/6", b"x", 1, packet_id=9))
    assert reason_of(client) == Reason.TOPIC_NAME_INVALID
    assert_serving(broker)


@pytest.mark.parametrize("suffix", ["/2/3/4/5/6", "/" + "x" * 60, "/+/+/+/+/+"])
def test_filters_are_bound_like_topics(
    limited: Limited, connect: Connector, name: str, suffix: str
) -> None:
    broker = limited(topic_bytes_max=50, topic_levels_max=5)
    client = connect(to=broker)
    client.send_bytes(frames.subscribe(1, (f"{name}/2", 0), (name + suffix, 0)))
    packet = client.receive()
    if isinstance(packet, Disconnect):
        assert packet.reason == Reason.TOPIC_FILTER_INVALID
    else:
        assert packet.reasons == (0, Reason.TOPIC_FILTER_INVALID)  # type: ignore[union-attr]
    assert_serving(broker)


def test_properties_max(limited: Limited, connect: Connector, name: str) -> None:
    broker = limited(properties_max=5)
    client = connect(to=broker)
    client.subscribe(name)
    client.publish(name, b"x", user_properties=(("k", "v"),) * 5)
    assert len(client.take().properties.user_properties) == 5
    client.send_bytes(frames.publish(name, b"x", properties=frames.props(frames.user_property("k", "v") * 6)))
    client.expect_disconnect(*TOO_MUCH)
    assert_serving(broker)


def test_properties_max_of_a_connect(limited: Limited, dial: Dial, name: str) -> None:
    broker = limited(properties_max=5)
    client = dial(to=broker)
    client.send_bytes(
        frames.connect(frames.blob(name), properties=frames.props(frames.user_property("k", "v") * 6))
    )
    client.expect_refused(*TOO_MUCH)
    assert_serving(broker)


def test_connections_max(limited: Limited, connect: Connector, dial: Dial, name: str) -> None:
    broker = limited(connections_max=3)
    clients = [connect(to=broker) for _ in range(3)]
    refused = dial(5, broker)
    refused.send_bytes(frames.connect(frames.blob(name)))
    refused.expect_refused(Reason.QUOTA_EXCEEDED, Reason.SERVER_BUSY, Reason.SERVER_UNAVAILABLE)
    for client in clients:
        client.expect_nothing()
    clients[0].disconnect()
    # The seat is free again as soon as the broker has seen the end of the connection, which it has.
    dial(5, broker).connect(name)
    for client in clients[1:]:
        client.disconnect()


def test_connections_max_below_v5_is_server_unavailable(
    limited: Limited, connect: Connector, dial: Dial
) -> None:
    broker = limited(connections_max=2)
    clients = [connect(to=broker, version=4) for _ in range(2)]
    refused = dial(4, broker)
    refused.send_bytes(frames.connect(frames.blob("late"), level=4))
    refused.expect_refused(3)
    for client in clients:
        client.expect_nothing()


def test_subscriptions_per_client_max(limited: Limited, connect: Connector, name: str) -> None:
    broker = limited(subscriptions_per_client_max=2)
    client, other = connect(to=broker), connect(to=broker)
    filters = [f"{name}/{number}" for number in range(3)]
    assert client.subscribe(*filters).reasons == (0, 0, Reason.QUOTA_EXCEEDED)
    assert client.subscribe(filters[0], qos=1).reasons == (1,)
    assert other.subscribe(filters[2]).reasons == (0,)
    client.unsubscribe(filters[0])
    assert client.subscribe(filters[2]).reasons == (0,)


def test_connect_bytes_max(limited: Limited, dial: Dial, name: str) -> None:
    broker = limited(connect_bytes_max=200)
    dial(5, broker).connect(name, username="x" * 100)
    client = dial(5, broker)
    client.send_bytes(
        frames.connect(frames.blob(name), frames.blob("x" * 200), flags=frames.CLEAN | frames.USERNAME_FLAG)
    )
    client.expect_refused(Reason.PACKET_TOO_LARGE)
    assert_serving(broker)


def test_connect_timeout(limited: Limited, dial: Dial, name: str) -> None:
    broker = limited(connect_timeout_s=1)
    silent, halting, prompt = dial(5, broker), dial(5, broker), dial(5, broker)
    halting.send_bytes(frames.connect(frames.blob(name))[:10])
    prompt.connect(f"{name}prompt")
    silent.expect_closed()
    halting.expect_closed()
    prompt.expect_nothing()


def test_inflight_max(limited: Limited, connect: Connector, name: str) -> None:
    broker = limited(inflight_max=3)
    subscriber, publisher = connect(to=broker), connect(to=broker)
    subscriber.subscribe(name, qos=1)
    for number in range(6):
        publisher.publish(name, b"%d" % number, qos=1)
    under_way = [packet for packet in subscriber.barrier() if isinstance(packet, Publish)]
    assert [message.payload for message in under_way] == [b"0", b"1", b"2"]
    subscriber.send(*(Puback(message.packet_id) for message in under_way))
    for number in range(3, 6):
        subscriber.take(payload=b"%d" % number)


def test_retained_messages_max(limited: Limited, connect: Connector, name: str) -> None:
    broker = limited(retained_messages_max=2)
    client = connect(to=broker)
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


def test_the_limits_are_told_to_the_client(limited: Limited, dial: Dial, name: str) -> None:
    broker = limited(packet_bytes_max=3000, receive_maximum=7, topic_alias_max=3)
    client = dial(5, broker)
    client.send_bytes(frames.connect(frames.blob(name)))
    said = client.expect(Connack).properties
    assert (said.maximum_packet_size_bytes, said.receive_maximum, said.topic_alias_maximum) == (3000, 7, 3)


def test_a_refused_client_may_try_again(limited: Limited, dial: Dial) -> None:
    broker = limited(client_id_bytes_max=30)
    for _ in range(3):
        client = dial(5, broker)
        client.connect("y" * 31, reason=Reason.CLIENT_IDENTIFIER_NOT_VALID)
        with pytest.raises(ClosedError):
            client.receive()
    dial(5, broker).connect("y" * 30)
