"""The third query: what devices do against the rules, and alerts out by MQTT.

A batch is published before it is committed: after a crash in between it is computed and published again, with
the same ids. So an alert is told at least once, and is in the table exactly once. A source that ticks once a
second runs the query even when no device says anything, which is when silence has to be noticed.
"""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from braidmq.spark.pipeline.alerts import (
    Alert,
    Condition,
    Digest,
    Listening,
    State,
    Watched,
    advance,
    known_rules,
    topic_of,
)
from braidmq.spark.pipeline.commits import CommitLog
from braidmq.spark.pipeline.config import PipelineConfig
from braidmq.spark.pipeline.home import Home
from braidmq.spark.pipeline.sources import sink_options
from braidmq.spark.pipeline.tables import (
    ALERTS,
    ALERTS_FEED_SCHEMA,
    ALERTS_SCHEMA,
    DEVICE_STATES,
    DEVICE_STATES_SCHEMA,
)
from braidmq.spark.pipeline.writing import TableWriter, TaskReport

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Publish = Callable[[SparkSession, list[Alert]], None]


def with_ticks(feed: DataFrame) -> DataFrame:
    """The hand-off of the first query, and a row without a schema for every second."""
    ticks = feed.sparkSession.readStream.format("rate").option("rowsPerSecond", 1).load()
    columns = {field.name: F.lit(None).cast(field.dataType) for field in feed.schema}
    columns["seen_at"] = F.col("timestamp")
    return feed.unionByName(ticks.select(*(column.alias(name) for name, column in columns.items())))


class AlertsWriter:
    """Advances the state of the devices, tells what is new, and keeps both."""

    def __init__(
        self,
        home: Home,
        log: CommitLog,
        query: Callable[[], str],
        publish: Publish,
        listening: Callable[[], Listening | None],
    ) -> None:
        self._home = home
        self._listening = listening
        self._heard: Listening | None = None
        self._log = log
        self._query = query
        self._publish = publish
        self._state: State | None = None  # None: as committed

    def __call__(self, rows: DataFrame, batch: int) -> None:
        if self._log.has(self._query(), batch):
            return
        state = self._committed() if self._state is None else self._state
        self._state = None  # if anything fails from here on, what is in memory isn't what is committed
        digests = read_digests(rows.toArrow())
        after, alerts = advance(state, digests, self._home.config.rules, self._heard)
        # What the first query has handed over by now is in the next batch at the latest, so that then it is
        # as good as heard.
        self._heard = self._listening()
        if alerts:
            self._publish(rows.sparkSession, alerts)
        if after != state or alerts:
            self._commit(batch, after, alerts)
        self._state = after

    def _committed(self) -> State:
        state: State = {}
        for info in self._home.table(DEVICE_STATES).list():
            state |= _state_of(pq.read_table(info.path, filesystem=self._home.root.files))
        return known_rules(self._home.config, state)

    def _commit(self, batch: int, state: State, alerts: list[Alert]) -> None:
        former = [(DEVICE_STATES, info.base_name) for info in self._home.table(DEVICE_STATES).list()]
        writer = TableWriter(
            self._log.staging(), self._home.targets(), self._home.config.pipeline.file_rows_max
        )
        writer.write(DEVICE_STATES, _states_table(state))
        if alerts:
            writer.write(ALERTS, alerts_table(alerts))
        self._log.commit(self._query(), batch, [TaskReport(writer.close())], former)


def read_digests(rows: pa.Table) -> list[Digest]:
    """What devices sent; ticks have no schema."""
    columns = [
        rows[field.name].cast(pa.int64()) if pa.types.is_timestamp(field.type) else rows[field.name]
        for field in ALERTS_FEED_SCHEMA
    ]
    values = zip(*(column.to_pylist() for column in columns), strict=True)
    return [digest for digest in (Digest(*row) for row in values) if digest.schema is not None]


def alerts_table(alerts: list[Alert]) -> pa.Table:
    columns: dict[str, list[Any]] = {
        "id": [alert.id for alert in alerts],
        "since": [alert.since_us for alert in alerts],
        "at": [alert.at_us for alert in alerts],
    }
    for name in ("rule", "state", "schema", "device", "metric", "value"):
        columns[name] = [getattr(alert, name) for alert in alerts]
    return _table(columns, ALERTS_SCHEMA)


def _states_table(state: State) -> pa.Table:
    columns: dict[str, list[Any]] = {
        "rule": [watched.rule for watched in state],
        "schema": [watched.schema for watched in state],
        "device": [watched.device for watched in state],
        "seen_at": [condition.seen_us for condition in state.values()],
        "since": [condition.since_us for condition in state.values()],
    }
    return _table(columns, DEVICE_STATES_SCHEMA)


def _state_of(table: pa.Table) -> State:
    times = [table[name].cast(pa.int64()).to_pylist() for name in ("seen_at", "since")]
    names = [table[name].to_pylist() for name in ("rule", "schema", "device")]
    return {
        Watched(rule, schema, device): Condition(seen_us, since_us)
        for rule, schema, device, seen_us, since_us in zip(*names, *times, strict=True)
    }


def _table(columns: dict[str, list[Any]], schema: pa.Schema) -> pa.Table:
    """Times are given as microseconds."""
    arrays = [
        pa.array(columns[field.name], pa.int64()).cast(field.type)
        if pa.types.is_timestamp(field.type)
        else pa.array(columns[field.name], field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def payload_of(alert: Alert) -> bytes:
    """What is published: JSON with times as people read them."""
    return json.dumps(
        {
            "id": alert.id,
            "rule": alert.rule,
            "state": alert.state,
            "schema": alert.schema,
            "device": alert.device,
            "metric": alert.metric,
            "value": alert.value,
            "since": _shown(alert.since_us),
            "at": _shown(alert.at_us),
        }
    ).encode()


def _shown(time_us: int) -> str:
    return (EPOCH + timedelta(microseconds=time_us)).isoformat()


def make_publisher(config: PipelineConfig) -> Publish:
    """Publishes through the `mqtt` sink, as the configuration says."""
    template, options = config.alerts.topic, sink_options(config)

    def publish(spark: SparkSession, alerts: list[Alert]) -> None:
        rows = [(topic_of(template, alert), payload_of(alert), alert.id) for alert in alerts]
        frame = spark.createDataFrame(rows, "topic string, payload binary, id string").coalesce(1)
        frame.write.format("mqtt").options(**options).mode("append").save()

    return publish
