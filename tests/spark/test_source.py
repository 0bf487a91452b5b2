"""The source in a real Spark session, with real brokers and receiver processes."""

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from braidmq.client import BlockingClient
from braidmq.wire import Properties
from tests.spark.waiting import wait_for

pytestmark = pytest.mark.xdist_group("spark")


class Topics:
    """The topics of one test, so that tests can share a broker."""

    def __init__(self, address: str, name: str, folder: Path) -> None:
        self.address = address
        self.name = name
        self.folder = folder

    def stream(self, spark: SparkSession, **options: object) -> DataFrame:
        reader = spark.readStream.format("mqtt").option("brokers", self.address).option("group", self.name)
        reader = reader.option("topicFilter", f"{self.name}/#")
        reader = reader.option("walLocation", str(self.folder / "wal"))
        return reader.options(**options).load()

    def publish(self, first: int, count: int) -> None:
        with BlockingClient(self.address) as client:
            numbers = range(first, first + count)
            client.publish_many(((f"{self.name}/{n % 7}", str(n)) for n in numbers), qos=1)

    def wait_for_receivers(self) -> None:
        """Until somebody is subscribed; leaves one message behind."""
        with BlockingClient(self.address) as client:
            wait_for(lambda: client.publish(f"{self.name}/0", b"first", qos=1).reason == 0, "the receivers")


@pytest.fixture
def topics(address: str, name: str, tmp_path: Path) -> Topics:
    return Topics(address, name, tmp_path)


def test_every_message_becomes_a_row_with_all_its_columns(spark: SparkSession, topics: Topics) -> None:
    messages = topics.stream(spark, subscribersPerBroker=2)
    query = messages.writeStream.format("memory").queryName("rows").start()
    topics.wait_for_receivers()
    topics.publish(0, 2_000)
    told = Properties(
        content_type="text/plain",
        response_topic="answers",
        correlation_data=b"\x00\xff",
        user_properties=(("ts", "1700000000123"), ("site", "a"), ("site", "b")),
    )
    with BlockingClient(topics.address) as client:
        client.publish(f"{topics.name}/special", b"\xfe", qos=1, properties=told)
    wait_for(lambda: spark.table("rows").count() >= 2_002, "all rows")
    rows = spark.table("rows").collect()
    query.stop()

    assert len(rows) == 2_002
    assert {row.payload for row in rows} == {b"first", b"\xfe"} | {str(n).encode() for n in range(2_000)}
    assert {row.broker for row in rows} == {topics.address}
    assert len({(row.subscriber, row.offset) for row in rows}) == 2_002
    (special,) = [row for row in rows if row.topic.endswith("/special")]
    assert (special.content_type, special.response_topic) == ("text/plain", "answers")
    assert special.correlation_data == b"\x00\xff"
    assert special.user_properties == {"ts": "1700000000123", "site": "a"}
    assert special.published_at.timestamp() == pytest.approx(1_700_000_000.123)
    assert (special.qos, special.retain, special.dup) == (1, False, False)
