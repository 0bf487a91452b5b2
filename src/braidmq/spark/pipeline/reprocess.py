"""Tables anew from raw: after a schema was corrected, or changed in a way that old files can't follow.

Every message is in raw with its times, so it can be sorted again: what was a dead letter and fits now leaves
that table, and event times are those of the messages, not of today. The new files are written beside the old
ones and exchanged by a commit (`commits`), so that a crash leaves the old tables or the new ones. Aggregates
follow from the clean tables: windows that nobody can be late for are computed here, the events of the others
are handed to the streaming query, which begins anew.

The pipeline must not run meanwhile; its messages wait at the brokers. Between the two commits a marker keeps
it from starting: an interrupted run has to be repeated.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import NamedTuple

import msgspec
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from braidmq.errors import BraidError
from braidmq.spark.pipeline.aggregates import aggregate
from braidmq.spark.pipeline.commits import CommitLog
from braidmq.spark.pipeline.compact import start_of, table_files
from braidmq.spark.pipeline.config import PARTITION_COLUMNS, Aggregates, Schema
from braidmq.spark.pipeline.evolution import evolve, find_refusals, note_tables
from braidmq.spark.pipeline.home import Home, exclusive
from braidmq.spark.pipeline.ingest import run_writers, sort_task, table_task, tools_of
from braidmq.spark.pipeline.reading import read_table
from braidmq.spark.pipeline.recovery import WRITING, recover_writers
from braidmq.spark.pipeline.status import AGGREGATES_QUERY, COMPACT, INGEST
from braidmq.spark.pipeline.tables import AGGREGATES, AGGREGATES_FEED, DEAD_LETTERS, RAW, user_tables
from braidmq.spark.pipeline.writing import TaskReport

MARKER = "reprocessing.json"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class _Marker(msgspec.Struct, frozen=True):
    began: datetime


class Rebuilt(NamedTuple):
    """A table and how many rows of it were written anew."""

    table: str
    rows: int


def refuse_unfinished(home: Home) -> None:
    """BraidError if a reprocess was interrupted: tables and hand-offs need not fit together."""
    marker = home.internal.at(MARKER).read_struct(_Marker)
    if marker is not None:
        raise BraidError(f"a reprocess that began at {marker.began.isoformat()} did not end: run it again")


def reprocess(
    spark: SparkSession, home: Home, since: datetime | None = None, schemas: Iterable[str] = ()
) -> list[Rebuilt]:
    """Builds clean tables, dead letters and aggregates anew from the messages received since then.

    Only hours as a whole are done. With `schemas`, only for messages of these.
    """
    chosen = frozenset(schemas) or frozenset(schema.name for schema in home.config.schemas)
    _refuse_what_would_be_lost(home, since, chosen)
    with exclusive(home, WRITING), exclusive(home, COMPACT):
        recover_writers(home, WRITING)
        recover_writers(home, COMPACT)
        log = home.commit_log(INGEST)
        if log.last is None:
            raise BraidError(f"{home.root.uri} has no messages yet")
        job = _Job(spark, home, None if since is None else _hour_of(since), chosen)
        rebuilt = job.rebuild_messages(log)
        if home.config.aggregates is not None:
            rebuilt.append(job.rebuild_aggregates(home.config.aggregates))
        note_tables(home, dict(user_tables(home.config)))
        home.internal.files.delete_file(home.internal.at(MARKER).path)
    return rebuilt


def migrate(spark: SparkSession, home: Home) -> list[Rebuilt]:
    """Writes the tables anew if the configuration asks for columns that the old files can't give."""
    if not find_refusals(home):
        evolve(home)
        return []
    return reprocess(spark, home)


def _refuse_what_would_be_lost(home: Home, since: datetime | None, chosen: frozenset[str]) -> None:
    unknown = chosen - {schema.name for schema in home.config.schemas}
    if unknown:
        raise BraidError(f"there is no schema {min(unknown)!r}")
    left = [refusal for refusal in find_refusals(home) if since is not None or refusal.table not in chosen]
    if left:
        raise BraidError(f"{left[0]}: that takes the whole table, without --from and --schema")


def _hour_of(moment: datetime) -> datetime:
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return aware.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


