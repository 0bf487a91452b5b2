"""Two workers look like one broker to clients that connect to one port."""

import os
import signal
from collections.abc import Callable, Iterator

import pytest

from braidmq.wire import Pingreq, Pingresp, Puback, Publish
from tests.support.broker import Broker, start_braidmq
from tests.support.raw import RawClient
from tests.workers.processes import WORKERS, client_id_of, connected, until

Connect = Callable[..., RawClient]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    running = start_braidmq(None, "--workers", str(WORKERS))
    yield running
    assert running.stop() == 0


@pytest.fixture
def connect(broker: Broker) -> Iterator[Connect]:
    opened: list[RawClient] = []

    def connect(client_id: str, **options: object) -> RawClient:
        opened.append(connected(broker.port, client_id, **options))
        return opened[-1]

    yield connect
    for client in opened:
        client.close()


def at_both(connect: Connect, word: str) -> list[RawClient]:
    return [connect(client_id_of(owner, word)) for owner in range(WORKERS)]


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_what_is_published_at_any_worker_comes_once_to_subscribers_at_all(connect: Connect, qos: int) -> None:
    subscribers, publishers = at_both(connect, f"sub{qos}"), at_both(connect, f"pub{qos}")
    for subscriber in subscribers:
        subscriber.subscribe(f"across{qos}/+", qos=2)
    for publisher in publishers:
        for number in range(20):
            publisher.publish(f"across{qos}/{publisher.client_id}", b"%d" % number, qos=qos)
    for publisher in publishers:  # behind all the others, on the same way
        publisher.publish(f"across{qos}/end", publisher.client_id.encode(), qos=qos)
    for subscriber in subscribers:
        got: dict[str, list[bytes]] = {}
        while len(got.get(f"across{qos}/end", [])) < len(publishers):
            message = subscriber.take(qos=qos)
            got.setdefault(message.topic, []).append(message.payload)
        for publisher in publishers:
            assert got[f"across{qos}/{publisher.client_id}"] == [b"%d" % number for number in range(20)]


def test_what_is_retained_at_one_worker_is_there_at_the_other(connect: Connect) -> None:
    publisher, subscriber = at_both(connect, "retained")
    subscriber.subscribe("kept/mark")
    publisher.publish("kept/state", b"on", qos=1, retain=True)
    publisher.publish("kept/mark", b"", qos=1)
    subscriber.take(topic="kept/mark")  # so the other has come before it
    subscriber.subscribe("kept/state")
    assert subscriber.take(topic="kept/state").retain


def test_a_shared_group_has_members_at_both_and_each_message_goes_to_one(connect: Connect) -> None:
    members = at_both(connect, "member")
    for member in members:
        member.subscribe("$share/g/shared/t", qos=1)
    publisher = connect(client_id_of(0, "crowd"))
    wanted = {b"%d" % number for number in range(40)}
    for payload in sorted(wanted):
        publisher.publish("shared/t", payload, qos=1)
    got: list[bytes] = []

    def all_came() -> bool:
        for member in members:
            got.extend(taken(member))
        return len(got) >= len(wanted)

    until(all_came)
    assert sorted(got) == sorted(wanted)


def taken(member: RawClient) -> list[bytes]:
    """What has come so far, acknowledged."""
    member.send(Pingreq())
    found = []
    while True:
        packet = member.receive()
        if isinstance(packet, Pingresp):
            return found
        assert isinstance(packet, Publish)
        member.send(Puback(packet.packet_id))
        found.append(packet.payload)


def test_a_session_is_found_again_whoever_accepts_the_connection(broker: Broker, connect: Connect) -> None:
    for number in range(20):
        client_id = f"lasting-{number}"
        first = connect(client_id, expiry_s=60)
        second = connect(client_id, clean_start=False, expiry_s=60)  # which takes it over
        assert second.connack.session_present
        first.expect_disconnect(0x8E)


def test_a_reload_is_passed_on_to_all(broker: Broker) -> None:
    os.kill(broker.pid, signal.SIGHUP)
    until(lambda: reloaded(broker))


def reloaded(broker: Broker) -> bool:
    lines = [line for line in broker.log().splitlines() if '"reloaded"' in line]
    return all(any(f'"worker-{number}"' in line for line in lines) for number in range(WORKERS))


def test_a_client_that_is_given_its_id_finds_its_session_under_it(connect: Connect) -> None:
    for _ in range(8):
        client = connect("", expiry_s=60)
        given = client.connack.properties.assigned_client_id
        assert given is not None
        assert connect(given, clean_start=False, expiry_s=60).connack.session_present
