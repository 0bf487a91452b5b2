"""The sink with a real Spark and a real broker: what arrives, what is refused, and what comes twice."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from braidmq.client import BlockingClient, Message
from braidmq.spark.repeats import MARK, RepeatFilter
from braidmq.spark.sink import rotated
from tests.support.broker import UnsupportedError, start_mosquitto

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(300)]
SILENCE_S = 20.0  # so long may an expected message take


@pytest.fixture
def received(address: str, name: str) -> Iterator[Callable[[int], list[Message]]]:
    """Subscribes to all below the test's name, and gives the next so many messages."""
    with BlockingClient(address) as client:
        client.subscribe(f"{name}/#", qos=2)

        def take(count: int) -> list[Message]:
            messages = []
            while len(messages) < count:
                batch = client.receive_batch(count - len(messages), SILENCE_S)
                assert len(batch), f"only {len(messages)} of {count} messages came"
                messages += list(batch)
            return messages

        yield take


def write(frame: DataFrame, address: str, **options: str) -> None:
    frame.write.format("mqtt").mode("append").options(brokers=address, **options).save()


def devices(spark: SparkSession, count: int, name: str) -> DataFrame:
    return spark.range(count).select(
        sql.concat(sql.lit(f"{name}/"), "id").alias("topic"), sql.col("id").cast("string").alias("payload")
    )


def test_rows_arrive_with_all_their_properties(
    spark: SparkSession, address: str, name: str, received: Callable[[int], list[Message]]
) -> None:
    frame = spark.createDataFrame(
        [("pump", b"\x00\xff", 2, {"unit": "bar"}, "text/plain", "answers", b"7", 600)],
        "device string, payload binary, qos int, user_properties map<string,string>, content_type string, "
        "response_topic string, correlation_data binary, message_expiry_s int",
    )
    write(frame, address, topic=f"{name}/{{device}}/alarm")
    [message] = received(1)
    assert (message.topic, message.payload, message.qos) == (f"{name}/pump/alarm", b"\x00\xff", 2)
    properties = message.properties
    assert (properties.content_type, properties.response_topic) == ("text/plain", "answers")
    assert properties.correlation_data == b"7"
    assert properties.message_expiry_s is not None
    assert 0 < properties.message_expiry_s <= 600
    assert properties.user_properties[0] == ("unit", "bar")
    assert properties.user_properties[1][0] == MARK


def test_every_row_of_every_partition_arrives_once(
    spark: SparkSession, address: str, name: str, received: Callable[[int], list[Message]]
) -> None:
    write(devices(spark, 5_000, name).repartition(3), address, window="500", marks="false")
    messages = received(5_000)
    assert sorted(int(message.payload) for message in messages) == list(range(5_000))
    assert messages[0].properties.user_properties == ()


def test_another_broker_will_do(spark: SparkSession, name: str) -> None:
    try:
        broker = start_mosquitto({"limits": {"queue_messages_max": 10_000}})
    except UnsupportedError as why:
        pytest.skip(str(why))
    try:
        address = f"127.0.0.1:{broker.port}"
        with BlockingClient(address) as client:
            client.subscribe(f"{name}/#", qos=1)
            write(devices(spark, 1_000, name), address, window="100")
            received: list[int] = []
            while len(received) < 1_000:
                batch = client.receive_batch(1_000, SILENCE_S)
                assert len(batch), f"only {len(received)} messages came"
                received += map(int, batch.payloads)
    finally:
        broker.stop()
    assert sorted(received) == list(range(1_000))


def test_an_option_makes_messages_retained(spark: SparkSession, address: str, name: str) -> None:
    write(devices(spark, 3, name), address, retain="true", qos="1")
    with BlockingClient(address) as late:
        late.subscribe(f"{name}/#", qos=1)
        batch = late.receive_batch(3, SILENCE_S, SILENCE_S)
    assert sorted(batch.payloads) == [b"0", b"1", b"2"]


