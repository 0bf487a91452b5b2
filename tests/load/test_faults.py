"""Loss, doubles, wrong order, refusals and cuts are found, and nothing is found where nothing is wrong."""

import socket

import pytest

from braidmq.load.case import Case, Result
from braidmq.load.generator import run
from braidmq.load.handshake import HandshakeError
from tests.load.faulty import FaultyBroker, faithful, faulty_broker

TOPIC = "load/topic"
COUNT = 400


def load(broker: FaultyBroker, *, qos: int = 0, window: int = 0, check_every: int = 1) -> Result:
    return run(Case(
        port=broker.port, topics=(TOPIC,), subscriptions=(TOPIC,), messages=COUNT, batch=7,
        qos=qos, window=window, ramp_s=0.0, steady_s=20.0, quiet_s=1.0, spin=False,
        check_every=check_every,
    ))


def dropping(number: int, publish: bytes) -> list[bytes]:
    return [] if number % 10 == 5 else [publish]


def doubling(number: int, publish: bytes) -> list[bytes]:
    return [publish, publish] if number % 10 == 5 else [publish]


class Swapping:
    """Every tenth message is held back and comes after the next one."""

    def __init__(self) -> None:
        self.held: list[bytes] = []

    def __call__(self, number: int, publish: bytes) -> list[bytes]:
        if number % 10 == 5:
            self.held = [publish]
            return []
        late, self.held = self.held, []
        return [publish, *late]


def test_a_faithful_broker_is_given_no_blame() -> None:
    with faulty_broker() as broker:
        result = load(broker)
    assert (result.sent, result.expected, result.delivered) == (COUNT, COUNT, COUNT)
    assert (result.lost, result.duplicates, result.order_faults, result.foreign) == (0, 0, 0, 0)
    assert result.drained
    assert result.latency.count == COUNT


def test_loss() -> None:
    with faulty_broker(dropping) as broker:
        result = load(broker)
    assert (result.lost, result.duplicates, result.order_faults) == (COUNT // 10, 0, 0)
    assert result.delivery_ratio == 0.9


def test_loss_is_known_by_count_when_few_messages_are_looked_into() -> None:
    with faulty_broker(dropping) as broker:
        result = load(broker, check_every=64)
    assert result.lost == COUNT // 10


def test_duplicates() -> None:
    with faulty_broker(doubling) as broker:
        result = load(broker)
    assert (result.lost, result.duplicates, result.order_faults) == (0, COUNT // 10, 0)


def test_order() -> None:
    with faulty_broker(Swapping()) as broker:
        result = load(broker)
    assert (result.lost, result.duplicates, result.order_faults) == (0, 0, COUNT // 10)


def test_a_doubled_message_does_not_hide_a_lost_one() -> None:
    with faulty_broker(lambda number, publish: [publish] * (0, 2)[number % 2]) as broker:
        result = load(broker)
    assert result.delivered == COUNT
    assert (result.lost, result.duplicates) == (COUNT // 2, COUNT // 2)


def test_messages_that_are_not_ours() -> None:
    strange = bytes([0x30, 3 + len(TOPIC) + 2]) + bytes([0, len(TOPIC)]) + TOPIC.encode() + b"\0hi"
    with faulty_broker(lambda number, publish: [publish, strange]) as broker:
        result = load(broker)
    assert (result.foreign, result.delivered, result.lost) == (COUNT, COUNT, 0)


def test_refused_messages_are_not_waited_for() -> None:
    def refuse_every_other(number: int, publish: bytes) -> bytes:
        packet_id = publish[4 + len(TOPIC) : 6 + len(TOPIC)]
        return b"\x40\x03" + packet_id + (b"\x97" if number % 2 else b"\0")

    def deliver_accepted(number: int, publish: bytes) -> list[bytes]:
        at = 4 + len(TOPIC)  # a QoS 0 message to the subscriber: no packet id
        body = publish[2:at] + publish[at + 2 :]
        return [] if number % 2 else [bytes([0x30, len(body)]) + body]

    with faulty_broker(deliver_accepted, refuse_every_other) as broker:
        result = load(broker, qos=1, window=10)
    assert (result.sent, result.acknowledged, result.refused) == (COUNT, COUNT // 2, COUNT // 2)
    assert (result.expected, result.lost) == (COUNT // 2, 0)


def test_a_window_that_a_dropping_broker_holds_shut_is_given_up() -> None:
    with faulty_broker(lambda number, publish: [publish] if number % 200 else []) as broker:
        result = load(broker, window=1)
    assert (result.sent, result.stalls, result.lost) == (COUNT, 2, 2)


def test_a_cut_connection_is_counted() -> None:
    def cut(number: int, publish: bytes) -> list[bytes]:
        if number == 50:
            broker.subscribers.pop().shutdown(socket.SHUT_RDWR)
        return faithful(number, publish)

    with faulty_broker(cut) as broker:
        result = load(broker)
    assert result.broken_links == 1
    assert result.lost == COUNT - 50


def test_nobody_listening() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(HandshakeError, match="refused"):
        run(Case(port=port))
