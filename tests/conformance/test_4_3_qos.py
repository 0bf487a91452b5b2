"""Sections 4.3 and 4.5: the exchanges of QoS 0, 1 and 2, with the broker as receiver and as sender."""

from __future__ import annotations

import pytest

from braidmq.wire import Properties, Puback, Pubcomp, Publish, Pubrec, Pubrel
from tests.conformance.kit import SMALL, Connector, Elapse, Reason
from tests.support.broker import Broker
from tests.support.raw import RawClient

VERSIONS = pytest.mark.parametrize("version", [3, 4, 5])


@pytest.mark.mqtt("MQTT-4.3.1-1")
@VERSIONS
def test_qos_0_is_sent_once(connect: Connector, name: str, version: int) -> None:
    client = connect(version=version)
    client.subscribe(name, qos=2)
    client.publish(name, b"x", qos=0)
    client.take(payload=b"x", qos=0, dup=False, packet_id=0)
    client.expect_nothing()


@pytest.mark.mqtt("MQTT-4.3.2-2", "MQTT-4.3.2-3", "MQTT-4.4.0-1")
@pytest.mark.mqtt311("MQTT-4.3.2-1")
@VERSIONS
def test_qos_1_is_sent_once_until_it_is_acknowledged(connect: Connector, name: str, version: int) -> None:
    client = connect(version=version)
    client.subscribe(name, qos=1)
    client.publish(name, b"x", qos=1)
    message = client.expect(Publish, payload=b"x", qos=1, dup=False)
    assert message.packet_id
    client.expect_nothing()
    client.send(Puback(message.packet_id))
    client.expect_nothing()


@pytest.mark.mqtt("MQTT-4.3.2-4", "MQTT-4.3.2-5")
@pytest.mark.mqtt311("MQTT-4.3.2-2")
@VERSIONS
def test_after_the_puback_the_packet_id_means_a_new_message(
    connect: Connector, name: str, version: int
) -> None:
    publisher, subscriber = connect(version=version), connect()
    subscriber.subscribe(name, qos=1)
    for number, dup in enumerate((False, True, True)):
        publisher.send(Publish(name, b"%d" % number, 1, dup=dup, packet_id=5))
        publisher.expect(Puback, packet_id=5)
        subscriber.take(payload=b"%d" % number)


@pytest.mark.mqtt("MQTT-4.3.3-8", "MQTT-4.3.3-10", "MQTT-4.3.3-11")
@pytest.mark.mqtt311("MQTT-4.3.3-2")
@VERSIONS
def test_qos_2_sent_again_before_the_pubrel_is_delivered_once(
    connect: Connector, name: str, version: int
) -> None:
    publisher, subscriber = connect(version=version), connect()
    subscriber.subscribe(name, qos=2)
    for dup in (False, True):
        publisher.send(Publish(name, b"once", 2, dup=dup, packet_id=7))
        assert publisher.expect(Pubrec, packet_id=7).reason < Reason.UNSPECIFIED_ERROR
    publisher.send(Pubrel(7))
    publisher.expect(Pubcomp, packet_id=7)
    subscriber.take(payload=b"once", qos=2)
    subscriber.expect_nothing()


@pytest.mark.mqtt("MQTT-4.3.3-12")
@VERSIONS
def test_after_the_pubcomp_the_packet_id_means_a_new_message(
    connect: Connector, name: str, version: int
) -> None:
    publisher, subscriber = connect(version=version), connect()
    subscriber.subscribe(name, qos=2)
    for number, dup in enumerate((False, True)):
        publisher.send(Publish(name, b"%d" % number, 2, dup=dup, packet_id=7))
        publisher.expect(Pubrec, packet_id=7)
        publisher.send(Pubrel(7))
        publisher.expect(Pubcomp, packet_id=7)
        subscriber.take(payload=b"%d" % number)


@pytest.mark.mqtt("MQTT-4.3.3-10", "MQTT-3.1.2-5", "MQTT-4.4.0-1")
@pytest.mark.mqtt311("MQTT-4.3.3-2", "MQTT-4.4.0-1")
@pytest.mark.parametrize("version", [4, 5])
def test_qos_2_sent_again_on_a_resumed_session_is_delivered_once(
    connect: Connector, name: str, version: int
) -> None:
    kept = {"session_expiry_s": 30} if version == 5 else {}
    subscriber = connect()
    subscriber.subscribe(f"{name}/t", qos=2)
    first = connect(name, version=version, clean_start=False, **kept)
    first.send(Publish(f"{name}/t", b"once", 2, packet_id=7))
    first.expect(Pubrec, packet_id=7)
    first.drop()
    second = connect(name, version=version, clean_start=False, **kept)
    second.send(Publish(f"{name}/t", b"once", 2, dup=True, packet_id=7))
    second.expect(Pubrec, packet_id=7)
    second.send(Pubrel(7))
    second.expect(Pubcomp, packet_id=7, reason=Reason.SUCCESS)
    subscriber.take(payload=b"once")
    subscriber.expect_nothing()


@pytest.mark.mqtt("MQTT-4.3.3-11", "MQTT-4.4.0-1")
def test_a_pubrel_sent_again_on_a_resumed_session_is_answered(connect: Connector, name: str) -> None:
    first = connect(name, session_expiry_s=30)
    first.send(Publish(f"{name}/t", b"x", 2, packet_id=7))
    first.expect(Pubrec)
    first.drop()
    second = connect(name, clean_start=False)
    for reason in (Reason.SUCCESS, Reason.PACKET_IDENTIFIER_NOT_FOUND):
        second.send(Pubrel(7))
        second.expect(Pubcomp, packet_id=7, reason=reason)


