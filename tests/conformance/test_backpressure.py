"""What a slow or absent subscriber may cost: bounded queues, honest refusals, no acknowledged loss."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from braidmq.wire import Puback, Publish, Pubrec
from tests.conformance.kit import SMALL, Connector, Limited, Reason, assert_serving
from tests.support import frames
from tests.support.broker import Broker
from tests.support.raw import RawClient, read_exactly

pytestmark = pytest.mark.braidmq_only

needs_proc = pytest.mark.skipif(not Path("/proc").exists(), reason="reads a process's memory from /proc")
QUEUE_MESSAGES_MAX = SMALL["queue_messages_max"]


def absent_subscriber(connect: Connector, broker: Broker, name: str) -> None:
    subscriber = connect(name, to=broker, session_expiry_s=60)
    subscriber.subscribe(f"{name}/t", qos=2)
    subscriber.disconnect()


@pytest.mark.parametrize("qos", [1, 2])
def test_what_cannot_be_kept_is_refused_and_what_was_accepted_arrives(
    small: Broker, connect: Connector, name: str, qos: int
) -> None:
    absent_subscriber(connect, small, name)
    publisher = connect(to=small)
    reasons = [publisher.publish(f"{name}/t", b"%d" % number, qos=qos) for number in range(8)]
    accepted = [b"%d" % number for number, reason in enumerate(reasons) if reason == Reason.SUCCESS]
    assert len(accepted) == QUEUE_MESSAGES_MAX
    assert set(reasons) == {Reason.SUCCESS, Reason.QUOTA_EXCEEDED}
    returned = connect(name, to=small, clean_start=False)
    assert [returned.take().payload for _ in accepted] == accepted
    returned.expect_nothing()


def test_the_queue_takes_messages_again_when_it_has_room(
    small: Broker, connect: Connector, name: str
) -> None:
    absent_subscriber(connect, small, name)
    publisher = connect(to=small)
    for number in range(QUEUE_MESSAGES_MAX):
        assert publisher.publish(f"{name}/t", b"%d" % number, qos=1) == Reason.SUCCESS
    assert publisher.publish(f"{name}/t", b"too many", qos=1) == Reason.QUOTA_EXCEEDED
    returned = connect(name, to=small, clean_start=False, session_expiry_s=60)
    for _ in range(QUEUE_MESSAGES_MAX):
        returned.take()
    assert publisher.publish(f"{name}/t", b"room again", qos=1) == Reason.SUCCESS
    returned.take(payload=b"room again")


def test_a_subscriber_that_does_not_acknowledge_fills_its_queue_only(
    small: Broker, connect: Connector, name: str
) -> None:
    slow, quick, publisher = connect(to=small, receive_maximum=1), connect(to=small), connect(to=small)
    slow.subscribe(f"{name}/slow", qos=1)
    quick.subscribe(f"{name}/quick", qos=1)
    reasons = [publisher.publish(f"{name}/slow", b"x", qos=1) for _ in range(20)]
    assert reasons[0] == Reason.SUCCESS
    assert reasons[-1] == Reason.QUOTA_EXCEEDED
    assert publisher.publish(f"{name}/quick", b"for the quick one", qos=1) == Reason.SUCCESS
    quick.take(payload=b"for the quick one")
    for _ in range(reasons.count(Reason.SUCCESS)):
        slow.take()
    slow.expect_nothing()


def test_queue_bytes_max(small: Broker, connect: Connector, name: str) -> None:
    absent_subscriber(connect, small, name)
    publisher = connect(to=small)
    reasons = [publisher.publish(f"{name}/t", bytes(1500), qos=1) for _ in range(5)]
    # 5,000 bytes hold three such messages at most; the bound on their number would let all five in.
    accepted = reasons.count(Reason.SUCCESS)
    assert 1 <= accepted <= 3
    assert reasons[accepted:] == [Reason.QUOTA_EXCEEDED] * (5 - accepted)
    returned = connect(name, to=small, clean_start=False)
    for _ in range(accepted):
        returned.take(payload=bytes(1500))
    returned.expect_nothing()


def test_below_v5_a_message_that_cannot_be_kept_is_not_acknowledged(
    small: Broker, connect: Connector, name: str
) -> None:
    # An MQTT 3.1.1 PUBACK can't refuse; the one honest answer left is none, and a closed connection.
    absent_subscriber(connect, small, name)
    publisher = connect(to=small, version=4)
    for number in range(QUEUE_MESSAGES_MAX):
        publisher.publish(f"{name}/t", b"%d" % number, qos=1)
    publisher.send(Publish(f"{name}/t", b"too many", 1, packet_id=999))
    publisher.expect_closed()


def flood(publisher: RawClient, topic: str, megabytes: int) -> None:
    """QoS 0 messages as fast as the broker reads them."""
    burst = frames.publish(topic, bytes(10_000)) * 100
    for _ in range(megabytes):
        publisher.send_bytes(burst)


@needs_proc
def test_a_subscriber_that_does_not_read_does_not_hold_up_the_others(
    limited: Limited, connect: Connector, name: str
) -> None:
    broker = limited(queue_messages_max=100, queue_bytes_max=200_000, packet_bytes_max=20_000)
    stuck, publisher = connect(to=broker), connect(to=broker)
    stuck.subscribe(name)
    flood(publisher, name, megabytes=30)
    publisher.barrier()
    memory_bytes = resident_bytes(broker)
    flood(publisher, name, megabytes=30)
    publisher.barrier()
    # Thirty more megabytes for a client that reads nothing: bounded means that hardly any of it is kept.
    assert resident_bytes(broker) - memory_bytes < 10_000_000
    assert_serving(broker)
    assert stuck.expect(Publish).payload == bytes(10_000)


def resident_bytes(broker: Broker) -> int:
    return int(Path(f"/proc/{broker.pid}/statm").read_text().split()[1]) * 4096


def push(client: RawClient, data: bytes, times: int) -> None:
    """Write as long as the broker reads. If it stops reading, or hangs up, that is its right."""
    with contextlib.suppress(TimeoutError, ConnectionError):
        for _ in range(times):
            client.sock.sendall(data)


@needs_proc
def test_a_client_that_does_not_read_its_answers_is_bounded(
    limited: Limited, connect: Connector, name: str
) -> None:
    broker = limited(queue_messages_max=100, queue_bytes_max=200_000, packet_bytes_max=20_000)
    deaf = connect(to=broker)
    deaf.sock.settimeout(1.0)
    burst = frames.publish(name, b"", flags=0x02, packet_id=1) * 10_000
    push(deaf, burst, times=150)
    memory_bytes = resident_bytes(broker)
    push(deaf, burst, times=300)
    assert_serving(broker)
    # Three million more acknowledgements that nobody reads would be fifteen megabytes.
    assert resident_bytes(broker) - memory_bytes < 8_000_000


def test_an_absent_qos_0_subscriber_costs_nothing(small: Broker, connect: Connector, name: str) -> None:
    subscriber = connect(name, to=small, session_expiry_s=60)
    subscriber.subscribe(f"{name}/t", qos=0)
    subscriber.disconnect()
    publisher = connect(to=small)
    for number in range(QUEUE_MESSAGES_MAX * 2):
        assert publisher.publish(f"{name}/t", b"%d" % number, qos=1) < Reason.UNSPECIFIED_ERROR


def test_a_full_queue_of_one_does_not_refuse_the_message_to_others_silently(
    small: Broker, connect: Connector, name: str
) -> None:
    absent_subscriber(connect, small, name)
    witness, publisher = connect(to=small), connect(to=small)
    for _ in range(QUEUE_MESSAGES_MAX):
        publisher.publish(f"{name}/t", b"x", qos=1)
    witness.subscribe(f"{name}/t", qos=1)
    publisher.send(Publish(f"{name}/t", b"y", 1, packet_id=77))
    assert publisher.expect(Puback, packet_id=77).reason == Reason.QUOTA_EXCEEDED
    publisher.send(Publish(f"{name}/t", b"z", 2, packet_id=78))
    assert publisher.expect(Pubrec, packet_id=78).reason == Reason.QUOTA_EXCEEDED


def test_many_messages_in_one_write_arrive_in_order(broker: Broker, connect: Connector, name: str) -> None:
    subscriber, publisher = connect(), connect()
    subscriber.subscribe(name)
    stream = b"".join(frames.publish(name, b"%06d" % number) for number in range(20_000))
    publisher.send_bytes(stream)
    assert read_exactly(subscriber.sock, len(stream)) == stream
