"""Receiver processes under a supervisor, without Spark: what they store, when they answer, how they end."""

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from braidmq.client import BlockingClient
from braidmq.spark.options import BrokerAddress, Connection
from braidmq.spark.plan import Keep
from braidmq.spark.supervisor import Supervisor
from braidmq.spark.tasks import ReceiverTask, Report
from braidmq.spark.wal import Wal
from tests.faults import FaultProxy, FaultProxyThread
from tests.spark.waiting import wait_for
from tests.support.broker import Broker

TO_SERVER_BYTES = 500  # enough to connect and subscribe, and for some of the acknowledgements


class Receiving:
    """One receiver, named after the test."""

    def __init__(self, address: str, name: str, folder: Path) -> None:
        self.address = address
        self.name = name
        self.wal = Wal(str(folder / "wal"))
        self.supervisor = Supervisor()

    def task(self, **changes: Any) -> ReceiverTask:
        host, _, port = changes.pop("address", self.address).partition(":")
        broker = BrokerAddress(host, int(port), False)
        usual: dict[str, Any] = {
            "subscriber": self.name,
            "broker": broker,
            "connection": Connection(brokers=(broker,)),
            "subscriptions": (f"$share/{self.name}/{self.name}/#",),
            "qos": 1,
            "session_expiry_s": 3600,
            "receive_maximum": 1_000,
            "wal_location": self.wal.location,
            "wal_bytes_max": 1 << 30,
            "segment_delay_s": 0.05,
            "dedup": "auto",
        }
        return ReceiverTask(**(usual | changes))

    def start(self, **changes: Any) -> None:
        self.supervisor = Supervisor()
        self.supervisor.start([self.task(**changes)])

    def report(self) -> Report:
        return self.supervisor.reports()[0]

    def payloads(self) -> Counter[bytes]:
        counted: Counter[bytes] = Counter()
        for segment in self.wal.log(self.name):
            counted.update(self.wal.read(self.name, segment).column("payload").to_pylist())
        return counted

    def publish(self, count: int, first: int = 0, qos: int = 1) -> None:
        with BlockingClient(self.address) as client:
            numbers = range(first, first + count)
            client.publish_many(((f"{self.name}/{n % 3}", str(n)) for n in numbers), qos=qos)

    def wait_until(self, *states: str) -> None:
        wait_for(lambda: self.report().state in states, f"{states}: {self.report()}")

    def wait_for_each(self, count: int) -> None:
        wanted = {str(n).encode() for n in range(count)}
        wait_for(lambda: wanted <= self.payloads().keys(), f"{count} messages: {self.report()}")


def once(count: int) -> Counter[bytes]:
    return Counter({str(n).encode(): 1 for n in range(count)})


@pytest.fixture
def receiving(address: str, name: str, tmp_path: Path) -> Iterator[Receiving]:
    started = Receiving(address, name, tmp_path)
    yield started
    started.supervisor.stop()


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_what_is_published_is_stored_and_the_session_outlives_the_receiver(
    receiving: Receiving, qos: int
) -> None:
    receiving.start(qos=qos)
    receiving.wait_until("receiving")
    receiving.publish(500, qos=qos)
    receiving.wait_for_each(500)
    receiving.supervisor.stop()
    assert receiving.report().state == "stopped"
    if qos:
        receiving.publish(500, first=500, qos=qos)
        receiving.start(qos=qos)
        receiving.wait_for_each(1_000)
    assert receiving.payloads() == once(1_000 if qos else 500)


@pytest.mark.parametrize(
    ("qos", "dedup", "exact"), [(1, "auto", True), (1, "false", False), (2, "auto", True)]
)
def test_lost_acknowledgements(
    broker: Broker, receiving: Receiving, qos: int, dedup: str, exact: bool
) -> None:
    """Stored, acknowledged, but the broker never hears of it and delivers again.

    Without its numbers QoS 1 is doubled: so this test would notice their absence.
    """
    with FaultProxyThread("127.0.0.1", broker.port) as proxy:
        receiving.start(address=proxy.address, dedup=dedup, qos=qos)
        receiving.wait_until("receiving")
        proxy.call(lambda faults: faults.cut_after(to_server=TO_SERVER_BYTES))
        proxy.call(FaultProxy.cut)
        receiving.publish(800, qos=qos)
        wait_for(lambda: proxy.proxy.accepted >= 4, "some connections that were cut")
        proxy.call(lambda faults: faults.cut_after(to_server=None))
        proxy.call(FaultProxy.cut)
        receiving.publish(100, first=800, qos=qos)
        receiving.wait_for_each(900)
        assert (receiving.payloads() == once(900)) == exact
        assert receiving.report().repeats_by == ("numbers" if exact else "none")


