"""What executors do: segments of the log become record batches. Stateless: a task may run twice, anywhere."""

from collections.abc import Iterable, Iterator

import pyarrow as pa

from braidmq.spark.plan import Slice
from braidmq.spark.segments import unpack
from braidmq.spark.wal import Wal

COMBINED_ROWS_MIN = 4096  # small segments go to Spark together


def read_slices(location: str, wanted: Iterable[Slice], *, skip_missing: bool) -> Iterator[pa.RecordBatch]:
    return combine(_batches(Wal(location), wanted, skip_missing), COMBINED_ROWS_MIN)


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
