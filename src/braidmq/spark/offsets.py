"""Where a query is: for each subscriber, the number of the first row that it has not read.

Rows of a subscriber are numbered as its receiver stores them; a number is never given twice. A
segment is a file of consecutive rows, and its name says all that planning needs, so that a listing is
enough to plan a batch. Values only: no Spark, no files, no clock.
"""

import functools
import json
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Literal

import msgspec

from braidmq.errors import ConfigError

Offsets = dict[str, int]
Position = Literal["earliest", "latest"] | Offsets

_NAME = re.compile(r"(\d{19})-(\d+)-(\d+)\.arrow")


class Segment(msgspec.Struct, frozen=True, order=True):
    """Rows `first` to `end - 1` of a subscriber."""

    first: int
    rows: int
    size_bytes: int

    @property
    def end(self) -> int:
        return self.first + self.rows

    @property
    def name(self) -> str:
        return f"{self.first:019d}-{self.rows}-{self.size_bytes}.arrow"


Log = tuple[Segment, ...]  # of one subscriber, ordered
Logs = Mapping[str, Log]


@functools.lru_cache(1 << 16)  # a log is listed again and again
def read_segment_name(name: str) -> Segment | None:
    """None for what is no segment: a file that is still being written, a lock."""
    found = _NAME.fullmatch(name)
    return Segment(int(found[1]), int(found[2]), int(found[3])) if found else None


def read_log(names: Iterable[str]) -> Log:
    """Ordered by the names, whose first part has a fixed width."""
    return tuple(segment for name in sorted(names) if (segment := read_segment_name(name)) is not None)


def new_log_number(now_s: float) -> int:
    """The first number of a log without a past.

    Not 0: if a log is deleted but the checkpoint is not, the new rows must not look like old ones. A million
    numbers a second is more than a receiver stores, so the numbers of a later log are higher.
    """
    return int(now_s) * 1_000_000


def first_offset(log: Log) -> int:
    return log[0].first if log else 0


def end_offset(log: Log) -> int:
    """One more than the highest number given."""
    return max((segment.end for segment in log), default=0)


def earliest(logs: Logs) -> Offsets:
    return {subscriber: first_offset(log) for subscriber, log in logs.items() if log}


def latest(logs: Logs) -> Offsets:
    return {subscriber: end_offset(log) for subscriber, log in logs.items() if log}


def resolve(position: Position, logs: Logs) -> Offsets:
    if position == "earliest":
        return earliest(logs)
    if position == "latest":
        return latest(logs)
    return dict(position)


def read_position(option: str, text: str) -> Position:
    """`earliest`, `latest`, or JSON such as {"spark-broker_1883-0": 1200}."""
    if text.lower() == "earliest":
        return "earliest"
    if text.lower() == "latest":
        return "latest"
    try:
        return msgspec.json.decode(text, type=dict[str, Annotated[int, msgspec.Meta(ge=0)]])
    except msgspec.DecodeError as error:
        example = json.dumps({"spark-localhost_1883-0": 0})
        raise ConfigError(
            f"option {option} must be earliest, latest or JSON such as {example}, not {text!r} ({error})"
        ) from error
