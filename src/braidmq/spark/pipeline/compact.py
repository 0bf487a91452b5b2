"""Compaction: the many small files that a stream leaves become a few large ones, by a Spark job.

Only files that were there when it began are touched; the pipeline may go on meanwhile, and its present hour
may be compacted too. The exchange is a commit (`commits`): after a crash it is finished or it never was. In a
Parquet table who lists the directory at the moment of the exchange may see rows twice; in a Delta table
nobody does.
"""

from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from pyspark.sql import SparkSession

from braidmq.spark.pipeline.commits import CommitLog
from braidmq.spark.pipeline.config import PARTITION_COLUMNS
from braidmq.spark.pipeline.evolution import check_tables
from braidmq.spark.pipeline.home import Home, exclusive
from braidmq.spark.pipeline.ingest import run_writers, table_task
from braidmq.spark.pipeline.places import Place
from braidmq.spark.pipeline.reading import files_of, read_files
from braidmq.spark.pipeline.recovery import WRITING, recover_work, recover_writers
from braidmq.spark.pipeline.status import COMPACT
from braidmq.spark.pipeline.tables import user_tables

FILES_WORTH_IT: Final = 2  # fewer can't become fewer


class SmallFile(NamedTuple):
    """A file of a table: its path in the table's directory, and its size."""

    path: str
    bytes: int

    @property
    def partition(self) -> str:
        return str(PurePosixPath(self.path).parent)


class Compacted(NamedTuple):
    """What was done to one partition."""

    table: str
    partition: str
    files_before: int
    files_after: int


def compact(
    spark: SparkSession, home: Home, *, now: datetime, older_than_s: float, target_bytes: int
) -> list[Compacted]:
    """Makes the files of every hour that began so long ago about as large as `target_bytes`."""
    recover_work(home, WRITING)
    check_tables(home)
    with exclusive(home, COMPACT):
        recover_writers(home, COMPACT)
        log = home.commit_log(COMPACT)
        return [
            _compact_partition(spark, home, log, table, files, target_bytes)
            for table in user_tables(home.config)
            for _, files in sorted(small_files(home, table, now, older_than_s, target_bytes).items())
        ]


def _compact_partition(
    spark: SparkSession, home: Home, log: CommitLog, table: str, files: list[SmallFile], target_bytes: int
) -> Compacted:
    rows = read_files(spark, home, table, [file.path for file in files]).drop(*PARTITION_COLUMNS)
    count = max(1, round(sum(file.bytes for file in files) / target_bytes))
    task = table_task(table, home.targets()[table], log.staging().uri, home.config.pipeline.file_rows_max)
    reports = run_writers(rows.coalesce(count), task)
    number = 0 if log.last is None else log.last.batch + 1
    manifest = log.commit(COMPACT, number, reports, [(table, file.path) for file in files])
    return Compacted(table, files[0].partition, len(files), len(manifest.files))


def small_files(
    home: Home, table: str, now: datetime, older_than_s: float, target_bytes: int
) -> dict[str, list[SmallFile]]:
    """The files of each hour that are worth putting together."""
    place = home.table(table)
    before = now - timedelta(seconds=older_than_s)
    found: dict[str, list[SmallFile]] = {}
    for file in table_files(home, place):
        if file.bytes < target_bytes / 2 and start_of(file.partition) <= before:
            found.setdefault(file.partition, []).append(file)
    return {partition: files for partition, files in found.items() if len(files) >= FILES_WORTH_IT}


def table_files(home: Home, place: Place) -> list[SmallFile]:
    """The files that are in a table now."""
    sizes = {info.path: info.size for info in place.list(recursive=True)}
    return [SmallFile(file, sizes[place.at(file).path]) for file in files_of(home, place)]


def start_of(partition: str) -> datetime:
    """When the hour of a partition began."""
    parts = dict(part.split("=", 1) for part in partition.split("/"))
    return datetime.fromisoformat(parts["day"]).replace(hour=int(parts["hour"]), tzinfo=UTC)
