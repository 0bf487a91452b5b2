"""Sections 3.8 and 3.9: SUBSCRIBE, its options, and the SUBACK."""

from __future__ import annotations

import pytest

from braidmq.wire import Publish, Suback, Subscription
from tests.conformance.kit import BROKEN, SUBACK_REASONS, Connector, Reason, assert_serving
from tests.support import frames
from tests.support.broker import Broker


@pytest.mark.mqtt("MQTT-3.8.4-1", "MQTT-3.8.4-6", "MQTT-3.8.4-7", "MQTT-3.9.3-1", "MQTT-3.9.3-2")
@pytest.mark.mqtt311("MQTT-3.8.4-1", "MQTT-3.8.4-5", "MQTT-3.9.3-1", "MQTT-3.9.3-2")
@pytest.mark.parametrize("version", [3, 4, 5])
def test_one_suback_has_a_reason_for_each_filter_in_order(
    connect: Connector, name: str, version: int
) -> None:
    client = connect(version=version)
    wanted = [Subscription(f"{name}/{number}", number % 3) for number in range(7)]
    suback = client.subscribe(*wanted)
    assert suback.reasons == (0, 1, 2, 0, 1, 2, 0)
    assert set(suback.reasons) <= SUBACK_REASONS
    client.expect_nothing()


@pytest.mark.mqtt("MQTT-3.8.4-8", "MQTT-3.8.4-7")
@pytest.mark.mqtt311("MQTT-3.8.4-6")
@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize("granted", [0, 1, 2])
@pytest.mark.parametrize("published", [0, 1, 2])
def test_messages_come_at_the_lower_of_both_qos(
    connect: Connector, name: str, published: int, granted: int, version: int
) -> None:
    client = connect(version=version)
    assert client.subscribe(name, qos=granted).reasons == (granted,)
    client.publish(name, b"x", qos=published)
    client.take(payload=b"x", qos=min(published, granted))
    client.expect_nothing()


@pytest.mark.mqtt("MQTT-3.8.4-5")
@pytest.mark.mqtt311("MQTT-3.8.4-4")
def test_several_filters_work_like_several_packets(connect: Connector, name: str) -> None:
    client = connect()
    client.publish(f"{name}/a", b"kept", retain=True)
    client.subscribe(
        Subscription(f"{name}/a", 0), Subscription(f"{name}/b", 1), Subscription(f"{name}/b", 0)
    )
    client.take(topic=f"{name}/a", payload=b"kept")
    client.publish(f"{name}/b", b"the later one counts", qos=1)
    client.take(topic=f"{name}/b", qos=0)
    client.expect_nothing()


@pytest.mark.mqtt("MQTT-3.8.4-3")
@pytest.mark.mqtt311("MQTT-3.8.4-3")
@pytest.mark.parametrize("version", [4, 5])
def test_the_same_filter_again_replaces_the_subscription(
    connect: Connector, name: str, version: int
) -> None:
    client = connect(version=version)
    for qos in (2, 0, 1):
        client.subscribe(name, qos=qos)
        client.publish(name, b"once", qos=2)
        client.take(payload=b"once", qos=qos)
        client.expect_nothing()


@pytest.mark.mqtt("MQTT-3.8.4-3", "MQTT-3.8.4-4")
def test_replacing_a_subscription_loses_no_message(connect: Connector, name: str) -> None:
    publisher, subscriber = connect(), connect(receive_maximum=2)
    subscriber.subscribe(name, qos=1)
    for number in range(6):
        publisher.publish(name, b"%d" % number, qos=1)
    subscriber.subscribe(name, qos=1)
    for number in range(6):
        subscriber.take(payload=b"%d" % number)


@pytest.mark.mqtt("MQTT-3.8.3-2", "MQTT-4.13.1-1")
@pytest.mark.mqtt311("MQTT-3.8.3-3")
@pytest.mark.parametrize("version", [4, 5])
def test_a_subscribe_without_filters_closes(connect: Connector, version: int) -> None:
    client = connect(version=version)
    client.send_bytes(frames.subscribe(1, properties=b"\x00" if version == 5 else b""))
    client.expect_disconnect(*BROKEN)


@pytest.mark.mqtt("MQTT-3.8.3-5", "MQTT-4.13.1-1")
@pytest.mark.parametrize("options", [0x40, 0x80, 0xC0, 0x03, 0x30])
def test_reserved_subscription_options_close(connect: Connector, name: str, options: int) -> None:
    client = connect()
    client.send_bytes(frames.subscribe(1, (name, options)))
    client.expect_disconnect(*BROKEN)


@pytest.mark.mqtt311("MQTT-3-8.3-4")
@pytest.mark.parametrize("options", [0x03, 0x04, 0x08, 0x10, 0x80])
def test_options_beyond_the_qos_close_below_v5(connect: Connector, name: str, options: int) -> None:
    client = connect(version=4)
    client.send_bytes(frames.subscribe(1, (name, options), properties=b""))
    client.expect_closed()


