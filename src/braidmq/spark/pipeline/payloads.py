"""Payloads of one schema: bytes in, typed columns out, or the reason why not. Pure.

A schema becomes a msgspec type, nested as its paths are, so that decoding, types, ranges and missing fields
are checked in C in one pass (about a microsecond a message). CBOR, Avro and Protobuf are decoded by their
libraries (`encodings`) and then checked by the same type. Whatever bytes come, a payload ends up in the
columns or among the refused, and never raises: hostile payloads are daily business. Of a key that is there
twice the last value counts, as in most readers of JSON.
"""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from braidmq.spark.pipeline.encodings import Definition, loader
from braidmq.spark.pipeline.fields import (
    TYPES,
    FieldSpec,
    NotFittingError,
    accepted_type,
    convert_value,
    is_plain,
    kept_type,
)

DETAIL_CHARACTERS_MAX: Final = 200

MALFORMED: Final = "malformed"
MISSING_FIELD: Final = "missing_field"
WRONG_TYPE: Final = "wrong_type"
OUT_OF_RANGE: Final = "out_of_range"


class Refused(NamedTuple):
    """A payload that doesn't fit: its row, a reason to count by, and the detail for people."""

    row: int
    reason: str
    detail: str


class Reading(NamedTuple):
    """What became of some payloads: the rows that fit with a column per field, and the others."""

    rows: list[int]
    columns: dict[str, pa.Array]
    refused: list[Refused]


Decode = Callable[[bytes], Any]


class PayloadReader:
    """Reads the payloads of one schema."""

    def __init__(
        self, format: str, specs: dict[str, FieldSpec], definition: Definition | None = None
    ) -> None:
        tree: dict[str, Any] = {}
        for name, spec in specs.items():
            *outer, last = spec.keys(name)
            branch = tree
            for key in outer:
                branch = branch.setdefault(key, {})
            branch[last] = spec
        places: dict[tuple[str, ...], str] = {}
        self._decode = _decoder(format, _struct_of(tree, (), "", places)[0], definition)
        self._columns = [
            (name, places[spec.keys(name)], spec.type) for name, spec in specs.items() if is_plain(spec)
        ]
        self._made = [
            (name, attribute(places[spec.keys(name)]), convert_value(spec), kept_type(spec))
            for name, spec in specs.items()
            if not is_plain(spec)
        ]

    def read(self, payloads: Sequence[bytes]) -> Reading:
        decode = self._decode
        rows: list[int] = []
        decoded: list[Any] = []
        refused: list[Refused] = []
        made: list[list[Any]] = []
        for row, payload in enumerate(payloads):
            try:
                value = decode(payload)
                if self._made:
                    made.append([convert(read(value)) for _, read, convert, _ in self._made])
                decoded.append(value)
            except Exception as error:  # decoders raise what they like about hostile bytes
                refused.append(_refusal(row, error))
            else:
                rows.append(row)
        columns = {name: _column(_values(decoded, place), type_) for name, place, type_ in self._columns}
        for index, (name, _, _, kept) in enumerate(self._made):
            columns[name] = pa.array([values[index] for values in made], kept)
        return Reading(rows, columns, refused)


def _decoder(format: str, struct: type, definition: Definition | None) -> Decode:
    match format:
        case "json":
            return msgspec.json.Decoder(struct).decode
        case "messagepack":
            return msgspec.msgpack.Decoder(struct).decode
    loads = loader(format, definition)
    return lambda payload: msgspec.convert(loads(payload), struct)


def attribute(place: str) -> Callable[[Any], Any]:
    """Reads an attribute of an attribute; what is inside an absent branch is absent."""
    names = place.split(".")

    def read(value: Any) -> Any:
        for name in names:
            value = None if value is None else getattr(value, name)
        return value

    return read


def _struct_of(
    tree: dict[str, Any], keys: tuple[str, ...], place: str, places: dict[tuple[str, ...], str]
) -> tuple[type, bool]:
    """A msgspec type for one level of the tree, and whether it has to be there.

    Its attributes have names of our own, since keys may be anything; `places` learns where each key went.
    """
    required, optional = [], []
    names = {}
    for index, (key, branch) in enumerate(tree.items()):
        name = f"f{index}"
        names[name] = key
        here = f"{place}.{name}".lstrip(".")
        if isinstance(branch, FieldSpec):
            places[*keys, key] = here
            type_, needed = accepted_type(branch), not branch.optional
        else:
            type_, needed = _struct_of(branch, (*keys, key), here, places)
            type_ = type_ if needed else type_ | None
        if needed:
            required.append((name, type_))
        else:
            optional.append((name, type_, None))
    struct = msgspec.defstruct("Payload", [*required, *optional], rename=names)
    return struct, bool(required)


def _values(decoded: list[Any], place: str) -> list[Any]:
    """One attribute of all; what is inside an absent branch is absent."""
    first, *inner = place.split(".")
    values = list(map(attrgetter(first), decoded))
    for name in inner:
        read = attrgetter(name)
        values = [None if value is None else read(value) for value in values]
    return values


def _column(values: list[Any], type_: str) -> pa.Array:
    row = TYPES[type_]
    if not pa.types.is_timestamp(row.kept):
        return pa.array(values, row.kept)
    if row.unit_us is None:
        values = [None if value is None else row.convert(value) for value in values]
    times = pa.array(values, pa.int64())
    return (times if row.unit_us in (None, 1) else pc.multiply(times, row.unit_us)).cast(row.kept)


def _refusal(row: int, error: Exception) -> Refused:
    text = str(error)
    if isinstance(error, NotFittingError):
        return Refused(row, OUT_OF_RANGE, _shown(text))
    if not isinstance(error, msgspec.ValidationError):
        return Refused(row, MALFORMED, _shown(f"{type(error).__name__}: {text}"))
    if "missing required field" in text:
        return Refused(row, MISSING_FIELD, _shown(text))
    if ", got `" in text:
        return Refused(row, WRONG_TYPE, _shown(text))
    # A number beyond its bounds, or a text that is no time.
    return Refused(row, OUT_OF_RANGE, _shown(text))


def _shown(text: str) -> str:
    """Fit for a table: short, and without halves of characters."""
    return text[:DETAIL_CHARACTERS_MAX].encode(errors="replace").decode()