def test_a_wrong_row_is_named(spark: SparkSession, address: str, name: str) -> None:
    topic = sql.when(sql.col("id") == 7, f"{name}/+").otherwise(f"{name}/x")
    frame = spark.range(10).coalesce(1).select(topic.alias("topic"), sql.lit("p").alias("payload"))
    with pytest.raises(PySparkException, match=r"row 7 of partition 0: a topic name has no wildcards"):
        write(frame, address)


def test_a_wrong_option_or_column_stops_the_job_before_it_starts(
    spark: SparkSession, address: str, name: str
) -> None:
    with pytest.raises(PySparkException, match="option qos must be"):
        write(devices(spark, 1, name), address, qos="7")
    with pytest.raises(PySparkException, match="payload needs column 'payload'"):
        write(devices(spark, 1, name).drop("payload"), address)
    with pytest.raises(PySparkException, match="can't be overwritten"):
        devices(spark, 1, name).write.format("mqtt").mode("overwrite").options(brokers=address).save()


def test_a_broker_that_is_not_there_is_named(spark: SparkSession, name: str) -> None:
    with pytest.raises(PySparkException, match=r"127\.0\.0\.1:1\b"):
        write(devices(spark, 1, name).coalesce(1), "127.0.0.1:1", connectTimeout="0.1")


def test_partitions_go_to_different_brokers_first() -> None:
    assert [rotated(["a", "b"], partition) for partition in range(3)] == [["a", "b"], ["b", "a"], ["a", "b"]]


ROWS = 8_000
ROW_BYTES = 2_000
KILL_AT_BATCH = 60  # by then 12 MB have gone out, more than all buffers between there and the sink hold
BATCH_ROWS = 100


def killed_once(flag: Path) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Passes batches on to the sink; the first time, its process is killed on the way."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(batches):
            if number == KILL_AT_BATCH and not flag.exists():
                flag.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield batch

    return run


def test_a_killed_task_is_run_again_and_its_repeats_can_be_dropped(
    spark: SparkSession, address: str, name: str, tmp_path: Path, received: Callable[[int], list[Message]]
) -> None:
    rows = devices(spark, ROWS, name).coalesce(1).withColumn("payload", sql.rpad("payload", ROW_BYTES, " "))
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(BATCH_ROWS))
    try:
        write(rows.mapInArrow(killed_once(tmp_path / "killed"), rows.schema), address)
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    messages = received(ROWS + BATCH_ROWS)  # fails if nothing comes twice, for then nothing is shown
    while not messages[-1].topic.endswith(f"/{ROWS - 1}"):
        messages += received(1)
    repeats = RepeatFilter()
    kept = [message for message in messages if not repeats.is_repeat(message.properties.user_properties)]
    assert [int(message.payload) for message in kept] == list(range(ROWS))


def test_a_batch_that_is_run_again_after_a_crash_has_the_same_marks(
    spark: SparkSession, address: str, name: str, tmp_path: Path, received: Callable[[int], list[Message]]
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text("\n".join(json.dumps({"n": n}) for n in range(100)))

    def run() -> None:
        rows = spark.readStream.schema("n long").json(str(tmp_path / "in"))
        messages = rows.select(sql.lit(name).alias("topic"), sql.col("n").cast("string").alias("payload"))
        query = (
            messages.writeStream.format("mqtt").options(brokers=address)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True).start()
        )  # fmt: skip
        query.awaitTermination()

    run()
    # What a driver leaves that dies when the rows are out and the batch is not yet written down as done.
    for commit in (tmp_path / "checkpoint" / "commits").iterdir():
        commit.unlink()
    run()
    repeats = RepeatFilter()
    first, again = received(100), received(100)
    assert not any(repeats.is_repeat(message.properties.user_properties) for message in first)
    assert all(repeats.is_repeat(message.properties.user_properties) for message in again)
    assert [message.payload for message in first] == [message.payload for message in again]