BAD_SUBSCRIBES = {
    "cut in the filter": frames.frame(frames.SUBSCRIBE, frames.u16(1), b"\x00", b"\x00\x09abc"),
    "no options byte": frames.frame(frames.SUBSCRIBE, frames.u16(1), b"\x00", frames.blob("abc")),
    "no packet id": frames.frame(frames.SUBSCRIBE),
    "identifier 0": frames.subscribe(1, ("a", 0), properties=frames.props(b"\x0b\x00")),
    "identifier twice": frames.subscribe(1, ("a", 0), properties=frames.props(b"\x0b\x01\x0b\x02")),
    "identifier of five bytes": frames.subscribe(
        1, ("a", 0), properties=frames.props(b"\x0b\xff\xff\xff\xff\x01")
    ),
    "alien property": frames.subscribe(1, ("a", 0), properties=frames.props(b"\x23\x00\x01")),
}


@pytest.mark.mqtt("MQTT-4.13.1-1")
@pytest.mark.parametrize("packet", BAD_SUBSCRIBES.values(), ids=BAD_SUBSCRIBES.keys())
def test_a_broken_subscribe_closes(broker: Broker, connect: Connector, packet: bytes) -> None:
    client = connect()
    client.send_bytes(packet)
    client.expect_disconnect(*BROKEN)
    assert_serving(broker)


@pytest.mark.mqtt("MQTT-3.8.3-3")
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_no_local_keeps_own_messages_away(connect: Connector, name: str, qos: int) -> None:
    client, other = connect(), connect()
    client.subscribe(Subscription(name, 2, no_local=True))
    client.publish(name, b"own", qos=qos)
    client.expect_nothing()
    other.publish(name, b"of another", qos=qos)
    client.take(payload=b"of another")


@pytest.mark.mqtt("MQTT-3.8.3-3")
def test_no_local_goes_by_client_id_also_across_connections(connect: Connector, name: str) -> None:
    first = connect(name, session_expiry_s=30)
    first.subscribe(Subscription(f"{name}/t", 1, no_local=True))
    first.disconnect()
    second = connect(name, clean_start=False, session_expiry_s=30)
    second.publish(f"{name}/t", b"own", qos=1)
    second.expect_nothing()


@pytest.mark.mqtt("MQTT-3.8.3-3")
def test_no_local_is_an_option_of_each_subscription(connect: Connector, name: str) -> None:
    client = connect()
    client.subscribe(Subscription(f"{name}/#", 1, no_local=True))
    client.subscribe(Subscription(f"{name}/t", 0, no_local=False))
    client.publish(f"{name}/t", b"wanted by one of the two", qos=1)
    client.take(qos=0)
    client.expect_nothing()


@pytest.mark.mqtt("MQTT-3.8.3-4", "MQTT-4.13.1-1")
def test_no_local_on_a_shared_subscription_closes(connect: Connector, name: str) -> None:
    client = connect()
    client.send_bytes(frames.subscribe(1, (f"$share/{name}/{name}", 0x04)))
    client.expect_disconnect(Reason.PROTOCOL_ERROR)


@pytest.mark.mqtt("MQTT-3.9.2-1", "MQTT-3.9.2-2", "MQTT-3.11.2-1", "MQTT-3.11.2-2", "MQTT-3.1.2-24")
def test_suback_and_unsuback_fit_the_packet_size_of_the_client(connect: Connector, name: str) -> None:
    client = connect(maximum_packet_size_bytes=40)
    filters = [f"{name}/{'long/' * 10}{number}" for number in range(5)]
    client.subscribe(*filters, qos=1)
    assert client.last_frame.size_bytes <= 40
    client.unsubscribe(*filters)
    assert client.last_frame.size_bytes <= 40


@pytest.mark.mqtt("MQTT-3.8.4-1")
def test_the_suback_comes_before_messages_published_after_it(connect: Connector, name: str) -> None:
    client = connect()
    client.send_bytes(frames.subscribe(1, (name, 0)) + frames.publish(name, b"x"))
    client.expect(Suback)
    client.expect(Publish, payload=b"x")


@pytest.mark.mqtt("MQTT-3.3.4-2")
@pytest.mark.mqtt311("MQTT-3.3.5-1")
@pytest.mark.parametrize("version", [3, 4])
def test_overlapping_subscriptions_respect_the_highest_qos_below_v5(
    connect: Connector, name: str, version: int
) -> None:
    client, publisher = connect(version=version), connect()
    client.subscribe(Subscription(f"{name}/#", 2), Subscription(f"{name}/t", 0), Subscription(f"{name}/+", 1))
    publisher.publish(f"{name}/t", b"x", qos=2)
    arrived = [packet.qos for packet in client.barrier() if isinstance(packet, Publish)]
    assert max(arrived) == 2


@pytest.mark.braidmq_only
def test_overlapping_subscriptions_deliver_one_copy(connect: Connector, name: str) -> None:
    for version in (4, 5):
        client, publisher = connect(version=version), connect()
        client.subscribe(f"{name}/#", f"{name}/+", f"{name}/t", qos=1)
        publisher.publish(f"{name}/t", b"once", qos=1)
        client.take(payload=b"once", qos=1)
        client.expect_nothing()
