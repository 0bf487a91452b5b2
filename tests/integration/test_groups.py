"""Shared groups over real sockets: who gets what, what waits, and what clients may say of themselves."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import httpx
import pytest

from braidmq.wire import V311, Disconnect, Pingresp, Puback, Pubcomp, Publish, Pubrec, Pubrel
from braidmq.wire.pingreq import ExtendedPingreq, encode_pingreq
from tests.support.broker import Broker, start_braidmq
from tests.support.raw import RawClient

MALFORMED = 0x81
TIMEOUT_S = 10.0


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    started = start_braidmq({"groups": {"status_topic": True}}, "--admin-port", "0")
    yield started
    started.stop()


def connect(broker: Broker, client_id: str, version: int = 5, **fields: object) -> RawClient:
    client = RawClient(broker.port, version)
    client.connect(client_id, **fields)  # type: ignore[arg-type]
    return client


def group(broker: Broker, name: str) -> dict[str, object]:
    found = httpx.get(f"{broker.admin_address()}/groups", params={"limit": 1000}).json()["items"]
    [state] = [state for state in found if state["name"] == name]
    return dict(state)


def reports(broker: Broker, outcome: str) -> float:
    line = f'braidmq_status_reports_total{{outcome="{outcome}"}} '
    text = httpx.get(f"{broker.admin_address()}/metrics").text
    return float(next(found for found in text.splitlines() if found.startswith(line)).removeprefix(line))


def answer(client: RawClient, packet: Publish) -> None:
    if packet.qos == 1:
        client.send(Puback(packet.packet_id))
    elif packet.qos == 2:
        client.send(Pubrec(packet.packet_id))
        client.expect(Pubrel)
        client.send(Pubcomp(packet.packet_id))


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_each_message_goes_to_one_member(broker: Broker, qos: int) -> None:
    topic = f"one-each/{qos}"
    members = [connect(broker, f"m{qos}-{number}") for number in range(3)]
    for member in members:
        member.subscribe(f"$share/each{qos}/{topic}", qos=qos)
    publisher = connect(broker, f"p{qos}")
    for number in range(30):
        publisher.publish(topic, b"%d" % number, qos=qos)
    publisher.barrier()
    got: list[bytes] = []
    for member in members:
        for packet in [packet for packet in member.barrier() if isinstance(packet, Publish)]:
            answer(member, packet)
            got.append(packet.payload)
    assert sorted(got) == sorted(b"%d" % number for number in range(30))


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_what_comes_while_nobody_is_there_goes_to_whoever_returns(broker: Broker, qos: int) -> None:
    name = f"backlog{qos}"
    for client_id in (f"{name}-a", f"{name}-b"):
        member = connect(broker, client_id, session_expiry_s=300)
        member.subscribe(f"$share/{name}/{name}", qos=qos)
        member.send(Disconnect())
        member.expect_closed()
    publisher = connect(broker, f"{name}-p")
    for number in range(5):
        publisher.publish(name, b"%d" % number, qos=qos)
    publisher.barrier()
    assert group(broker, name)["waiting_messages"] == 5
    back = connect(broker, f"{name}-b", clean_start=False, session_expiry_s=300)
    for packet in [back.expect(Publish, payload=b"%d" % number) for number in range(5)]:
        answer(back, packet)
    assert group(broker, name)["waiting_messages"] == 0


def reporting(broker: Broker, client_id: str, way: str = "1") -> RawClient:
    asked = (("status-ping", way), ("ack-mode", "processed"))
    return connect(broker, client_id, user_properties=asked)


def test_a_client_that_asked_reports_by_ping(broker: Broker) -> None:
    client = reporting(broker, "reporter")
    agreed = dict(client.connack.properties.user_properties)
    assert agreed == {"status-ping": "1", "status-interval": "1000"}
    client.subscribe("$share/reported/t", qos=1)
    client.send_bytes(encode_pingreq(ExtendedPingreq(b'{"msgsInQueue":3,"processingTimePerMsg":25.0}')))
    client.expect(Pingresp)
    [member] = group(broker, "reported")["members"]  # type: ignore[misc]
    assert (member["reported_queue"], member["service_ms"]) == (3, 25.0)
    assert member["acks_when_processed"]


def test_who_did_not_ask_is_told_nothing_and_may_not_report_by_ping(broker: Broker) -> None:
    client = connect(broker, "stranger")
    assert client.connack.properties.user_properties == ()
    client.send_bytes(encode_pingreq(ExtendedPingreq(b'{"msgsInQueue":3,"processingTimePerMsg":25.0}')))
    client.expect_disconnect(MALFORMED)


@pytest.mark.parametrize(
    ("payload", "outcome"),
    [
        (b"\xff\xfe", "not JSON"),
        (b"[" * 500, "not JSON"),
        (b"[]", "not an object"),
        (b"{}", "missing field"),
        (b'{"msgsInQueue":-1,"processingTimePerMsg":1}', "out of range"),
        (b'{"msgsInQueue":1,"processingTimePerMsg":1e999}', "not JSON"),
        (b'{"msgsInQueue":1,"processingTimePerMsg":NaN}', "not JSON"),
        (b'{"msgsInQueue":1,"processingTimePerMsg":3600001}', "out of range"),
        (b'{"msgsInQueue":1000001,"processingTimePerMsg":1}', "out of range"),
        (b'{"msgsInQueue":"1","processingTimePerMsg":1}', "wrong type"),
        (b'{"msgsInQueue":true,"processingTimePerMsg":1}', "wrong type"),
        (b'{"msgsInQueue":1,"numberOfMsgsInQueue":2,"processingTimePerMsg":1}', "contradiction"),
        (b'{"msgsInQueue":1,"processingTimePerMsg":1,"x":"' + b"y" * 1000 + b'"}', "too large"),
    ],
)
def test_a_hostile_report_is_counted_and_not_used(broker: Broker, payload: bytes, outcome: str) -> None:
    before = reports(broker, outcome)
    client = reporting(broker, "hostile")
    client.subscribe("$share/hostile/t", qos=1)
    client.send_bytes(encode_pingreq(ExtendedPingreq(payload)))
    client.expect(Pingresp)
    assert reports(broker, outcome) == before + 1
    [member] = group(broker, "hostile")["members"]  # type: ignore[misc]
    assert member["reported_queue"] is None


def test_reports_that_come_too_often_are_left_out(broker: Broker) -> None:
    before = reports(broker, "too often")
    client = reporting(broker, "eager")
    frame = encode_pingreq(ExtendedPingreq(b'{"msgsInQueue":0,"processingTimePerMsg":1}'))
    client.send_bytes(frame * 200)
    for _ in range(200):
        client.expect(Pingresp)
    assert reports(broker, "too often") > before


def test_a_malformed_body_ends_the_connection(broker: Broker) -> None:
    client = reporting(broker, "malformed")
    client.send_bytes(b"\xc0\x02\x05\x26")  # properties that are longer than the packet
    client.expect_disconnect(MALFORMED)


@pytest.mark.parametrize("version", [V311, 5])
def test_reports_by_publish_are_taken_and_not_routed(broker: Broker, version: int) -> None:
    watcher = connect(broker, f"watcher{version}")
    watcher.subscribe("$load/#", qos=0)
    name = f"told{version}"
    client = reporting(broker, name, "publish") if version == 5 else connect(broker, name, V311)
    client.subscribe(f"$share/{name}/t", qos=1)
    for qos in (0, 1):
        client.publish(f"$load/{name}", b'{"msgsInQueue":7,"processingTimePerMsg":2}', qos=qos)
    client.barrier()
    [member] = group(broker, name)["members"]  # type: ignore[misc]
    assert member["reported_queue"] == 7
    client.publish("$load/somebody-else", b'{"msgsInQueue":0,"processingTimePerMsg":1}')
    client.barrier()
    watcher.expect_nothing()


def test_a_policy_is_changed_by_the_api_and_by_a_reload() -> None:
    broker = start_braidmq({"groups": {"policy": "round_robin"}}, "--admin-port", "0")
    try:
        member = connect(broker, "member")
        member.subscribe("$share/crew/jobs", qos=1)
        assert group(broker, "crew")["policy"] == "round_robin"
        address = f"{broker.admin_address()}/groups/crew"
        changed = httpx.put(address, json={"policy": "weighted", "options": {"weights": {"member": 3}}})
        assert [state["policy"] for state in changed.json()["groups"]] == ["weighted"]
        refused = httpx.put(address, json={"policy": "weighted", "options": {"weights": {"member": -3}}})
        assert refused.status_code == 400
        config = broker.directory / "broker.toml"
        config.write_text('[groups]\npolicy = "sticky"\n\n[groups.override.crew]\npolicy = "hash_topic"\n')
        os.kill(broker.pid, signal.SIGHUP)
        deadline = time.monotonic() + TIMEOUT_S
        while group(broker, "crew")["policy"] != "hash_topic":
            assert time.monotonic() < deadline, broker.log()
        shown = httpx.get(f"{broker.admin_address()}/config").json()["groups"]
        assert (shown["policy"], shown["override"]["crew"]["policy"]) == ("sticky", "hash_topic")
    finally:
        broker.stop()
