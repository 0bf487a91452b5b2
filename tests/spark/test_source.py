"""The source in a real Spark session, with real brokers and receiver processes."""

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from braidmq.client import BlockingClient
from braidmq.spark._columns import ColumnBuilder, identify
from braidmq.spark.segments import pack
from braidmq.spark.wal import SegmentWriter, Wal
from braidmq.wire import Properties, Publish
from tests.spark.connect_query import MESSAGES
from tests.spark.messages import batch_of
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


def test_it_goes_on_from_its_checkpoint_within_its_limits_and_ends_when_told_to(
    spark: SparkSession, topics: Topics
) -> None:
    """A query with availableNow, twice: what waits at the broker is read, in batches, each row once."""
    checkpoint, out = str(topics.folder / "checkpoint"), str(topics.folder / "out")
    chosen = {"maxOffsetsPerTrigger": 400, "availableNowQuiet": "500ms", "subscribersPerBroker": 2}

    def run() -> list[dict[str, Any]]:
        writer = topics.stream(spark, **chosen).writeStream.format("parquet").option("path", out)
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()
        return [json.loads(progress.json) for progress in query.recentProgress]

    run()  # the group begins to exist
    topics.publish(0, 1_000)
    batches = [progress for progress in run() if progress["numInputRows"]]
    assert [progress["numInputRows"] for progress in batches] == [400, 400, 200]
    (source,) = batches[0]["sources"]
    stored = {name: end for name, end in source["latestOffset"].items() if not name.startswith("#")}
    assert sum(stored.values()) - sum(source["endOffset"].values()) == 600  # the lag
    assert (source["latestOffset"]["#receivers"], source["latestOffset"]["#connected"]) == (2, 2)
    topics.publish(1_000, 10)
    run()
    rows = spark.read.parquet(out).collect()
    assert Counter(row.payload for row in rows) == Counter(str(n).encode() for n in range(1_010))


def test_a_range_of_the_log_is_read_without_a_broker(spark: SparkSession, topics: Topics) -> None:
    wal = Wal(str(topics.folder / "wal"))
    writer = SegmentWriter(wal, "s", first=100)
    for first in (0, 5):
        batch = batch_of(*[Publish("t", str(n).encode()) for n in range(first, first + 5)])
        builder = ColumnBuilder()
        builder.add(batch, 0, identify(batch))
        writer.write(pack(builder, "h:1"), 50)
    writer.close()

    def read(**options: str) -> list[bytes]:
        reader = spark.read.format("mqtt").option("walLocation", str(topics.folder / "wal"))
        return [row.payload for row in reader.options(**options).load().orderBy("offset").collect()]

    assert read() == [b"%d" % n for n in range(10)]
    assert read(startingOffsets='{"s": 103}', endingOffsets='{"s": 107}') == [b"3", b"4", b"5", b"6"]
    with pytest.raises(Exception, match="rows 90 to 99 of s are not in"):
        read(startingOffsets='{"s": 90}')
    assert len(read(startingOffsets='{"s": 90}', failOnDataLoss="false")) == 10


def test_retained_messages_are_a_table(spark: SparkSession, topics: Topics) -> None:
    with BlockingClient(topics.address) as client:
        for n in range(5):
            client.publish(f"{topics.name}/{n}", str(n), qos=1, retain=True)
        client.publish(f"{topics.name}/9", b"live", qos=1)
    reader = spark.read.format("mqtt").option("brokers", topics.address)
    rows = reader.option("topicFilter", f"{topics.name}/#").option("snapshotQuiet", "300ms").load().collect()
    assert sorted((row.topic, row.payload, row.retain) for row in rows) == [
        (f"{topics.name}/{n}", str(n).encode(), True) for n in range(5)
    ]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"qos": "7"}, "option qos must be a whole number from 0 to 2"),
        ({"topicFliter": "x"}, "did you mean topicFilter?"),
    ],
)
def test_a_wrong_option_is_refused_by_name_before_anything_starts(
    spark: SparkSession, topics: Topics, change: dict[str, str], named: str
) -> None:
    with pytest.raises(Exception, match=re.escape(named)):
        topics.stream(spark, **change)  # `load()` says it, in our words
    assert not (topics.folder / "wal").exists()


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_it_works_over_spark_connect(spark: SparkSession, address: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.spark.connect_query", address, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert f"received {list(range(MESSAGES))}" in done.stdout, done.stderr[-2_000:]