@pytest.mark.parametrize("qos", [1, 2])
def test_a_process_that_dies_after_storing_stores_nothing_twice(
    broker: Broker, receiving: Receiving, qos: int
) -> None:
    with FaultProxyThread("127.0.0.1", broker.port) as proxy:
        receiving.start(address=proxy.address, qos=qos)
        receiving.wait_until("receiving")
        proxy.call(lambda faults: faults.cut_after(to_server=TO_SERVER_BYTES))
        proxy.call(FaultProxy.cut)
        receiving.publish(800, qos=qos)
        wait_for(lambda: len(receiving.payloads()) >= 100, "some rows")
        for pid in receiving.supervisor.pids().values():
            os.kill(pid or 0, signal.SIGKILL)
        wait_for(lambda: receiving.supervisor.restarts()[receiving.name] >= 1, "the restart")
        proxy.call(lambda faults: faults.cut_after(to_server=None))
        proxy.call(FaultProxy.cut)
        receiving.wait_for_each(800)
        wait_for(lambda: receiving.report().repeats > 0, "repeats")
    assert receiving.payloads() == once(800)


def test_the_log_is_bounded_and_goes_on_when_there_is_room(receiving: Receiving) -> None:
    limit_bytes = 200_000
    receiving.start(wal_bytes_max=limit_bytes, receive_maximum=100)
    receiving.wait_until("receiving")
    with BlockingClient(receiving.address) as client:
        client.publish_many(((f"{receiving.name}/0", str(n).rjust(1_000)) for n in range(1_000)), qos=1)
    receiving.wait_until("full")
    log = receiving.wal.log(receiving.name)
    assert sum(segment.size_bytes for segment in log) < 2 * limit_bytes
    seen: set[int] = set()

    def read_and_trim() -> bool:
        log = receiving.wal.log(receiving.name)
        for segment in log:
            seen.update(map(int, receiving.wal.read(receiving.name, segment).column("payload").to_pylist()))
        receiving.wal.trim(receiving.name, log, committed=log[-1].end, keep=Keep(0, 0, 0))
        return len(seen) == 1_000

    wait_for(read_and_trim, "the rest")


def test_a_broker_that_is_away_is_reported_and_waited_for(receiving: Receiving) -> None:
    with FaultProxyThread(*receiving.address.split(":")) as proxy:
        proxy.call(lambda faults: faults.refuse(True))
        receiving.start(address=proxy.address)
        wait_for(lambda: receiving.report().error != "", "the reason")
        assert receiving.report().state == "connecting"
        proxy.call(lambda faults: faults.refuse(False))
        receiving.wait_until("receiving")
        assert receiving.report().error == ""


def test_stopping_ends_the_process(receiving: Receiving) -> None:
    receiving.start()
    receiving.wait_until("receiving")
    (pid,) = receiving.supervisor.pids().values()
    process = psutil.Process(pid)
    receiving.supervisor.stop()
    assert not process.is_running()


def test_a_member_that_is_no_longer_wanted_is_drained(receiving: Receiving) -> None:
    receiving.start()
    receiving.wait_until("receiving")
    receiving.supervisor.stop()
    receiving.publish(300)
    receiving.start(drain_quiet_s=0.5)
    receiving.wait_until("drained")
    assert receiving.payloads() == once(300)
    with BlockingClient(receiving.address, client_id=receiving.name, clean_start=False) as client:
        assert not client.session.session_present
        assert client.publish(f"{receiving.name}/0", b"nobody", qos=1).reason == 0x10


def test_a_filter_that_is_no_longer_wanted_is_left(receiving: Receiving) -> None:
    receiving.start(subscriptions=(f"$share/g/{receiving.name}/old",))
    receiving.wait_until("receiving")
    receiving.supervisor.stop()
    new, old = f"$share/g/{receiving.name}/new", f"$share/g/{receiving.name}/old"
    receiving.start(subscriptions=(new,), stale_subscriptions=(old,))
    receiving.wait_until("receiving")
    with BlockingClient(receiving.address) as client:
        assert client.publish(f"{receiving.name}/old", b"", qos=1).reason == 0x10
        assert client.publish(f"{receiving.name}/new", b"", qos=1).reason == 0
