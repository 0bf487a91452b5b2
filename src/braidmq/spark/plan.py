"""Decides what a micro-batch reads: pure arithmetic over offsets and listings of segments.

Invariants: an end is never before its start; equal offsets mean "nothing new", so a subscriber without new
rows never makes two offsets differ; the same (start, end) over the same segments gives the same slices,
which is what lets Spark run a batch again. Cost: linear in the number of segments.
"""

from collections.abc import Iterator, Sequence

import msgspec

from braidmq.spark.offsets import Log, Logs, Offsets, Segment, end_offset, first_offset

PARTITION_BYTES_MIN = 8 << 20
PARTITION_BYTES_MAX = 32 << 20
PARTITIONS_USUAL = 16


class TriggerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much one micro-batch takes; None: no limit."""

    rows_max: int | None = None
    bytes_max: int | None = None
    rows_min: int = 0
    delay_max_s: float = 15 * 60.0  # fewer than `rows_min` rows wait no longer than this


class Slice(msgspec.Struct, frozen=True):
    """Rows of one segment: `rows` of them after the first `skip`."""

    subscriber: str
    segment: Segment
    skip: int
    rows: int

    @property
    def size_bytes(self) -> int:
        return self.segment.size_bytes * self.rows // self.segment.rows


class Gap(msgspec.Struct, frozen=True):
    """Rows that should be there and are not."""

    subscriber: str
    first: int
    end: int

    def __str__(self) -> str:
        return f"rows {self.first} to {self.end - 1} of {self.subscriber}"


def begin(start: Offsets, subscriber: str, log: Log) -> int:
    """Where a subscriber is read from. One that the query has not met yet is read from its first segment."""
    return start.get(subscriber, first_offset(log))


def next_end(start: Offsets, logs: Logs, limits: TriggerLimits, waited_s: float) -> Offsets:
    """The end of the batch that starts at `start`; `start` itself if there is to be none now."""
    waiting = {
        subscriber: rows
        for subscriber, log in logs.items()
        if (rows := end_offset(log) - begin(start, subscriber, log)) > 0
    }
    total = sum(waiting.values())
    if total == 0 or (total < limits.rows_min and waited_s < limits.delay_max_s):
        return dict(start)
    taken = waiting
    if limits.bytes_max is not None:
        taken = _within_bytes(start, logs, waiting, limits.bytes_max)
    if limits.rows_max is not None:
        taken = share(taken, limits.rows_max)
    return dict(start) | {
        subscriber: begin(start, subscriber, logs[subscriber]) + rows
        for subscriber, rows in taken.items()
        if rows
    }


def rows_waiting(start: Offsets, logs: Logs) -> int:
    """How far a query is behind its log."""
    return sum(max(0, end_offset(log) - begin(start, name, log)) for name, log in logs.items())


def share(wanted: dict[str, int], total_max: int) -> dict[str, int]:
    """Shares `total_max` out in proportion to what is wanted, to the last unit."""
    total = sum(wanted.values())
    if total <= total_max:
        return wanted
    shares = {name: amount * total_max // total for name, amount in wanted.items()}
    rest = total_max - sum(shares.values())
    for name in sorted(wanted, key=lambda name: (shares[name] - wanted[name], name))[:rest]:
        shares[name] += 1
    return shares


def _within_bytes(start: Offsets, logs: Logs, waiting: dict[str, int], bytes_max: int) -> dict[str, int]:
    """As many rows as fit; at least one, because a batch must get on."""
    pieces = {name: list(_pieces(logs[name], begin(start, name, logs[name]), None)) for name in waiting}
    sizes = {name: sum(piece.size_bytes for piece in pieces[name]) for name in waiting}
    budgets = share(sizes, bytes_max)
    if budgets == sizes:
        return waiting
    taken = {name: _rows_within(logs[name], start, name, pieces[name], budgets[name]) for name in waiting}
    if not any(taken.values()):
        taken[max(waiting, key=lambda name: waiting[name])] = 1
    return taken


def _rows_within(log: Log, start: Offsets, name: str, pieces: list[Slice], budget_bytes: int) -> int:
    end = begin(start, name, log)
    for piece in pieces:
        end = piece.segment.first + piece.skip
        if piece.size_bytes > budget_bytes:
            end += budget_bytes * piece.rows // piece.size_bytes
            break
        budget_bytes -= piece.size_bytes
        end += piece.rows
    return end - begin(start, name, log)


def slices(start: Offsets, end: Offsets, logs: Logs) -> tuple[list[Slice], list[Gap]]:
    """What to read between two offsets, and what of it is missing."""
    found: list[Slice] = []
    gaps: list[Gap] = []
    for subscriber, until in end.items():
        log = logs.get(subscriber, ())
        position = begin(start, subscriber, log)
        for piece in _pieces(log, position, until):
            piece = msgspec.structs.replace(piece, subscriber=subscriber)
            first = piece.segment.first + piece.skip
            if first > position:
                gaps.append(Gap(subscriber, position, first))
            position = first + piece.rows
            found.append(piece)
        if position < until:
            gaps.append(Gap(subscriber, position, until))
    return found, gaps


def _pieces(log: Log, position: int, until: int | None) -> Iterator[Slice]:
    """The rows from `position` to `until`, each once, even where two segments have them."""
    for segment in log:
        first = max(segment.first, position)
        end = segment.end if until is None else min(segment.end, until)
        if first < end:
            yield Slice("", segment, first - segment.first, end - first)
            position = end


def partitions(found: Sequence[Slice], bytes_max: int | None = None) -> list[list[Slice]]:
    """Slices in their order, cut into parts of about `bytes_max` bytes.

    A small batch is one part, however many subscribers it has rows of: every part costs a task, and the files
    that this writes. By default parts grow with the batch, within bounds.
    """
    if bytes_max is None:
        total_bytes = sum(piece.size_bytes for piece in found)
        bytes_max = min(PARTITION_BYTES_MAX, max(PARTITION_BYTES_MIN, total_bytes // PARTITIONS_USUAL))
    parts: list[list[Slice]] = []
    filled_bytes = 0
    for piece in found:
        if not parts or filled_bytes + piece.size_bytes > bytes_max:
            parts.append([])
            filled_bytes = 0
        parts[-1].append(piece)
        filled_bytes += piece.size_bytes
    return parts


class Keep(msgspec.Struct, frozen=True):
    """How much of what is committed stays in a log: a receiver that restarts knows repeats by it."""

    rows: int
    size_bytes: int
    segments: int


def trimmable(log: Log, committed: int, keep: Keep) -> Sequence[Segment]:
    """The segments that nobody needs. The newest always stays: its name is where numbering goes on."""
    kept_bytes = 0
    keep_from = end_offset(log) - keep.rows
    trimmed: list[Segment] = []
    for behind, segment in enumerate(reversed(log[:-1]), 2):
        kept_bytes += segment.size_bytes
        within = segment.end > keep_from and kept_bytes <= keep.size_bytes and behind <= keep.segments
        if segment.end <= committed and not within:
            trimmed.append(segment)
    return trimmed
