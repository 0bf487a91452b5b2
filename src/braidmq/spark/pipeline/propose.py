"""Looks at messages and proposes a schema for them. Pure, apart from `sample`.

The proposal is a beginning for people to edit: it accepts everything that was seen, and says of each field
what it was made of. Numbers that look like times since 1970 are taken for such if their names or all their
values say so; a field that some message lacked is optional.
"""

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

import cbor2
import msgspec

from braidmq.client import BlockingClient
from braidmq.client.options import OptionChoices
from braidmq.spark.pipeline.config import COMMON_COLUMNS, DEVICE, NAME_PATTERN, PARTITION_COLUMNS
from braidmq.spark.pipeline.fields import INT32_MAX, INT64_MAX

Sample = tuple[str, bytes]
MIXED: Final = "mixed"
# Times from 2001 to 2100, in the units that devices use.
_EPOCHS: Final = {"timestamp_s": 1, "timestamp_ms": 1_000, "timestamp_us": 1_000_000}
_EPOCH_S: Final = (978_307_200, 4_102_444_800)
_TIME_WORDS: Final = re.compile(r"(^|_|\b)(ts|time|timestamp|at|date|when)(_|\b|$)", re.IGNORECASE)


class Field(NamedTuple):
    """A proposed field, and what it was made of."""

    name: str
    type: str
    path: str | None
    optional: bool
    example: str


class Proposal(NamedTuple):
    """A proposed schema."""

    name: str
    topic: str
    format: str
    event_time: str | None
    fields: list[Field]
    messages: int
    unreadable: int


def sample(address: str, filter: str, messages_max: int, seconds: float, **choices: Any) -> list[Sample]:
    """Messages of a topic filter, as they come."""
    end = time.monotonic() + seconds
    samples: list[Sample] = []
    options: OptionChoices = {**choices}  # type: ignore[typeddict-item]
    with BlockingClient(address, **options) as client:
        client.subscribe(filter, qos=0)
        while len(samples) < messages_max and (left_s := end - time.monotonic()) > 0:
            batch = client.receive_batch(messages_max - len(samples), left_s)
            samples += [(message.topic, bytes(message.payload)) for message in batch]
    return samples


def propose(filter: str, samples: Sequence[Sample]) -> Proposal:
    """The schema that fits the most of the samples."""
    readings = {name: _read_all(decode, samples) for name, decode in _DECODERS.items()}
    format = max(readings, key=lambda name: len(readings[name]))
    documents = readings[format]
    if 2 * len(documents) <= len(samples):
        format, documents = "raw", []
    fields = list(_fields(documents, _taken(filter)))
    times = [field.name for field in fields if field.type.startswith("timestamp") and not field.optional]
    return Proposal(
        name=_schema_name(filter),
        topic=_named_levels(filter, [topic for topic, _ in samples]),
        format=format,
        event_time=times[0] if times else None,
        fields=fields,
        messages=len(samples),
        unreadable=0 if format == "raw" else len(samples) - len(documents),
    )


def to_toml(proposal: Proposal) -> str:
    """The proposal as it is written in a pipeline file."""
    return "\n".join(_toml_lines(proposal)) + "\n"


def _decode_json(payload: bytes) -> Any:
    return msgspec.json.decode(payload)


def _decode_messagepack(payload: bytes) -> Any:
    return msgspec.msgpack.decode(payload)


def _decode_cbor(payload: bytes) -> Any:
    return cbor2.loads(payload)


# In the order of preference, when several can read everything.
_DECODERS: Final = {"json": _decode_json, "cbor": _decode_cbor, "messagepack": _decode_messagepack}


def _read_all(decode: Any, samples: Sequence[Sample]) -> list[dict[str, Any]]:
    documents = []
    for _, payload in samples:
        try:
            document = decode(payload)
        except Exception:  # what can't be read in a format isn't of that format
            continue
        if isinstance(document, dict):
            documents.append(document)
    return documents


def _fields(documents: list[dict[str, Any]], taken: set[str]) -> Iterator[Field]:
    values: dict[tuple[str, ...], list[Any]] = {}
    for document in documents:
        for path, value in _leaves(document, ()):
            values.setdefault(path, []).append(value)
    for path, seen in values.items():
        present = [value for value in seen if value is not None]
        type_ = _type_of(path[-1], present)
        if type_ == MIXED:
            continue
        name = _column_name(path, taken)
        taken.add(name)
        optional = len(present) < len(documents)
        yield Field(name, type_, None if path == (name,) else ".".join(path), optional, _example(present))


