"""Task side of writing tables: Arrow rows in, Parquet files in a staging directory out.

One pass over a batch writes all tables at once, so that a batch costs one Spark job however many tables it
feeds. Files get names that nobody has used, and only what a task *reports* is ever committed: a task that is
retried, speculated or killed leaves garbage in the staging directory and nothing else.
"""

import uuid
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from braidmq.spark.pipeline.places import Place

ROW_GROUP_ROWS: Final = 100_000
ROW_GROUP_BYTES: Final = 64 * 1024 * 1024  # before compression
COMPRESSION: Final = "zstd"


class StagedFile(msgspec.Struct, frozen=True, array_like=True):
    """A file that waits to be committed."""

    table: str
    name: str  # in the staging directory
    day: str | None  # of its partition; None in tables without
    hour: str | None
    rows: int
    bytes: int

    @property
    def partition(self) -> str:
        return "" if self.day is None else f"day={self.day}/hour={self.hour}/"


class TaskReport(msgspec.Struct, frozen=True):
    """What one task has done: its files, its dead letters by reason, the highest offset by subscriber."""

    files: list[StagedFile] = []
    reasons: dict[str, int] = {}
    marks: dict[str, int] = {}


class Target(NamedTuple):
    """How a table is written: its columns, and the column whose time gives the partition."""

    schema: pa.Schema
    time_column: str | None


Partition = tuple[str, str | None, str | None]  # table, day, hour


class TableWriter:
    """The files of one task. Memory: at most one row group for each file that is open."""

    def __init__(self, staging: Place, targets: dict[str, Target], file_rows_max: int) -> None:
        self._staging = staging
        self._targets = targets
        self._file_rows_max = file_rows_max
        self._open: dict[Partition, _OpenFile] = {}
        self._done: list[StagedFile] = []

    def write(self, table: str, rows: pa.Table) -> None:
        for (day, hour), part in _by_hour(rows, self._targets[table].time_column):
            key = (table, day, hour)
            file = self._open.get(key)
            if file is None:
                file = self._open[key] = _OpenFile(self._staging, self._targets[table].schema)
            file.write(part)
            if file.rows >= self._file_rows_max:
                self._finish(key)

    def close(self) -> list[StagedFile]:
        for key in list(self._open):
            self._finish(key)
        return self._done

    def _finish(self, key: Partition) -> None:
        file = self._open.pop(key)
        size = file.close()
        self._done.append(StagedFile(key[0], file.name, key[1], key[2], file.rows, size))


class _OpenFile:
    """One Parquet file; rows are gathered into row groups worth reading."""

    def __init__(self, staging: Place, schema: pa.Schema) -> None:
        self.name = f"{uuid.uuid4().hex}.parquet"
        self.rows = 0
        self._schema = schema
        self._place = staging.at(self.name)
        self._writer: Any = pq.ParquetWriter(
            self._place.path, schema, filesystem=staging.files, compression=COMPRESSION
        )
        self._waiting: list[pa.Table] = []
        self._waiting_rows = 0
        self._waiting_bytes = 0

    def write(self, rows: pa.Table) -> None:
        self._waiting.append(rows.cast(self._schema))
        self._waiting_rows += len(rows)
        self._waiting_bytes += rows.nbytes
        self.rows += len(rows)
        if self._waiting_rows >= ROW_GROUP_ROWS or self._waiting_bytes >= ROW_GROUP_BYTES:
            self._flush()

    def close(self) -> int:
        self._flush()
        self._writer.close()
        size: int = self._place.files.get_file_info(self._place.path).size
        return size

    def _flush(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.concat_tables(self._waiting), row_group_size=ROW_GROUP_ROWS)
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0


def _by_hour(
    rows: pa.Table, time_column: str | None
) -> Iterator[tuple[tuple[str | None, str | None], pa.Table]]:
    """The rows of each hour; most batches are of one."""
    if time_column is None:
        yield (None, None), rows
        return
    hours = pc.floor_temporal(rows[time_column], unit="hour")
    distinct = hours.unique()
    for hour in distinct:
        part = rows if len(distinct) == 1 else rows.filter(pc.equal(hours, hour))
        moment = hour.as_py()
        yield (moment.strftime("%Y-%m-%d"), moment.strftime("%H")), part
