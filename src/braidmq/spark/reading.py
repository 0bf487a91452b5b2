"""What executors do: segments of the log become record batches. Stateless: a task may run twice, anywhere."""

import platform
from collections.abc import Iterable, Iterator
from functools import lru_cache

import pyarrow as pa

from braidmq.errors import BraidError
from braidmq.spark.plan import Slice
from braidmq.spark.segments import unpack
from braidmq.spark.wal import Wal

COMBINED_ROWS_MIN = 4096  # small segments go to Spark together


class LogNotSharedError(BraidError):
    """This machine doesn't see the log that the driver's machine writes."""


def read_slices(
    location: str, wanted: Iterable[Slice], *, skip_missing: bool, log_id: str | None = None
) -> Iterator[pa.RecordBatch]:
    """`log_id`: what the driver found in the log; here it has to be the same."""
    if log_id is not None:
        _check_shared(location, log_id)
    return combine(_batches(Wal(location), wanted, skip_missing), COMBINED_ROWS_MIN)


@lru_cache(maxsize=64)  # a worker reads from the same log again and again
def _check_shared(location: str, log_id: str) -> None:
    """A file that is lost may be skipped if the user says so; one that can't be seen from here may not."""
    found = Wal(location).id()
    if found != log_id:
        what = "no log" if found is None else "another log"
        raise LogNotSharedError(
            f"walLocation {location} has {what} on {platform.node()}: it has to be a directory or an object "
            "store that the driver and all executors share"
        )


def _batches(wal: Wal, wanted: Iterable[Slice], skip_missing: bool) -> Iterator[pa.RecordBatch]:
    for piece in wanted:
        try:
            stored = wal.read(piece.subscriber, piece.segment)
        except FileNotFoundError:
            if not skip_missing:
                raise
            continue
        first = piece.segment.first + piece.skip
        yield unpack(stored.slice(piece.skip, piece.rows), piece.subscriber, first)


def combine(batches: Iterable[pa.RecordBatch], rows_min: int) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of at least `rows_min`, but for the last."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= rows_min:
            yield _joined(waiting)
            waiting, rows = [], 0
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
