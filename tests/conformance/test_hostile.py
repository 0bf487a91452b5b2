"""Packets that no honest client sends, at a live broker: the right answer, and service to all the others."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from braidmq.wire import PacketType, Subscription
from tests.conformance.kit import Connector, Dial, Reason, assert_serving
from tests.support import frames
from tests.support.broker import Broker
from tests.support.raw import ClosedError, RawClient, read_frame
from tests.support.rows import check_rows
from tests.wire.packets import BAD, GOOD, BadPacket, row_id

SENT_BY_SERVERS = {PacketType.CONNACK, PacketType.SUBACK, PacketType.UNSUBACK, PacketType.PINGRESP}
OPENING = [row for row in BAD if row.data[0] >> 4 == PacketType.CONNECT]
LATER = [row for row in BAD if row.data[0] >> 4 != PacketType.CONNECT]


@pytest.mark.mqtt("MQTT-4.13.1-1", "MQTT-4.13.2-1")
@pytest.mark.mqtt311("MQTT-4.8.0-1")
@pytest.mark.braidmq_only
def test_a_bad_packet_gets_its_reason(broker: Broker, connect: Connector) -> None:
    neighbour = connect()

    def check(row: BadPacket) -> None:
        client = connect(version=row.version)
        client.send_bytes(row.data)
        if row.data[0] >> 4 in SENT_BY_SERVERS:
            client.expect_disconnect(row.reason, Reason.PROTOCOL_ERROR)
        else:
            client.expect_disconnect(row.reason)
        neighbour.expect_nothing()

    check_rows(LATER, check, row_id)
    assert_serving(broker)


@pytest.mark.mqtt("MQTT-3.1.4-1", "MQTT-4.13.1-1", "MQTT-3.14.0-1")
@pytest.mark.mqtt311("MQTT-3.1.4-1")
def test_a_bad_connect_is_refused_or_closed(broker: Broker, dial: Dial) -> None:
    def check(row: BadPacket) -> None:
        client = dial(row.version)
        client.send_bytes(row.data)
        try:
            reply = read_frame(client.sock)
        except ClosedError:
            return  # MQTT 3 knows no answer to a malformed CONNECT
        # Which version the answer is in depends on how much of the CONNECT could be understood.
        assert reply.first_byte == frames.CONNACK
        assert reply.body[:2] in (bytes((0, row.reason)), b"\x00\x01")
        client.expect_closed()

    check_rows(OPENING, check, row_id)
    assert_serving(broker)


def mutated(rng: random.Random, data: bytes) -> bytes:
    """The packet with a few bytes changed, cut out or doubled."""
    bytes_now = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(bytes_now))
        match rng.randrange(4):
            case 0:
                bytes_now[at] ^= 1 << rng.randrange(8)
            case 1:
                bytes_now[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
            case 2:
                bytes_now[at:at] = bytes_now[at : at + rng.randint(1, 8)]
            case _ if len(bytes_now) > 2:
                del bytes_now[at]
    return bytes(bytes_now)


@pytest.mark.mqtt("MQTT-4.13.1-1")
@pytest.mark.parametrize("seed", range(4))
def test_mutated_packets_hurt_nobody_else(broker: Broker, dial: Dial, connect: Connector, seed: int) -> None:
    rng = random.Random(seed)
    neighbour = connect(keep_alive_s=0)
    for _ in range(60):
        row = rng.choice(GOOD)
        client = dial(row.version)
        if row.data[0] >> 4 != PacketType.CONNECT:
            client.connect(f"mutant{seed}")
        client.send_bytes(mutated(rng, row.data))
        # Whatever was made of it, the end of the stream is the end: the broker closes and goes on.
        client.drop()
    neighbour.barrier()
    assert_serving(broker)


def test_half_sent_packets_hold_up_nobody(broker: Broker, connect: Connector, name: str) -> None:
    clients: list[RawClient] = [connect() for _ in range(30)]
    whole = frames.publish(name, b"x" * 1000)
    for client in clients:
        client.send_bytes(whole[:500])
    assert_serving(broker)
    witness = connect()
    witness.subscribe(name)
    for client in clients:
        client.send_bytes(whole[500:])
    for _ in clients:
        witness.take(payload=b"x" * 1000)


@pytest.mark.parametrize("separator", ["/", "a/", "//"])
def test_the_deepest_topics_are_answered(broker: Broker, connect: Connector, separator: str) -> None:
    topic = separator * (65_000 // len(separator))
    for packet in (
        frames.publish(topic, b"x", flags=0x02, packet_id=1),
        frames.subscribe(1, (topic, 0)),
        frames.subscribe(1, (topic + "#", 0)),
        frames.unsubscribe(1, topic),
    ):
        client = connect()
        client.send_bytes(packet)
        client.receive()
        client.close()
    assert_serving(broker)


def test_thousands_of_filters_in_one_packet(broker: Broker, connect: Connector, name: str) -> None:
    client = connect()
    suback = client.subscribe(*(Subscription(f"{name}/{number}/+/#") for number in range(3000)))
    assert len(suback.reasons) == 3000
    assert_serving(broker)


def open_files(broker: Broker) -> int:
    return len(list(Path(f"/proc/{broker.pid}/fd").iterdir()))


@pytest.mark.skipif(not Path("/proc").exists(), reason="counts open files in /proc")
def test_no_file_stays_open_however_a_connection_ends(
    broker: Broker, dial: Dial, connect: Connector, name: str
) -> None:
    assert_serving(broker)
    neighbour = connect()
    before = open_files(broker)
    for number in range(20):
        clients = [dial() for _ in range(4)]
        for client in clients:
            client.connect(f"{name}{number}")
        clients[-1].send_bytes((b"\xe0\x00", b"\x00\x00", b"\x30\x05\x00", b"")[number % 4])
        for client in clients:
            client.drop()
        dial().drop()
    neighbour.expect_nothing()
    assert_serving(broker)
    assert open_files(broker) <= before + 1  # the last newcomer's socket may still be closing


def test_a_connection_that_ends_at_any_byte(broker: Broker, dial: Dial, name: str) -> None:
    stream = frames.connect(frames.blob(name)) + frames.subscribe(1, (name, 1))
    for length in range(len(stream)):
        client = dial()
        client.send_bytes(stream[:length])
        client.drop()
    assert_serving(broker)
