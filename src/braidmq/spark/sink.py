"""The MQTT sink: `df.writeStream.format("mqtt")` and `df.write.format("mqtt").mode("append")`.

Each task publishes its partition over one connection, with as many messages on their way as the window
allows, and is done when the broker has acknowledged all of them. Delivery is at least once: a task or batch
that Spark runs again publishes again, and its messages carry the same marks (`braidmq.spark.repeats`).

Partition p begins with broker p modulo their number, and goes to the others when that one can't be reached.
"""

import itertools
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from braidmq.client import BlockingClient, publish_patiently
from braidmq.errors import BraidError, ConfigError
from braidmq.spark.outgoing import RowError, RowPackets
from braidmq.spark.repeats import Marker
from braidmq.spark.sink_options import SinkOptions, parse_sink_options
from braidmq.wire import Publish

# What Spark tells a task of a streaming query, also inside foreachBatch.
QUERY_PROPERTY = "sql.streaming.queryId"
BATCH_PROPERTY = "streaming.sql.batchId"
NO_BATCH = "0"

T = TypeVar("T")


@dataclass
class Published(WriterCommitMessage):
    """What one task has published."""

    rows: int


class _Publisher:
    """What the streaming and the batch writer have in common. Is pickled into every task."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = parse_sink_options(options)
        types = {field.name: field.dataType.simpleString() for field in schema.fields}
        self._packets = RowPackets(self._options, types)
        # The same in all tasks of a batch job and in their repetitions, since it is made before they start.
        self._job = self._options.run_id or uuid.uuid4().hex

    def publish(self, batches: Iterator[pa.RecordBatch]) -> Published:
        filled = (batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        if first is None:
            return Published(0)
        task = TaskContext.get()
        assert task is not None, "Spark runs a writer inside a task"
        marker = Marker(*self._run_of(task), task.partitionId())
        rows = 0
        with connect(self._options, task.partitionId()) as client:
            for batch in itertools.chain([first], filled):
                self._publish_batch(client, batch, marker, rows)
                rows += batch.num_rows
        return Published(rows)

    def _run_of(self, task: TaskContext) -> tuple[str, str]:
        """Query and batch: the same when Spark runs the same rows again."""
        query, batch = task.getLocalProperty(QUERY_PROPERTY), task.getLocalProperty(BATCH_PROPERTY)
        if self._options.run_id is None and query and batch:
            return query, batch
        return self._job, NO_BATCH

    def _publish_batch(
        self, client: BlockingClient, batch: pa.RecordBatch, marker: Marker, first_row: int
    ) -> None:
        made = self._packets.packets(batch, marker if self._options.marks else None, first_row)
        packets: list[Publish] = []
        try:
            packets.extend(made)
        except RowError as error:
            raise _row_error(first_row + len(packets), error) from error
        outcomes = publish_patiently(client, packets, self._options.request_timeout_s)
        for at, outcome in enumerate(outcomes):
            if isinstance(outcome, BraidError):
                raise _row_error(first_row + at, outcome) from outcome


class MqttStreamWriter(DataSourceStreamArrowWriter):
    """Writes the micro-batches of a query."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._publisher = _Publisher(options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Published:
        return self._publisher.publish(iterator)


class MqttWriter(DataSourceArrowWriter):
    """Writes the rows of a batch job."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise ConfigError('mqtt sink: messages can\'t be overwritten; use .mode("append")')
        self._publisher = _Publisher(options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Published:
        return self._publisher.publish(iterator)


def connect(options: SinkOptions, partition: int) -> BlockingClient:
    """A client for one task, not yet open."""
    brokers = rotated(options.connection.brokers, partition)
    choices = options.connection.client_choices(brokers[0])
    choices["pending_publishes_max"] = options.window
    choices["connect_patience_s"] = options.connect_timeout_s
    choices["request_timeout_s"] = options.request_timeout_s
    return BlockingClient([str(broker) for broker in brokers], **choices)


def rotated(brokers: Sequence[T], by: int) -> list[T]:
    """The brokers in another order for each partition, so that all of them get work."""
    at = by % len(brokers)
    return [*brokers[at:], *brokers[:at]]


def _row_error(row: int, error: Exception) -> RowError:
    task = TaskContext.get()
    where = f"partition {task.partitionId()}" if task is not None else "the partition"
    return RowError(f"mqtt sink: row {row} of {where}: {error}")
