"""Section 4.9 and what clients say of themselves: receive maximum and maximum packet size, both ways."""

from __future__ import annotations

import pytest

from braidmq.wire import Puback, Pubcomp, Publish, Pubrec, Pubrel
from tests.conformance.kit import Connector, Reason, assert_serving
from tests.support.broker import Broker


@pytest.mark.mqtt("MQTT-3.3.4-9", "MQTT-4.9.0-1", "MQTT-4.9.0-2")
@pytest.mark.parametrize("receive_maximum", [1, 3])
def test_no_more_than_receive_maximum_are_under_way(
    connect: Connector, name: str, receive_maximum: int
) -> None:
    subscriber, publisher = connect(receive_maximum=receive_maximum), connect()
    subscriber.subscribe(name, qos=2)
    for number in range(8):
        publisher.publish(name, b"%d" % number, qos=1 + number % 2)
    received = 0
    under_way: list[Publish] = []
    while received < 8:
        under_way += [packet for packet in subscriber.barrier() if isinstance(packet, Publish)]
        assert len(under_way) == min(receive_maximum, 8 - received)
        message = under_way.pop(0)
        assert message.payload == b"%d" % received
        received += 1
        if message.qos == 1:
            subscriber.send(Puback(message.packet_id))
        else:
            subscriber.send(Pubrec(message.packet_id))
            subscriber.wait_for(Pubrel, message.packet_id)
            assert not [packet for packet in subscriber.barrier() if isinstance(packet, Publish)]
            subscriber.send(Pubcomp(message.packet_id))


@pytest.mark.mqtt("MQTT-3.3.4-10", "MQTT-4.9.0-3", "MQTT-4.9.0-2")
def test_other_packets_go_on_when_the_quota_is_used_up(connect: Connector, name: str) -> None:
    client, publisher = connect(receive_maximum=1), connect()
    client.subscribe(name, qos=2)
    publisher.publish(name, b"under way", qos=1)
    publisher.publish(name, b"waiting", qos=1)
    message = client.expect(Publish, payload=b"under way")
    assert client.subscribe(f"{name}/other", qos=0).reasons == (0,)
    assert client.unsubscribe(f"{name}/none").reasons == (Reason.NO_SUBSCRIPTION_EXISTED,)
    assert client.publish(f"{name}/x", b"x", qos=1) == Reason.NO_MATCHING_SUBSCRIBERS
    client.expect_nothing()
    publisher.publish(f"{name}/other", b"QoS 0 is not counted", qos=0)
    client.take(payload=b"QoS 0 is not counted", qos=0)
    client.send(Puback(message.packet_id))
    client.take(payload=b"waiting")


@pytest.mark.mqtt("MQTT-3.3.4-7", "MQTT-4.9.0-2")
@pytest.mark.braidmq_only
def test_who_sends_more_than_the_servers_receive_maximum_is_cut_off(
    small: Broker, connect: Connector, name: str
) -> None:
    client = connect(to=small)
    assert client.connack.properties.receive_maximum == 4
    for packet_id in range(1, 5):
        client.send(Publish(name, b"x", 2, packet_id=packet_id))
        client.expect(Pubrec, packet_id=packet_id)
    client.send(Publish(name, b"again", 2, dup=True, packet_id=4))
    client.expect(Pubrec, packet_id=4)
    client.send(Pubrel(1))
    client.expect(Pubcomp, packet_id=1)
    client.send(Publish(name, b"x", 2, packet_id=5))
    client.expect(Pubrec, packet_id=5)
    client.send(Publish(name, b"x", 2, packet_id=6))
    client.expect_disconnect(Reason.RECEIVE_MAXIMUM_EXCEEDED)
    assert_serving(small)


@pytest.mark.mqtt("MQTT-3.3.4-7", "MQTT-3.1.2-5")
@pytest.mark.braidmq_only
def test_unreleased_messages_of_a_resumed_session_count(
    small: Broker, connect: Connector, name: str
) -> None:
    first = connect(name, to=small, session_expiry_s=30)
    for packet_id in range(1, 4):
        first.send(Publish(f"{name}/t", b"x", 2, packet_id=packet_id))
        first.expect(Pubrec)
    first.drop()
    second = connect(name, to=small, clean_start=False)
    for packet_id in range(1, 4):
        second.send(Publish(f"{name}/t", b"x", 2, dup=True, packet_id=packet_id))
        second.expect(Pubrec, packet_id=packet_id)
        second.send(Pubrel(packet_id))
        second.expect(Pubcomp, packet_id=packet_id, reason=Reason.SUCCESS)


@pytest.mark.braidmq_only
def test_receive_maximum_counts_only_what_is_open(small: Broker, connect: Connector, name: str) -> None:
    client = connect(to=small)
    for number in range(20):
        client.publish(name, b"x", qos=1 + number % 2)


@pytest.mark.mqtt("MQTT-3.1.2-24", "MQTT-3.1.2-25")
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_what_is_too_large_for_the_client_is_left_out(connect: Connector, name: str, qos: int) -> None:
    small, large, publisher = connect(maximum_packet_size_bytes=100, receive_maximum=1), connect(), connect()
    for client in (small, large):
        client.subscribe(name, qos=2)
    publisher.publish(name, b"first", qos=qos)
    for _ in range(3):
        publisher.publish(name, bytes(100), qos=qos)
    publisher.publish(name, b"last", qos=qos)
    small.take(payload=b"first")
    assert small.take(payload=b"last")
    small.expect_nothing()
    assert [len(large.take().payload) for _ in range(5)] == [5, 100, 100, 100, 4]


@pytest.mark.mqtt("MQTT-3.1.2-24")
def test_a_packet_of_exactly_the_maximum_is_sent(connect: Connector, name: str) -> None:
    client = connect(maximum_packet_size_bytes=100)
    client.subscribe(name)
    overhead = 2 + 2 + len(name) + 1
    client.publish(name, bytes(100 - overhead))
    client.take(payload=bytes(100 - overhead))
    assert client.last_frame.size_bytes == 100
    client.publish(name, bytes(101 - overhead))
    client.expect_nothing()


@pytest.mark.mqtt("MQTT-3.1.2-25")
def test_what_is_too_large_is_left_out_of_kept_and_retained_messages(connect: Connector, name: str) -> None:
    publisher, first = connect(), connect(name, session_expiry_s=30)
    first.subscribe(f"{name}/t", qos=1)
    first.disconnect()
    for payload in (bytes(200), b"fits"):
        publisher.publish(f"{name}/t", payload, qos=1)
    publisher.publish(f"{name}/retained", bytes(200), retain=True)
    second = connect(name, clean_start=False, maximum_packet_size_bytes=100, receive_maximum=1)
    second.take(payload=b"fits")
    second.subscribe(f"{name}/retained")
    second.expect_nothing()


@pytest.mark.mqtt("MQTT-3.1.2-25")
def test_shared_messages_too_large_for_a_member_do_no_harm(connect: Connector, name: str) -> None:
    member, publisher = connect(maximum_packet_size_bytes=100), connect()
    member.subscribe(f"$share/{name}/{name}", qos=1)
    publisher.publish(name, bytes(200), qos=1)
    publisher.publish(name, b"fits", qos=1)
    member.take(payload=b"fits")
