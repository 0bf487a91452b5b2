"""Rates: who is too fast is made to wait, loses nothing, and is not taken for dead meanwhile."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braidmq.broker.connection import Connection
from braidmq.broker.quotas import Bucket, network_of
from braidmq.wire import Connect, Pingreq, Pingresp, Publish
from tests.broker.world import Client, World

steps = st.lists(st.tuples(st.floats(0, 3), st.integers(0, 50)), max_size=30)


@given(st.integers(1, 20), steps)
def test_who_waits_as_told_stays_within_the_rate(rate_per_s: int, asked: list[tuple[float, int]]) -> None:
    now = 100.0
    bucket = Bucket(rate_per_s, now)
    spent = 0
    for pause_s, amount in asked:
        now += pause_s
        spent += amount
        now += bucket.spend(amount, now)
    assert spent <= rate_per_s * (now - 100.0 + 1) * (1 + 1e-9)


def test_a_bucket_gives_what_flowed_in_and_no_more_than_a_seconds_worth() -> None:
    bucket = Bucket(2, 0.0)
    assert [bucket.take_one(0.0) for _ in range(3)] == [True, True, False]
    assert [bucket.take_one(0.5) for _ in range(2)] == [True, False]
    assert [bucket.take_one(100.0) for _ in range(3)] == [True, True, False]


@pytest.mark.parametrize(
    ("peer", "other", "is_same"),
    [
        ("192.0.2.1:5", "192.0.2.1:6", True),
        ("192.0.2.1:5", "192.0.2.2:5", False),
        ("[2001:db8::1]:5", "[2001:db8::2]:6", True),
        ("[2001:db8::1]:5", "[2001:db8:0:1::1]:5", False),
        ("[::ffff:192.0.2.1]:5", "192.0.2.1:6", True),
        ("[fe80::1%eth0]:5", "[fe80::1%eth0]:6", True),
    ],
)
def test_an_address_of_ipv6_is_its_network(peer: str, other: str, is_same: bool) -> None:
    assert (network_of(peer) == network_of(other)) is is_same


def test_without_limits_nothing_is_counted() -> None:
    assert type(World().connect("c").connection) is Connection


def pair(**limits: int) -> tuple[World, Client, Client]:
    world = World(**limits)
    reader, writer = world.connect("reader"), world.connect("writer", keep_alive_s=2)
    reader.subscribe("t")
    return world, reader, writer


@pytest.mark.parametrize("qos", [0, 1])
def test_too_many_messages_are_read_later_and_none_is_lost(qos: int) -> None:
    world, reader, writer = pair(client_messages_per_s_max=10)
    writer.send(*(Publish("t", b"x", qos=qos, packet_id=qos and i) for i in range(1, 31)))
    assert writer.is_paused
    assert world.broker.quota_pauses == 1
    assert len(reader.payloads()) == 30
    world.pass_time(1.9)
    assert writer.is_paused
    world.pass_time(0.2)
    assert not writer.is_paused
    assert not reader.is_paused


def test_a_client_within_its_rate_is_never_paused() -> None:
    world, _, writer = pair(client_messages_per_s_max=10, client_bytes_per_s_max=1000)
    for _ in range(50):
        writer.send(Publish("t", b"x"))
        world.pass_time(0.1)
        assert not writer.is_paused
    assert world.broker.quota_pauses == 0


def test_too_many_bytes_are_read_later_also_if_they_are_no_messages() -> None:
    world, _, writer = pair(client_bytes_per_s_max=100)
    writer.send(*[Pingreq()] * 100)
    assert writer.is_paused
    assert [type(packet) for packet in writer.read()] == [Pingresp] * 100
    world.pass_time(2)
    assert not writer.is_paused


def test_one_who_is_made_to_wait_is_not_taken_for_dead() -> None:
    world, reader, writer = pair(client_bytes_per_s_max=100)
    writer.send(Publish("t", b"x" * 1000))
    for _ in range(8):
        world.pass_time(1)
        assert writer.is_paused
    assert not writer.is_closed
    world.pass_time(3)
    assert not writer.is_paused
    world.pass_time(4)
    assert writer.is_closed
    assert reader.payloads() == [b"x" * 1000]


def test_one_who_goes_while_waiting_leaves_nothing_behind() -> None:
    world, _, writer = pair(client_messages_per_s_max=1)
    writer.send(*[Publish("t", b"x")] * 10)
    writer.vanish()
    world.pass_time(60)
    assert len(world.broker.connections) == 1


def test_an_address_that_opens_too_many_connections_is_not_heard() -> None:
    world = World(address_connects_per_s_max=3)
    for index in range(3):
        world.connect(f"c-{index}")
    refused = world.open()
    refused.send(Connect("c-3"))
    assert refused.is_closed
    assert refused.read() == []
    assert world.broker.refused_addresses == 1
    assert len(world.broker.connections) == 3
    world.pass_time(1)
    world.connect("c-3")
