"""The types that a field of a schema can have, and what each means for decoding and for the table.

One row of TYPES per plain type: what msgspec has to accept, what Arrow keeps, and how one becomes the other.
Numbers have ranges, so that what is decoded always fits its column. Durations and times are whole
microseconds, which is what Spark keeps. Besides there are `decimal(18,4)`, an `object` with its own fields,
and arrays of anything: `double[]`, `object[]`.
"""

import math
import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal, localcontext
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


OBJECT: Final = "object"
ARRAY: Final = "[]"
_DECIMAL: Final = re.compile(r"decimal\((\d{1,2}),\s*(\d{1,2})\)")
DECIMAL_DIGITS_MAX: Final = 38


class NotFittingError(ValueError):
    """A value has more digits than its column."""


class FieldSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One field: its type, where it is in the payload, and what is expected of it."""

    type: str
    path: str | None = None  # `env.temperature`, when it isn't at the top under its own name
    optional: bool = False
    min: float | None = None
    max: float | None = None
    fields: "dict[str, str | FieldSpec]" = {}  # of an object

    @property
    def is_array(self) -> bool:
        return self.type.endswith(ARRAY)

    @property
    def element(self) -> "FieldSpec":
        """What an array is of."""
        return FieldSpec(type=self.type[: -len(ARRAY)], min=self.min, max=self.max, fields=self.fields)

    @property
    def digits(self) -> tuple[int, int] | None:
        """Precision and scale of a decimal."""
        found = _DECIMAL.fullmatch(self.type)
        return (int(found[1]), int(found[2])) if found else None

    @property
    def inner(self) -> "dict[str, FieldSpec]":
        """The fields of an object in full."""
        return {
            name: FieldSpec(type=spec) if isinstance(spec, str) else spec
            for name, spec in self.fields.items()
        }

    def keys(self, name: str) -> tuple[str, ...]:
        return tuple((self.path or name).split("."))

    def problem(self) -> str | None:
        """What is wrong with it, if anything."""
        if self.is_array:
            return self.element.problem()
        if self.type == OBJECT or self.fields:
            return self._object_problem()
        if self.digits is not None:
            if not self.digits[1] <= self.digits[0] <= DECIMAL_DIGITS_MAX or self.digits[0] == 0:
                return f"{self.type}: at most {DECIMAL_DIGITS_MAX} digits, so many of them behind the point"
        elif self.type not in TYPES:
            known = ", ".join(TYPES)
            return f"unknown type {self.type!r}; known are {known}, decimal(18,4), object, and arrays []"
        if (self.min is not None or self.max is not None) and not is_metric(self):
            return f"min and max are for numbers, and this is {self.type}"
        if self.min is not None and self.max is not None and self.min > self.max:
            return "min is above max"
        if self.path is not None and not all(self.path.split(".")):
            return f"the path {self.path!r} has an empty part"
        return None

    def _object_problem(self) -> str | None:
        if self.type != OBJECT or not self.fields:
            return "fields and type object go together"
        for name, spec in self.inner.items():
            if spec.path is not None:
                return f"{name}: fields of an object have no path"
            if problem := spec.problem():
                return f"{name}: {problem}"
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
    return spec.digits is not None or (spec.type in TYPES and TYPES[spec.type].number)


def is_timestamp(spec: FieldSpec | None) -> bool:
    return spec is not None and spec.type.startswith("timestamp")


def accepted_type(spec: FieldSpec) -> Any:
    """What msgspec has to accept for a field, its range included."""
    bounded: list[Any]
    if spec.is_array:
        bounded = [list.__class_getitem__(accepted_type(spec.element))]  # a type that is made of values
    elif spec.type == OBJECT:
        bounded = [_object_type(spec)]
    elif spec.digits is not None:
        bounded = [Decimal]
    else:
        bounded = [_bounded(base, *spec.range) for base in TYPES[spec.type].accepted]
    return Union[tuple([*bounded, None] if spec.optional else bounded)]  # noqa: UP007 - made of values


def _object_type(spec: FieldSpec) -> type:
    """A struct whose attributes have names of our own, since keys may be anything."""
    names, required, optional = {}, [], []
    for index, (key, inner) in enumerate(spec.inner.items()):
        names[f"f{index}"] = key
        if inner.optional:
            optional.append((f"f{index}", accepted_type(inner), None))
        else:
            required.append((f"f{index}", accepted_type(inner)))
    return msgspec.defstruct("Object", [*required, *optional], rename=names, kw_only=True)


def kept_type(spec: FieldSpec) -> pa.DataType:
    """What Arrow and the table keep of a field."""
    if spec.is_array:
        return pa.list_(kept_type(spec.element))
    if spec.type == OBJECT:
        return pa.struct([(name, kept_type(inner)) for name, inner in spec.inner.items()])
    if spec.digits is not None:
        return pa.decimal128(*spec.digits)
    return TYPES[spec.type].kept


def is_plain(spec: FieldSpec) -> bool:
    """Whether a whole column of it is made at once; others are made value by value."""
    return spec.type in TYPES


def convert_value(spec: FieldSpec) -> Callable[[Any], Any]:
    """Makes of a decoded value what Arrow takes; NotFittingError if it has too many digits."""
    if spec.is_array:
        each = convert_value(spec.element)
        return lambda values: None if values is None else [each(value) for value in values]
    if spec.type == OBJECT:
        named = enumerate(spec.inner.items())
        inner = [(f"f{index}", name, convert_value(one)) for index, (name, one) in named]
        return lambda value: (
            None if value is None else {name: make(getattr(value, place)) for place, name, make in inner}
        )
    if spec.digits is not None:
        return _fitting(spec, *spec.digits)
    row = TYPES[spec.type]
    unit_us = row.unit_us
    if unit_us is not None:
        return lambda value: None if value is None else value * unit_us
    return lambda value: None if value is None else row.convert(value)


def _fitting(spec: FieldSpec, precision: int, scale: int) -> Callable[[Any], Any]:
    unit, ceiling = Decimal(1).scaleb(-scale), Decimal(10) ** (precision - scale)

    def fit(value: Decimal | None) -> Decimal | None:
        if value is None:
            return None
        if not value.is_finite() or abs(value) >= ceiling or _is_beyond(value, spec.min, spec.max):
            raise NotFittingError(f"{value} is not within {spec.type} and its bounds")
        with localcontext(prec=DECIMAL_DIGITS_MAX * 2):
            fitted = value.quantize(unit)
        if fitted != value:
            raise NotFittingError(f"{value} has more than {scale} digits behind the point")
        return fitted

    return fit


def _is_beyond(value: Decimal, least: float | None, most: float | None) -> bool:
    return (least is not None and value < least) or (most is not None and value > most)


def _bounded(base: type, least: float | None, most: float | None) -> Any:
    if least is None and most is None:
        return base
    if base is int:
        least = None if least is None else math.ceil(least)
        most = None if most is None else math.floor(most)
    return Annotated[base, msgspec.Meta(ge=least, le=most)]
