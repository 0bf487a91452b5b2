"""Exact counts under kill -9 of receivers, driver and broker; with ours and with Mosquitto.

The driver is the stand-in of mini.py, so that a kill costs tenths of a second; soak.py does the same to
Spark.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.conftest import java_is_there
from tests.spark.query import (
    AttackedQuery,
    AttackedSparkQuery,
    DurableBroker,
    Publisher,
    expect_each_once,
)
from tests.spark.waiting import wait_for

ROUNDS = 2
EACH = 3_000
SPARK_WAIT_S = 300.0  # a JVM takes its time on a busy machine


@pytest.fixture
def kind() -> str:
    return "braidmq"


@pytest.fixture
def broker(kind: str) -> Iterator[DurableBroker]:
    running = DurableBroker(kind)
    yield running
    running.stop()


@pytest.fixture
def query(broker: DurableBroker, tmp_path: Path) -> Iterator[AttackedQuery]:
    running = AttackedQuery(
        tmp_path,
        brokers=broker.address,
        topicFilter="kills/#",
        subscribersPerBroker=2,
        receiveMaximum=1_000,
        maxOffsetsPerTrigger=2_000,
    )
    yield running
    running.stop()


def test_receivers_die_with_their_driver(broker: DurableBroker, query: AttackedQuery) -> None:
    wait_for(lambda: len(query.receivers()) == 2, "the receivers")
    orphans = query.receivers()
    query.kill_driver()
    wait_for(lambda: not any(orphan.is_running() for orphan in orphans), "the end of the receivers")


@pytest.mark.parametrize(
    ("kind", "victims"),
    [
        ("braidmq", "receivers"),
        ("braidmq", "driver"),
        ("braidmq", "broker"),
        ("braidmq", "everything"),
        ("mosquitto", "receivers"),
        ("mosquitto", "everything"),
    ],
)
def test_every_acknowledged_message_is_read_exactly_once(
    broker: DurableBroker, query: AttackedQuery, victims: str
) -> None:
    publisher = Publisher("kills")
    publisher.wait_for_subscribers(broker.address)
    for _ in range(ROUNDS):
        publisher.publish(broker.address, EACH)
        if victims in ("receivers", "everything"):
            query.kill_receivers()
        if victims in ("driver", "everything"):
            query.kill_driver()
            query.start()
        if victims in ("broker", "everything"):
            broker.kill()
            broker.start()
            publisher.wait_for_subscribers(broker.address)
    expect_each_once(query, publisher)


@pytest.mark.xdist_group("spark")
@pytest.mark.timeout(900)
def test_spark_reads_every_message_once_whatever_is_killed(tmp_path: Path) -> None:
    if not java_is_there():
        pytest.skip("no Java runtime, 17 or newer (Debian: apt-get install openjdk-17-jre-headless)")
    broker = DurableBroker("braidmq")
    options = {"brokers": broker.address, "topicFilter": "kills/#", "subscribersPerBroker": 2}
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
        expect_each_once(query, publisher, SPARK_WAIT_S)
    finally:
        query.stop()
        broker.stop()
