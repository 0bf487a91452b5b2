"""The first query: messages into raw, clean and dead letters, and hand-offs for the queries after it.

Each batch is one Spark job: executors sort and write (`sorting`, `writing`), the driver commits (`commits`).
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody knows it by

from braidmq.spark.pipeline.commits import CommitLog
from braidmq.spark.pipeline.config import PipelineConfig
from braidmq.spark.pipeline.home import Home, open_home
from braidmq.spark.pipeline.places import open_place
from braidmq.spark.pipeline.reading import read_table
from braidmq.spark.pipeline.sorting import Sorter
from braidmq.spark.pipeline.tables import DEAD_LETTERS, RAW
from braidmq.spark.pipeline.writing import TableWriter, Target, TaskReport

REPORT_SCHEMA: Final = "report binary"


class Ingest:
    """Writes batch after batch. One of them may be at work at a time."""

    def __init__(self, home: Home, log: CommitLog, query: Callable[[], str]) -> None:
        self._home = home
        self._log = log
        self._query = query
        self._config = msgspec.json.encode(home.config)

    def __call__(self, messages: DataFrame, batch: int) -> None:
        if self._log.has(self._query(), batch):
            return
        fresh = self._without_known(messages)
        staging = self._log.staging()
        reports = run_writers(fresh, sort_task(self._config, staging.uri))
        self._log.commit(self._query(), batch, reports)

    def _without_known(self, messages: DataFrame) -> DataFrame:
        """Leaves out what an earlier query, whose checkpoint is gone, has written.

        The identity of a message is its subscriber, its offset and its arrival: a subscriber that begins to
        count anew after its log was lost doesn't lose messages to those of its former life.
        """
        last = self._log.last
        if last is None:
            return messages
        marks = last.inherited if last.query == self._query() else last.marks
        if not marks:
            return messages
        known = read_table(messages.sparkSession, self._home, RAW)
        identity = ["subscriber", "offset", "received_at"]
        return messages.join(known.where(F.col("subscriber").isin(list(marks))), identity, "left_anti")


def run_writers(rows: DataFrame, task: Any) -> list[TaskReport]:
    """Runs a writing task over the rows, as one job; what its tasks report."""
    reports = rows.mapInArrow(task, REPORT_SCHEMA).collect()
    return [msgspec.json.decode(bytes(row["report"]), type=TaskReport) for row in reports]


def sort_task(config: bytes, staging: str, tables: frozenset[str] | None = None) -> Any:
    """What an executor does with its part of a batch; `tables`: only these are written."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        sorter, targets, rows_max = tools_of(config)
        writer = TableWriter(open_place(staging), targets, rows_max)
        reasons: dict[str, int] = {}
        marks: dict[str, int] = {}
        for batch in batches:
            if batch.num_rows:
                sorted_ = sorter.sort(pa.Table.from_batches([batch]))
                for table, rows in sorted_.items():
                    if tables is None or table in tables:
                        writer.write(table, rows)
                _count(sorted_, reasons, marks)
        yield report_batch(TaskReport(writer.close(), reasons, marks))

    return run


def table_task(table: str, target: Target, staging: str, rows_max: int) -> Any:
    """The same for rows that are all of one table."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writer = TableWriter(open_place(staging), {table: target}, rows_max)
        for batch in batches:
            if batch.num_rows:
                writer.write(table, pa.Table.from_batches([batch]))
        yield report_batch(TaskReport(writer.close()))

    return run


def report_batch(report: TaskReport) -> pa.RecordBatch:
    return pa.record_batch({"report": pa.array([msgspec.json.encode(report)], pa.binary())})


@lru_cache(maxsize=4)
def tools_of(config: bytes) -> tuple[Sorter, dict[str, Target], int]:
    """A worker process serves many batches; it reads its configuration once."""
    value = msgspec.json.decode(config, type=PipelineConfig)
    targets = open_home(value).targets()
    return Sorter(value), targets, value.pipeline.file_rows_max


def _count(sorted_: dict[str, pa.Table], reasons: dict[str, int], marks: dict[str, int]) -> None:
    if DEAD_LETTERS in sorted_:
        for entry in pc.value_counts(sorted_[DEAD_LETTERS]["reason"]).to_pylist():
            reasons[entry["values"]] = reasons.get(entry["values"], 0) + entry["counts"]
    for entry in sorted_[RAW].group_by("subscriber").aggregate([("offset", "max")]).to_pylist():
        marks[entry["subscriber"]] = max(marks.get(entry["subscriber"], -1), entry["offset_max"])
