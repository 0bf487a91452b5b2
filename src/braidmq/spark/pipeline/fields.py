"""The types that a field of a schema can have, and what each means for decoding and for the table.

One row of TYPES per type: what msgspec has to accept, what Arrow keeps, and how one becomes the other.
Numbers have ranges, so that what is decoded always fits its column. Durations and times are whole
microseconds, which is what Spark keeps.
"""

import math
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, Final, NamedTuple, Union

import msgspec
import pyarrow as pa

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
FLOAT32_MAX: Final = 3.4028234663852886e38
FLOAT64_MAX: Final = sys.float_info.max
# The years 1 to 9999, which is as far as Spark and Python go.
TIME_US_MIN: Final = -62_135_596_800_000_000
TIME_US_MAX: Final = 253_402_300_799_999_999

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")


def _identity(value: Any) -> Any:
    return value


def _from_datetime(value: datetime) -> int:
    """Microseconds since 1970; a time without an offset is taken for UTC."""
    moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def _from_seconds(value: float) -> int:
    return value * 1_000_000 if isinstance(value, int) else round(value * 1e6)


class TypeRow(NamedTuple):
    """What one type means."""

    accepted: tuple[type, ...]  # by msgspec
    kept: pa.DataType
    convert: Callable[[Any], Any]
    number: bool = False
    unit_us: int | None = None  # of whole numbers that are times; they are converted by column


TYPES: Final[dict[str, TypeRow]] = {
    "boolean": TypeRow((bool,), pa.bool_(), _identity),
    "int": TypeRow((int,), pa.int32(), _identity, True),
    "long": TypeRow((int,), pa.int64(), _identity, True),
    "float": TypeRow((float,), pa.float32(), _identity, True),
    "double": TypeRow((float,), pa.float64(), _identity, True),
    "string": TypeRow((str,), pa.string(), _identity),
    "binary": TypeRow((bytes,), pa.binary(), _identity),
    "timestamp": TypeRow((datetime,), TIMESTAMP, _from_datetime),
    "timestamp_s": TypeRow((int, float), TIMESTAMP, _from_seconds),
    "timestamp_ms": TypeRow((int,), TIMESTAMP, _identity, unit_us=1_000),
    "timestamp_us": TypeRow((int,), TIMESTAMP, _identity, unit_us=1),
}
# The range of every type that has one; `min` and `max` of a field may narrow those of numbers.
RANGES: Final[dict[str, tuple[int | float, int | float]]] = {
    "int": (-INT32_MAX - 1, INT32_MAX),
    "long": (-INT64_MAX - 1, INT64_MAX),
    "float": (-FLOAT32_MAX, FLOAT32_MAX),
    "double": (-FLOAT64_MAX, FLOAT64_MAX),  # leaves out NaN and the infinities, which would spoil every mean
    "timestamp_s": (TIME_US_MIN // 1_000_000, TIME_US_MAX // 1_000_000),
    "timestamp_ms": (TIME_US_MIN // 1_000, TIME_US_MAX // 1_000),
    "timestamp_us": (TIME_US_MIN, TIME_US_MAX),
}


class FieldSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One field: its type, where it is in the payload, and what is expected of it."""

    type: str
    path: str | None = None  # `env.temperature`, when it isn't at the top under its own name
    optional: bool = False
    min: float | None = None
    max: float | None = None

    def keys(self, name: str) -> tuple[str, ...]:
        return tuple((self.path or name).split("."))

    def problem(self) -> str | None:
        """What is wrong with it, if anything."""
        if self.type not in TYPES:
            return f"unknown type {self.type!r}; known are {', '.join(TYPES)}"
        if (self.min is not None or self.max is not None) and not TYPES[self.type].number:
            return f"min and max are for numbers, and this is {self.type}"
        if self.min is not None and self.max is not None and self.min > self.max:
            return "min is above max"
        if self.path is not None and not all(self.path.split(".")):
            return f"the path {self.path!r} has an empty part"
        return None

    @property
    def range(self) -> tuple[int | float | None, int | float | None]:
        least, most = RANGES.get(self.type, (None, None))
        if self.min is not None:
            least = self.min if least is None else max(least, self.min)
        if self.max is not None:
            most = self.max if most is None else min(most, self.max)
        return least, most


def is_metric(spec: FieldSpec) -> bool:
    """Whether aggregates can be made of it."""
    return spec.type in TYPES and TYPES[spec.type].number


def is_timestamp(spec: FieldSpec | None) -> bool:
    return spec is not None and spec.type.startswith("timestamp")


def accepted_type(spec: FieldSpec) -> Any:
    """What msgspec has to accept for a field, its range included."""
    bounded = [_bounded(base, *spec.range) for base in TYPES[spec.type].accepted]
    return Union[tuple([*bounded, None] if spec.optional else bounded)]  # noqa: UP007 - made of values


def _bounded(base: type, least: float | None, most: float | None) -> Any:
    if least is None and most is None:
        return base
    if base is int:
        least = None if least is None else math.ceil(least)
        most = None if most is None else math.floor(most)
    return Annotated[base, msgspec.Meta(ge=least, le=most)]
