"""`spark.readStream.format("mqtt")` and `spark.read.format("mqtt")`: thin, all decisions are made elsewhere.

Spark builds readers in several processes, also just to pickle them, so building one checks options and does
nothing else. Only the process that asks for offsets gets a `StreamDriver`, with its receivers and lock.
"""

import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType
from typing import Any

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from braidmq.errors import ConfigError
from braidmq.spark.driver import DataLossError, StreamDriver
from braidmq.spark.metrics import serve_metrics
from braidmq.spark.offsets import Offsets, resolve
from braidmq.spark.plan import Slice, TriggerLimits, partitions, slices
from braidmq.spark.preflight import check_connection
from braidmq.spark.reading import read_slices
from braidmq.spark.schema import spark_schema
from braidmq.spark.snapshot import read_retained
from braidmq.spark.source_options import (
    SnapshotOptions,
    StreamOptions,
    WalRangeOptions,
    means_stream,
    read_batch_options,
    read_stream_options,
)
from braidmq.spark.wal import Wal


def stream_reader(options: Mapping[str, str], schema: StructType) -> "MqttStreamReader":
    _check_schema(schema)
    return MqttStreamReader(read_stream_options(options))


def batch_reader(options: Mapping[str, str], schema: StructType) -> DataSourceReader:
    _check_schema(schema)
    read = read_batch_options(options)
    return WalRangeReader(read) if isinstance(read, WalRangeOptions) else SnapshotReader(read)


def check_read_options(options: Mapping[str, str]) -> None:
    """ConfigError for what would be refused later. Whether a stream is meant, the options have to tell."""
    read = read_stream_options(options) if means_stream(options) else read_batch_options(options)
    if not isinstance(read, WalRangeOptions):
        check_connection(read.connection)


def _check_schema(schema: StructType) -> None:
    if [(field.name, field.dataType) for field in schema] != [
        (field.name, field.dataType) for field in spark_schema()
    ]:
        raise ConfigError(f"format mqtt has the fixed schema {spark_schema().simpleString()}; give no other")


class SlicesPartition(InputPartition):
    def __init__(self, pieces: Sequence[Slice], log_id: str | None) -> None:
        super().__init__(None)
        self.pieces = pieces
        self.log_id = log_id


class MqttStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: StreamOptions) -> None:
        self._options = options
        self._driver: StreamDriver | None = None

    def initialOffset(self) -> Offsets:  # noqa: N802
        return self._asked().initial()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        limits = self._options.limits
        if limits.rows_max is not None:
            return ReadMaxRows(limits.rows_max)
        if limits.bytes_max is not None:
            return ReadMaxBytes(limits.bytes_max)
        return ReadMinRows(limits.rows_min) if limits.rows_min else ReadAllAvailable()

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:  # noqa: N802
        # Spark knows one limit at a time; ours may be several, which only "all there is" overrides.
        limits = TriggerLimits() if isinstance(limit, ReadAllAvailable) else self._options.limits
        return self._asked().latest(start, limits)

    def reportLatestOffset(self) -> Offsets | None:  # noqa: N802
        return self._asked().report_latest()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._asked().prepare_available_now()

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[InputPartition]:
        driver = self._asked()
        parts = driver.plan(start, end)
        log_id = driver.log_id
        return [SlicesPartition(pieces, log_id) for pieces in parts]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, SlicesPartition)
        return _read(partition, self._options)

    def commit(self, end: Offsets) -> None:
        self._asked().commit(end)

    def stop(self) -> None:
        if self._driver is not None:
            self._driver.stop()

    def _asked(self) -> StreamDriver:
        if self._driver is None:
            self._driver = StreamDriver(self._options)
            _end_on_sigterm()
            if self._options.metrics_port is not None:
                serve_metrics(self._driver.supervisor, self._options.metrics_host, self._options.metrics_port)
        return self._driver


def _end_on_sigterm() -> None:
    """`query.stop()` sends SIGTERM, twice; unhandled, it would end us before the receivers are told."""
    if threading.current_thread() is not threading.main_thread():
        return

    def leave(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        sys.exit(0)

    signal.signal(signal.SIGTERM, leave)


class WalRangeReader(DataSourceReader):
    """Rows of the log between two offsets. They stay in the log."""

    def __init__(self, options: WalRangeOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        wal = Wal(options.wal_location)
        logs = wal.logs(wal.subscribers())
        end = resolve(options.ending, logs)
        found, gaps = slices(resolve(options.starting, logs), end, logs)
        if gaps and options.fail_on_data_loss:
            raise DataLossError(f"{'; '.join(map(str, gaps))} are not in {options.wal_location}")
        return [SlicesPartition(pieces, wal.id()) for pieces in partitions(found)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if not isinstance(partition, SlicesPartition):
            return iter(())  # Spark's way to say that there is no partition
        return _read(partition, self._options)


def _read(partition: SlicesPartition, options: StreamOptions | WalRangeOptions) -> Iterator[Any]:
    return read_slices(
        options.wal_location,
        partition.pieces,
        skip_missing=not options.fail_on_data_loss,
        log_id=partition.log_id,
    )


class SnapshotReader(DataSourceReader):
    """The retained messages, one partition per broker."""

    def __init__(self, options: SnapshotOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(number) for number in range(len(self._options.connection.brokers))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_retained(self._options, self._options.connection.brokers[partition.value])
