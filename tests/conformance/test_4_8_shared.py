"""Section 4.8.2: shared subscriptions."""

from __future__ import annotations

import pytest

from braidmq.wire import Puback, Publish, Pubrec, Subscription
from tests.conformance.kit import Connector, Reason, expect_filter_refused
from tests.support import frames
from tests.support.raw import RawClient


def group_of(connect: Connector, name: str, size: int, qos: int = 1) -> list[RawClient]:
    members = [connect() for _ in range(size)]
    for member in members:
        assert member.subscribe(f"$share/{name}/{name}/#", qos=qos).reasons == (qos,)
    return members


def payloads(client: RawClient) -> list[bytes]:
    arrived = [packet for packet in client.barrier() if isinstance(packet, Publish)]
    for message in arrived:
        if message.qos == 1:
            client.send(Puback(message.packet_id))
    return [message.payload for message in arrived]


@pytest.mark.mqtt("MQTT-4.8.2-1", "MQTT-4.8.2-2")
@pytest.mark.parametrize("bad", ["", "g", "g/", "/t", "g+/t", "#/t"])
def test_a_shared_filter_without_group_or_topic_is_refused(connect: Connector, bad: str) -> None:
    client = connect()
    client.send_bytes(frames.subscribe(1, (f"$share/{bad}", 0)))
    expect_filter_refused(client)


@pytest.mark.mqtt("MQTT-4.8.2-1", "MQTT-4.8.2-2")
def test_each_message_goes_to_one_member(connect: Connector, name: str) -> None:
    members, publisher = group_of(connect, name, 3), connect()
    for number in range(12):
        assert publisher.publish(f"{name}/t", b"%d" % number, qos=1) == Reason.SUCCESS
    received = [payload for member in members for payload in payloads(member)]
    assert sorted(received) == sorted(b"%d" % number for number in range(12))


@pytest.mark.mqtt("MQTT-4.8.2-1")
def test_groups_and_plain_subscriptions_each_get_a_copy(connect: Connector, name: str) -> None:
    clients = [connect() for _ in range(3)]
    filters = (f"$share/{name}a/{name}", f"$share/{name}b/{name}", name)
    for client, wanted in zip(clients, filters, strict=True):
        client.subscribe(wanted, qos=1)
    connect().publish(name, b"x", qos=1)
    for client in clients:
        client.take(payload=b"x")
        client.expect_nothing()


@pytest.mark.mqtt("MQTT-4.8.2-1", "MQTT-3.3.4-4")
def test_one_client_with_both_kinds_gets_a_copy_of_each(connect: Connector, name: str) -> None:
    client = connect()
    client.subscribe(name, qos=1, subscription_identifiers=(1,))
    client.subscribe(f"$share/{name}/{name}", qos=1, subscription_identifiers=(2,))
    connect().publish(name, b"x", qos=1)
    arrived = [packet for packet in client.barrier() if isinstance(packet, Publish)]
    identifiers = [number for message in arrived for number in message.properties.subscription_identifiers]
    assert sorted(identifiers) == [1, 2]


@pytest.mark.mqtt("MQTT-4.8.2-3")
@pytest.mark.parametrize("granted", [0, 1, 2])
def test_the_qos_of_the_chosen_member_counts(connect: Connector, name: str, granted: int) -> None:
    (member,) = group_of(connect, name, 1, qos=granted)
    connect().publish(f"{name}/t", b"x", qos=2)
    member.take(payload=b"x", qos=granted)


@pytest.mark.mqtt("MQTT-4.8.2-4")
def test_a_delivery_under_way_is_completed_on_reconnect(connect: Connector, name: str) -> None:
    wanted = f"$share/{name}/{name}/#"
    first = connect(name, session_expiry_s=30)
    first.subscribe(wanted, qos=2)
    connect().publish(f"{name}/t", b"x", qos=2)
    message = first.expect(Publish, qos=2)
    other = connect()
    other.subscribe(wanted, qos=2)
    first.drop()
    other.expect_nothing()
    second = connect(name, clean_start=False)
    second.take(payload=b"x", packet_id=message.packet_id, dup=True)


@pytest.mark.mqtt("MQTT-4.8.2-5")
def test_a_qos_2_delivery_dies_with_the_session(connect: Connector, name: str) -> None:
    wanted = f"$share/{name}/{name}/#"
    first = connect()
    first.subscribe(wanted, qos=2)
    connect().publish(f"{name}/t", b"x", qos=2)
    first.expect(Publish, qos=2)
    other = connect()
    other.subscribe(wanted, qos=2)
    first.drop()
    other.expect_nothing()


@pytest.mark.mqtt("MQTT-4.8.2-6")
@pytest.mark.parametrize("qos", [1, 2])
def test_a_refused_message_is_offered_to_nobody_else(connect: Connector, name: str, qos: int) -> None:
    wanted = f"$share/{name}/{name}/#"
    refusing = connect()
    refusing.subscribe(wanted, qos=2)
    connect().publish(f"{name}/t", b"x", qos=qos)
    message = refusing.expect(Publish)
    other = connect()
    other.subscribe(wanted, qos=2)
    kind = Puback if qos == 1 else Pubrec
    refusing.send(kind(message.packet_id, Reason.NOT_AUTHORIZED))
    refusing.expect_nothing()
    other.expect_nothing()


@pytest.mark.mqtt("MQTT-4.8.2-1", "MQTT-3.10.4-1")
def test_who_unsubscribes_from_the_group_gets_no_more(connect: Connector, name: str) -> None:
    one, two = group_of(connect, name, 2)
    assert one.unsubscribe(f"{name}/#").reasons == (Reason.NO_SUBSCRIPTION_EXISTED,)
    assert one.unsubscribe(f"$share/{name}/{name}/#").reasons == (Reason.SUCCESS,)
    publisher = connect()
    for number in range(4):
        publisher.publish(f"{name}/t", b"%d" % number, qos=1)
    assert payloads(two) == [b"0", b"1", b"2", b"3"]
    one.expect_nothing()


@pytest.mark.mqtt("MQTT-4.8.2-1")
def test_a_member_that_left_is_not_chosen(connect: Connector, name: str) -> None:
    one, two = group_of(connect, name, 2)
    one.drop()
    publisher = connect()
    for number in range(4):
        assert publisher.publish(f"{name}/t", b"%d" % number, qos=1) == Reason.SUCCESS
    assert payloads(two) == [b"0", b"1", b"2", b"3"]


@pytest.mark.mqtt("MQTT-4.8.2-2", "MQTT-4.7.2-1")
def test_shared_filters_follow_the_rules_for_wildcards(connect: Connector, name: str) -> None:
    client, publisher = connect(), connect()
    client.subscribe(f"$share/{name}/+/{name}")
    publisher.publish(f"$private/{name}", b"hidden")
    publisher.publish(f"public/{name}", b"seen")
    client.take(payload=b"seen")
    client.expect_nothing()


@pytest.mark.mqtt("MQTT-3.3.1-13")
def test_shared_subscriptions_take_the_options_too(connect: Connector, name: str) -> None:
    client = connect()
    client.subscribe(Subscription(f"$share/{name}/{name}", 1, retain_as_published=True))
    client.publish(name, b"x", qos=1, retain=True)
    client.take(payload=b"x", retain=True)