def _leaves(document: dict[Any, Any], path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in document.items():
        if not isinstance(key, str) or not key or "." in key:
            continue
        if isinstance(value, dict):
            yield from _leaves(value, (*path, key))
        else:
            yield (*path, key), value


def _type_of(key: str, values: list[Any]) -> str:
    """The narrowest type that takes all of them; MIXED if there is none, or they are lists."""
    kinds = {type(value) for value in values}
    match sorted(kind.__name__ for kind in kinds):
        case ["bool"]:
            return "boolean"
        case ["int"]:
            return _whole_type(key, values)
        case ["float"] | ["float", "int"]:
            return _epoch_type(key, values, ("timestamp_s",)) or "double"
        case ["bytes"]:
            return "binary"
        case ["datetime"]:
            return "timestamp"
        case ["str"]:
            return "timestamp" if all(map(_is_time, values)) else "string"
    return MIXED


def _whole_type(key: str, values: list[int]) -> str:
    if epoch := _epoch_type(key, values, tuple(_EPOCHS)):
        return epoch
    if all(-INT32_MAX <= value <= INT32_MAX for value in values):
        return "int"
    return "long" if all(-INT64_MAX <= value <= INT64_MAX for value in values) else "double"


def _epoch_type(key: str, values: Sequence[float], types: tuple[str, ...]) -> str | None:
    """Seconds are taken for a time only if the name says so; larger units by their size alone."""
    for type_ in types:
        least, most = (bound * _EPOCHS[type_] for bound in _EPOCH_S)
        if all(least <= value < most for value in values) and (
            type_ != "timestamp_s" or _TIME_WORDS.search(key)
        ):
            return type_
    return None


def _is_time(text: str) -> bool:
    try:
        msgspec.convert(text, datetime)
    except msgspec.ValidationError:
        return False
    return True


def _example(values: list[Any]) -> str:
    return str(values[0])[:40].replace("\n", " ") if values else ""


def _taken(filter: str) -> set[str]:
    return {*COMMON_COLUMNS, *PARTITION_COLUMNS, *(name for name, _ in _level_names(filter, []))}


def _column_name(path: tuple[str, ...], taken: set[str]) -> str:
    words = re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", path[-1]).lower()).strip("_")
    name = words if re.match(NAME_PATTERN, words) else f"field_{words}".rstrip("_")[:60]
    candidates = [
        name,
        "_".join(filter(None, (*(re.sub(r"\W+", "_", key.lower()) for key in path[:-1]), name))),
    ]
    candidates += [f"{name}_{number}" for number in range(2, 1_000)]
    return next(word for word in candidates if word not in taken and re.match(NAME_PATTERN, word))


def _schema_name(filter: str) -> str:
    words = [word.lower() for word in re.findall(r"[A-Za-z][A-Za-z0-9]*", filter)]
    return words[-1][:60] if words else "messages"


def _level_names(filter: str, topics: Iterable[str]) -> list[tuple[str, int]]:
    """Names for the wildcard levels: the one with the most values is the device."""
    places = [place for place, level in enumerate(filter.split("/")) if level == "+"]
    levels = [topic.split("/") for topic in topics]
    variety = {place: len({topic[place] for topic in levels if len(topic) > place}) for place in places}
    device = max(places, key=lambda place: (variety[place], place), default=None)
    return [(DEVICE if place == device else f"level_{place + 1}", place) for place in places]


def _named_levels(filter: str, topics: list[str]) -> str:
    levels = filter.split("/")
    for name, place in _level_names(filter, topics):
        levels[place] = f"{{{name}}}"
    return "/".join(levels)


def _toml_lines(proposal: Proposal) -> Iterator[str]:
    yield f"# from {proposal.messages} messages, of which {proposal.unreadable} couldn't be read"
    yield "[[schema]]"
    yield f'name = "{proposal.name}"'
    yield f'topic = "{proposal.topic}"'
    yield f'format = "{proposal.format}"'
    if proposal.event_time is not None:
        yield f'event_time = "{proposal.event_time}"'
    if proposal.fields:
        yield ""
        yield "[schema.fields]"
    for field in proposal.fields:
        more = [f'type = "{field.type}"']
        if field.path is not None:
            more.append(f"path = {msgspec.json.encode(field.path).decode()}")
        if field.optional:
            more.append("optional = true")
        spec = f'"{field.type}"' if len(more) == 1 else f"{{ {', '.join(more)} }}"
        yield f"{field.name} = {spec}  # {field.example}".rstrip(" #")
