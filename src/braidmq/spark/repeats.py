"""Marks on published rows, and how a consumer drops the rows that came twice.

Spark runs a failed task or batch again, so the sink publishes some rows a second time: it delivers at least
once. Every message therefore carries the user property `spark-row` with where its row stands,
`query/batch/partition/row`, or `query/batch/id/ID` where a column identifies the row. A repeat has the same
mark. Rows that come out of a shuffle may stand elsewhere when they are computed again: they need a column.

A consumer that asks `RepeatFilter` gets each row once. The filter remembers the newest marks only: one
dictionary entry a message, up to `marks_max`.
"""

from collections.abc import Iterable
from typing import Final

MARK: Final = "spark-row"
MARKS_MAX: Final = 1_000_000


class Marker:
    """Makes the marks of one partition of one batch."""

    def __init__(self, query: str, batch: str, partition: int) -> None:
        self._by_position = f"{query}/{batch}/{partition}/"
        self._by_id = f"{query}/{batch}/id/"

    def mark(self, row: int, row_id: object = None) -> tuple[str, str]:
        """The user property of a row; by its number in the partition, or by what identifies it."""
        return MARK, f"{self._by_position}{row}" if row_id is None else f"{self._by_id}{row_id}"


class RepeatFilter:
    """Knows which rows it has seen; forgets the oldest when it has seen too many."""

    def __init__(self, marks_max: int = MARKS_MAX) -> None:
        if marks_max < 1:
            raise ValueError(f"marks_max must be at least 1, not {marks_max}")
        self._marks_max = marks_max
        self._seen: dict[str, None] = {}

    def is_repeat(self, user_properties: Iterable[tuple[str, str]]) -> bool:
        """True if a message with this mark came before. A message without a mark never is a repeat."""
        mark = next((value for name, value in user_properties if name == MARK), None)
        if mark is None:
            return False
        if mark in self._seen:
            return True
        self._seen[mark] = None
        if len(self._seen) > self._marks_max:
            del self._seen[next(iter(self._seen))]
        return False