class _Job:
    def __init__(
        self, spark: SparkSession, home: Home, since: datetime | None, chosen: frozenset[str]
    ) -> None:
        self._spark = spark
        self._home = home
        self._since = since
        self._chosen = chosen
        self._is_all = len(chosen) == len(home.config.schemas)
        self._config = msgspec.json.encode(home.config)

    # -- clean tables and dead letters --------------------------------------------------------------------

    def rebuild_messages(self, log: CommitLog) -> list[Rebuilt]:
        tables = sorted(self._chosen | {DEAD_LETTERS})
        staging = log.staging().uri
        raw = self._ours(self._within(self._table(RAW)))
        reports = run_writers(raw, sort_task(self._config, staging, frozenset(tables)))
        reports += self._dead_letters_that_stay(staging)
        new = {table: _rows(reports, table) for table in tables}
        self._check_sum(new)
        old = {table: 0 if self._since is None else self._outside(table).count() for table in tables}
        whole = self._since is None
        self._home.internal.at(MARKER).write_struct(_Marker(datetime.now(UTC)))  # from here on tables change
        log.replace(
            reports,
            [(table, path) for table in tables for path in self._files(table)],
            {table: whole and (self._is_all or table != DEAD_LETTERS) for table in tables},
            {table: new[table] + old[table] for table in tables},
            self._reasons(reports),
        )
        return [Rebuilt(table, new[table]) for table in tables]

    def _ours(self, messages: DataFrame) -> DataFrame:
        """Messages whose topic belongs to one of the chosen schemas, or to none when all are chosen."""
        if self._is_all:
            return messages
        config, chosen = self._config, self._chosen
        belongs = F.udf(lambda topic: topic_schema(config, topic) in chosen, "boolean")
        return messages.where(belongs("topic"))

    def _dead_letters_that_stay(self, staging: str) -> list[TaskReport]:
        if self._is_all:
            return []
        config, chosen = self._config, self._chosen
        stays = F.udf(lambda topic: topic_schema(config, topic) not in chosen, "boolean")
        others = self._within(self._table(DEAD_LETTERS)).where(stays("topic"))
        target = self._home.targets()[DEAD_LETTERS]
        task = table_task(DEAD_LETTERS, target, staging, self._home.config.pipeline.file_rows_max)
        return run_writers(others, task)

    def _check_sum(self, new: dict[str, int]) -> None:
        """raw = clean + dead letters, or what was asked for leaves messages nowhere."""
        if self._is_all:
            return
        others = [schema.name for schema in self._home.config.schemas if schema.name not in self._chosen]
        there = sum(self._within(self._table(table)).count() for table in others)
        if self._within(self._table(RAW)).count() != there + sum(new.values()):
            raise BraidError("topics have moved from one schema to another: reprocess without --schema")

    def _reasons(self, reports: list[TaskReport]) -> dict[str, int]:
        kept = [] if self._since is None else [self._outside(DEAD_LETTERS)]
        if not self._is_all:
            config, chosen = self._config, self._chosen
            stays = F.udf(lambda topic: topic_schema(config, topic) not in chosen, "boolean")
            kept.append(self._within(self._table(DEAD_LETTERS)).where(stays("topic")))
        counts: dict[str, int] = {}
        for frame in kept:
            for row in frame.groupBy("reason").count().collect():
                counts[row["reason"]] = counts.get(row["reason"], 0) + row["count"]
        for report in reports:
            for reason, count in report.reasons.items():
                counts[reason] = counts.get(reason, 0) + count
        return counts

    def _table(self, name: str) -> DataFrame:
        return read_table(self._spark, self._home, name)

    def _within(self, table: DataFrame) -> DataFrame:
        found = table if self._since is None else table.where(self._is_since())
        return found.drop(*PARTITION_COLUMNS)

    def _outside(self, name: str) -> DataFrame:
        return self._table(name).where(~self._is_since())

    def _is_since(self) -> Column:
        assert self._since is not None
        day = F.lit(self._since.date())
        return (F.col("day") > day) | ((F.col("day") == day) & (F.col("hour") >= self._since.hour))

    def _files(self, table: str) -> list[str]:
        files = table_files(self._home, self._home.table(table))
        return [
            file.path for file in files if self._since is None or start_of(file.partition) >= self._since
        ]

    # -- aggregates ---------------------------------------------------------------------------------------

    def rebuild_aggregates(self, settings: Aggregates) -> Rebuilt:
        events = self._events()
        newest = events.agg(F.max("event_time").cast("double").alias("newest")).collect()[0]["newest"]
        cut = EPOCH if newest is None else EPOCH + timedelta(seconds=newest - settings.watermark_s)
        log = self._home.commit_log(AGGREGATES_QUERY)
        staging = log.staging().uri
        closed, still_open = self._split(events, settings, cut)
        reports = [] if closed is None else self._write(AGGREGATES, closed, staging)
        reports += self._write(AGGREGATES_FEED, still_open, staging)
        self._home.checkpoint(AGGREGATES_QUERY).delete()
        feed = [(AGGREGATES_FEED, info.base_name) for info in self._home.table(AGGREGATES_FEED).list()]
        files = table_files(self._home, self._home.table(AGGREGATES))
        removed = [*feed, *((AGGREGATES, file.path) for file in files)]
        rows = _rows(reports, AGGREGATES)
        log.replace(reports, removed, {AGGREGATES: True}, {AGGREGATES: rows})
        return Rebuilt(AGGREGATES, rows)

    def _split(
        self, events: DataFrame, settings: Aggregates, cut: datetime
    ) -> tuple[DataFrame | None, DataFrame]:
        """Windows that are closed, and the events of all others; overlapping ones are left to the query."""
        if settings.slide_s is not None:
            return None, events
        window = F.window("event_time", f"{round(settings.window_s * 1_000)} milliseconds")
        closed = aggregate(events, settings).where(F.col("window_end") <= F.lit(cut))
        still_open = events.where(window["end"] > F.lit(cut))
        return closed, still_open.select(*events.columns)  # without the window

    def _write(self, table: str, rows: DataFrame, staging: str) -> list[TaskReport]:
        rows_max = self._home.config.pipeline.file_rows_max
        return run_writers(rows, table_task(table, self._home.targets()[table], staging, rows_max))

    def _events(self) -> DataFrame:
        schemas = [schema for schema in self._home.config.schemas if schema.metric_names]
        return reduce(DataFrame.unionByName, (self._events_of(schema) for schema in schemas))

    def _events_of(self, schema: Schema) -> DataFrame:
        pairs = [
            part for name in schema.metric_names for part in (F.lit(name), F.col(name).cast("double"))
        ]
        return self._table(schema.name).select(
            F.lit(schema.name).alias("schema"), "device", "event_time", F.create_map(*pairs).alias("metrics")
        )


def topic_schema(config: bytes, topic: str) -> str | None:
    """The schema that a topic belongs to, for tasks."""
    return tools_of(config)[0].schema_of(topic)


def _rows(reports: list[TaskReport], table: str) -> int:
    return sum(file.rows for report in reports for file in report.files if file.table == table)
