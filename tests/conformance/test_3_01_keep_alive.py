"""Sections 3.1.2.10 and 3.12: keep alive, server keep alive, ping."""

from __future__ import annotations

import contextlib

import pytest

from braidmq.wire import Packet, Pingreq, Pingresp, Publish, Will
from tests.conformance.kit import Connector, Elapse, Limited, Reason
from tests.support.raw import ClosedError


@pytest.mark.mqtt("MQTT-3.1.2-22", "MQTT-3.2.2-22", "MQTT-3.14.4-1", "MQTT-3.14.4-2")
def test_a_silent_client_is_cut_off_as_if_the_network_had_failed(connect: Connector, name: str) -> None:
    witness = connect()
    witness.subscribe(name)
    silent = connect(keep_alive_s=1, will=Will(name, b"gone"))
    assert silent.connack.properties.server_keep_alive_s is None
    silent.expect_disconnect(Reason.KEEP_ALIVE_TIMEOUT)
    witness.take(payload=b"gone")


@pytest.mark.mqtt311("MQTT-3.1.2-24")
@pytest.mark.parametrize("version", [3, 4])
def test_a_silent_client_is_cut_off_without_a_word_below_v5(connect: Connector, version: int) -> None:
    connect(version=version, keep_alive_s=1).expect_closed()


@pytest.mark.mqtt("MQTT-3.1.2-22")
def test_keep_alive_zero_is_never_cut_off(connect: Connector, elapse: Elapse) -> None:
    client = connect(keep_alive_s=0)
    elapse()
    client.expect_nothing()


@pytest.mark.mqtt("MQTT-3.1.2-22")
def test_only_received_packets_keep_a_client_alive(connect: Connector, name: str) -> None:
    silent = connect(keep_alive_s=1)
    silent.subscribe(name)
    chatty = connect()
    silent.sock.settimeout(0.1)
    received: list[Packet] = []
    with contextlib.suppress(ClosedError):
        while not received or isinstance(received[-1], Publish):
            chatty.publish(name, b"to the silent one")
            with contextlib.suppress(TimeoutError):
                received.append(silent.receive())
    assert len(received) > 1
    assert isinstance(received[0], Publish)


@pytest.mark.mqtt("MQTT-3.1.2-22")
def test_any_packet_keeps_a_client_alive(connect: Connector, name: str) -> None:
    silent, talking = connect(keep_alive_s=1), connect(keep_alive_s=1)
    silent.sock.settimeout(0.2)
    # The silent neighbour, who has the same keep alive, is the clock of this test.
    cut_off = False
    while not cut_off:
        talking.send(Publish(name, b"I am here"))
        with contextlib.suppress(TimeoutError):
            silent.expect_disconnect(Reason.KEEP_ALIVE_TIMEOUT)
            cut_off = True
    talking.expect_nothing()


@pytest.mark.mqtt("MQTT-3.2.2-22", "MQTT-3.1.2-21", "MQTT-3.2.2-21")
@pytest.mark.parametrize("asked_s", [0, 2, 65_535])
def test_a_server_keep_alive_replaces_the_clients(limited: Limited, connect: Connector, asked_s: int) -> None:
    client = connect(to=limited(keep_alive_s_max=1), keep_alive_s=asked_s)
    assert client.connack.properties.server_keep_alive_s == 1
    client.expect_disconnect(Reason.KEEP_ALIVE_TIMEOUT)


@pytest.mark.mqtt("MQTT-3.12.4-1")
@pytest.mark.mqtt311("MQTT-3.12.4-1")
@pytest.mark.parametrize("version", [3, 4, 5])
def test_each_pingreq_gets_a_pingresp(connect: Connector, version: int) -> None:
    client = connect(version=version)
    client.send(Pingreq(), Pingreq(), Pingreq())
    for _ in range(3):
        client.expect(Pingresp)
        assert (client.last_frame.first_byte, client.last_frame.body) == (0xD0, b"")