@pytest.mark.mqtt("MQTT-4.3.3-2", "MQTT-4.3.3-3", "MQTT-4.3.3-4", "MQTT-4.3.3-5")
@pytest.mark.mqtt311("MQTT-4.3.3-1")
@VERSIONS
def test_the_broker_sends_qos_2_step_by_step(connect: Connector, name: str, version: int) -> None:
    client = connect(version=version)
    client.subscribe(name, qos=2)
    client.publish(name, b"x", qos=2)
    message = client.expect(Publish, payload=b"x", qos=2, dup=False)
    client.expect_nothing()
    client.send(Pubrec(message.packet_id))
    client.expect(Pubrel, packet_id=message.packet_id)
    client.expect_nothing()
    client.send(Pubcomp(message.packet_id))
    client.expect_nothing()


@pytest.mark.mqtt("MQTT-4.3.3-4", "MQTT-4.4.0-2", "MQTT-4.9.0-2")
def test_a_refusing_pubrec_ends_the_exchange(connect: Connector, name: str) -> None:
    client = connect(receive_maximum=1)
    client.subscribe(name, qos=2)
    client.publish(name, b"refused", qos=2)
    message = client.expect(Publish)
    client.send(Pubrec(message.packet_id, Reason.NOT_AUTHORIZED))
    client.expect_nothing()
    client.publish(name, b"next", qos=2)
    client.take(payload=b"next")


@pytest.mark.mqtt("MQTT-4.3.3-9", "MQTT-3.5.2-1")
@pytest.mark.braidmq_only
def test_after_a_refusing_pubrec_the_packet_id_means_a_new_message(
    small: Broker, connect: Connector, name: str
) -> None:
    absent = connect(name, to=small, session_expiry_s=30)
    publisher, witness = connect(to=small), connect(to=small)
    absent.subscribe(f"{name}/full", qos=2)
    absent.disconnect()
    for _ in range(SMALL["queue_messages_max"]):
        assert publisher.publish(f"{name}/full", b"x", qos=2) == Reason.SUCCESS
    publisher.send(Publish(f"{name}/full", b"x", 2, packet_id=99))
    publisher.expect(Pubrec, packet_id=99, reason=Reason.QUOTA_EXCEEDED)
    witness.subscribe(f"{name}/free", qos=2)
    publisher.send(Publish(f"{name}/free", b"new", 2, packet_id=99))
    publisher.expect(Pubrec, packet_id=99, reason=Reason.SUCCESS)
    publisher.send(Pubrel(99))
    publisher.expect(Pubcomp, packet_id=99, reason=Reason.SUCCESS)
    witness.take(payload=b"new")


@pytest.mark.mqtt("MQTT-4.3.3-6", "MQTT-4.3.3-5", "MQTT-4.4.0-1")
@pytest.mark.parametrize("version", [4, 5])
def test_after_the_pubrel_only_the_pubrel_is_sent_again(
    connect: Connector, name: str, version: int
) -> None:
    kept = {"session_expiry_s": 30} if version == 5 else {}
    first = connect(name, version=version, clean_start=False, **kept)
    first.subscribe(f"{name}/t", qos=2)
    first.publish(f"{name}/t", b"x", qos=2)
    message = first.expect(Publish)
    first.send(Pubrec(message.packet_id))
    first.expect(Pubrel)
    first.drop()
    second = connect(name, version=version, clean_start=False, **kept)
    second.expect(Pubrel, packet_id=message.packet_id)
    second.expect_nothing()
    second.send(Pubcomp(message.packet_id))
    second.drop()
    connect(name, version=version, clean_start=False).expect_nothing()


@pytest.mark.mqtt("MQTT-4.3.3-7")
def test_a_message_once_sent_does_not_expire(connect: Connector, elapse: Elapse, name: str) -> None:
    first, publisher = connect(name, session_expiry_s=30), connect()
    first.subscribe(f"{name}/t", qos=2)
    publisher.publish(f"{name}/t", b"x", qos=2, message_expiry_s=1)
    message = first.expect(Publish)
    first.drop()
    elapse()
    second = connect(name, clean_start=False)
    second.take(payload=b"x", dup=True, packet_id=message.packet_id, qos=2)


@pytest.mark.mqtt("MQTT-4.3.3-13")
def test_the_broker_completes_an_exchange_whose_message_expired(
    connect: Connector, elapse: Elapse, name: str
) -> None:
    publisher, absent = connect(), connect(name, session_expiry_s=30)
    absent.subscribe(f"{name}/t", qos=2)
    absent.disconnect()
    publisher.send(Publish(f"{name}/t", b"x", 2, packet_id=3, properties=Properties(message_expiry_s=1)))
    publisher.expect(Pubrec, packet_id=3)
    elapse()
    publisher.send(Pubrel(3))
    publisher.expect(Pubcomp, packet_id=3, reason=Reason.SUCCESS)
    connect(name, clean_start=False).expect_nothing()


@pytest.mark.mqtt("MQTT-4.5.0-1")
@VERSIONS
def test_a_message_goes_to_every_matching_session(connect: Connector, name: str, version: int) -> None:
    kept = {"session_expiry_s": 30} if version == 5 else {}
    here: list[RawClient] = [connect(version=version) for _ in range(3)]
    for client in here:
        client.subscribe(f"{name}/#", qos=1)
    away = connect(name, version=version, clean_start=False, **kept)
    away.subscribe(f"{name}/t", qos=1)
    away.disconnect()
    connect(version=version).publish(f"{name}/t", b"to all", qos=1)
    for client in (*here, connect(name, version=version, clean_start=False)):
        client.take(payload=b"to all", qos=1)
