"""Exact counts, with equal payloads and a foreign publisher, whatever is killed, restarted or cut.

The driver is the stand-in of mini.py, so that a kill costs tenths of a second; soak.py does the same to
Spark, for as long as wanted and in every pairing.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults import FaultProxy, FaultProxyThread
from tests.spark.conftest import java_is_there
from tests.spark.query import AttackedQuery, AttackedSparkQuery, DurableBroker, Publisher, expect
from tests.spark.waiting import wait_for

EACH = 600
SPARK_WAIT_S = 300.0  # a JVM takes its time on a busy machine


class Attacked:
    """A broker behind a network, and two queries side by side that read the same topics."""

    def __init__(self, kind: str, folder: Path, queries: int) -> None:
        self.broker = DurableBroker(kind)
        self.network = FaultProxyThread("127.0.0.1", self.broker.port).__enter__()
        self.publisher = Publisher("kills")
        self.queries = [self._query(folder / f"query{number}") for number in range(queries)]

    def _query(self, folder: Path) -> AttackedQuery:
        folder.mkdir()
        return AttackedQuery(
            folder,
            brokers=self.network.address,
            topicFilter="kills/#",
            group=folder.name,
            subscribersPerBroker=2,
            receiveMaximum=400,
            maxOffsetsPerTrigger=1_000,
        )

    def cut(self) -> None:
        self.network.call(FaultProxy.cut)

    def cut_early(self) -> None:
        """New connections break when some acknowledgements are through."""
        self.network.call(lambda faults: faults.cut_after(to_server=700))
        self.cut()

    def heal(self) -> None:
        self.network.call(lambda faults: faults.cut_after(to_server=None))
        self.cut()

    def kill_receivers(self) -> None:
        for query in self.queries:
            query.kill_receivers()

    def kill_drivers(self) -> None:
        for query in self.queries:
            query.kill_driver()
            query.start()

    def kill_broker(self) -> None:
        self.broker.kill()
        self.broker.start()

    def wait_for_subscribers(self) -> None:
        self.publisher.wait_for_subscribers(self.broker.address)

    def stop(self) -> None:
        for query in self.queries:
            query.stop()
        self.network.__exit__(None, None, None)
        self.broker.stop()


@pytest.fixture
def attack(tmp_path: Path) -> Iterator[Callable[[str, int], Attacked]]:
    started: list[Attacked] = []

    def begin(kind: str, queries: int) -> Attacked:
        started.append(Attacked(kind, tmp_path, queries))
        for query in started[-1].queries:
            query.wait_until_receiving(2)
        return started[-1]

    yield begin
    for attacked in started:
        attacked.stop()


@pytest.mark.timeout(300)
def test_our_broker_loses_and_doubles_nothing(attack: Callable[[str, int], Attacked]) -> None:
    under = attack("braidmq", 2)
    first = under.queries[0].receivers()
    steps: list[Callable[[], None]] = [
        under.kill_receivers,
        under.broker.restart,
        under.cut_early,
        under.kill_receivers,
        under.heal,
        under.kill_drivers,
        under.kill_broker,
        under.cut,
        lambda: (under.kill_receivers(), under.kill_broker(), under.kill_drivers())[-1],
    ]
    for number, step in enumerate(steps):
        under.publisher.publish(under.broker.address, EACH, qos=1 + number % 2)
        step()
    under.publisher.publish(under.broker.address, EACH)
    for query in under.queries:
        expect(query, under.publisher.wanted)
    assert not any(process.is_running() for process in first)  # receivers die with their driver


@pytest.mark.timeout(300)
def test_mosquitto_loses_nothing(attack: Callable[[str, int], Attacked]) -> None:
    under = attack("mosquitto", 1)
    steps = [under.kill_receivers, under.cut_early, under.heal, under.kill_broker, under.kill_drivers]
    for step in steps:
        under.publisher.publish(under.broker.address, EACH)
        step()
        if step == under.kill_broker:  # it forgets shared subscriptions when it dies
            under.wait_for_subscribers()
    expect(under.queries[0], under.publisher.wanted, exact=False)


@pytest.mark.soak
@pytest.mark.xdist_group("spark")
@pytest.mark.timeout(900)
def test_spark_reads_every_message_once_whatever_is_killed(tmp_path: Path) -> None:
    if not java_is_there():
        pytest.skip("no Java runtime, 17 or newer (Debian: apt-get install openjdk-17-jre-headless)")
    broker = DurableBroker("braidmq")
    options = {"brokers": broker.address, "topicFilter": "kills/#", "group": "g", "subscribersPerBroker": 2}
    query = AttackedSparkQuery(tmp_path, **options, receiveMaximum=1_000, maxOffsetsPerTrigger=3_000)
    publisher = Publisher("kills")
    try:
        publisher.wait_for_subscribers(broker.address, SPARK_WAIT_S)
        publisher.publish(broker.address, EACH)
        query.kill_receivers()
        wait_for(lambda: query.kill_workers() > 0, "a worker to kill", SPARK_WAIT_S)
        publisher.publish(broker.address, EACH)
        query.kill_driver()
        publisher.publish(broker.address, EACH)
        query.start()
        broker.kill()
        broker.start()
        expect(query, publisher.wanted, timeout_s=SPARK_WAIT_S)
    finally:
        query.stop()
        broker.stop()
