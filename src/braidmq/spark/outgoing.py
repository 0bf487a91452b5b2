"""From rows to MQTT packets: which column or option gives each part of a message.

Pure: an Arrow RecordBatch in, `Publish` packets out, one for each row and in order. The columns have the
names that the source gives them, so that what was read from MQTT can be written to MQTT as it is. Columns
that mean nothing to the sink are ignored. An option that is set stands above the column of the same meaning.
"""

from collections.abc import Callable, Iterator, Mapping
from string import Formatter
from typing import Any, Final

import pyarrow as pa

from braidmq.errors import BraidError, ConfigError
from braidmq.spark.repeats import Marker
from braidmq.spark.sink_options import SinkOptions
from braidmq.wire import Properties, Publish

INTEGERS: Final = frozenset({"tinyint", "smallint", "int", "bigint"})
STRING: Final = frozenset({"string"})
BYTES: Final = frozenset({"string", "binary"})
# What may be a column of its own, and the Spark types it may have.
OPTIONAL_COLUMNS: Final[Mapping[str, frozenset[str]]] = {
    "qos": INTEGERS,
    "retain": frozenset({"boolean"}),
    "message_expiry_s": INTEGERS,
    "content_type": STRING,
    "response_topic": STRING,
    "correlation_data": BYTES,
    "user_properties": frozenset({"map<string,string>"}),
}
QOS_DEFAULT: Final = 1


class RowError(BraidError):
    """A row can't be a message; the message says which row and why."""


class RowPackets:
    """How the rows of one schema become packets. Made once a task, refuses a schema that doesn't fit."""

    def __init__(self, options: SinkOptions, column_types: Mapping[str, str]) -> None:
        self._options = options
        self._types = column_types
        self._check_column(options.payload_column, BYTES, "payload")
        self._topic_parts = self._checked_topic()
        if options.id_column is not None:
            self._check_column(options.id_column, STRING | INTEGERS, "idColumn")
        for name, types in OPTIONAL_COLUMNS.items():
            if name in column_types and getattr(options, name, None) is None:
                self._check_column(name, types, name)

    def _checked_topic(self) -> list[tuple[str, str | None]]:
        """The topic's template as (text, column after it) pairs."""
        if self._options.topic is None:
            self._check_column(self._options.topic_column, STRING, "topic")
            return [("", self._options.topic_column)]
        parts = template_parts(self._options.topic)
        for _, column in parts:
            if column is not None:
                self._check_column(column, STRING | INTEGERS, "topic")
        return parts

    def _check_column(self, name: str, types: frozenset[str], purpose: str) -> None:
        found = self._types.get(name)
        if found is None:
            there = ", ".join(self._types)
            raise ConfigError(f"mqtt sink: {purpose} needs column {name!r}; there are {there}")
        if found not in types:
            wanted = " or ".join(sorted(types))
            raise ConfigError(f"mqtt sink: column {name!r} for {purpose} is {found}; it must be {wanted}")

    def packets(self, batch: pa.RecordBatch, marker: Marker | None, first_row: int) -> Iterator[Publish]:
        """One packet for each row. RowError tells what is wrong with a row, not which one it is."""
        topics = self._topics(batch)
        payload_of = batch.column(self._options.payload_column).to_pylist()
        values = {name: self._values(batch, name) for name in OPTIONAL_COLUMNS}
        ids = self._ids(batch)
        for at in range(batch.num_rows):
            row = {name: column(at) for name, column in values.items()}
            mark = None if marker is None else marker.mark(first_row + at, ids(at))
            yield Publish(
                topics(at), _payload(payload_of[at]), _qos(row.pop("qos")), bool(row.pop("retain")),
                properties=_properties(row, mark),
            )  # fmt: skip

    def _topics(self, batch: pa.RecordBatch) -> Callable[[int], str]:
        constants = [text for text, _ in self._topic_parts]
        columns = [name for _, name in self._topic_parts if name is not None]
        values = [batch.column(name).to_pylist() for name in columns]

        def topic(at: int) -> str:
            filled = list(constants)
            for part, (name, column) in enumerate(zip(columns, values, strict=True)):
                if column[at] is None:
                    raise RowError(f"column {name!r}, which makes the topic, is null")
                filled[part] += str(column[at])
            return "".join(filled)

        return topic

    def _values(self, batch: pa.RecordBatch, name: str) -> Callable[[int], Any]:
        chosen = getattr(self._options, name, None)
        if chosen is not None or name not in self._types:
            return lambda _: chosen
        return batch.column(name).to_pylist().__getitem__  # type: ignore[no-any-return]

    def _ids(self, batch: pa.RecordBatch) -> Callable[[int], Any]:
        name = self._options.id_column
        if name is None:
            return lambda _: None
        ids = batch.column(name).to_pylist()

        def row_id(at: int) -> Any:
            if ids[at] is None:
                raise RowError(f"column {name!r}, which identifies the row, is null")
            return ids[at]

        return row_id


def template_parts(template: str) -> list[tuple[str, str | None]]:
    """`site/{device}/alarm` as [("site/", "device"), ("/alarm", None)]; `{{` and `}}` stand for braces."""
    try:
        parsed = list(Formatter().parse(template))
    except ValueError as error:
        raise ConfigError(f"mqtt sink: option topic {template!r}: {error}") from None
    for _, column, form, conversion in parsed:
        if column == "" or form or conversion:
            raise ConfigError(f"mqtt sink: option topic {template!r}: braces hold the name of a column only")
    return _joined([(text, column) for text, column, _, _ in parsed])


def _joined(parts: list[tuple[str, str | None]]) -> list[tuple[str, str | None]]:
    """Parts without a column go in front of the next one, so that only the last may have none."""
    joined: list[tuple[str, str | None]] = []
    waiting = ""
    for text, column in parts:
        waiting += text
        if column is not None:
            joined.append((waiting, column))
            waiting = ""
    return [*joined, (waiting, None)] if waiting or not joined else joined


def _payload(value: str | bytes | None) -> bytes:
    # An empty payload clears a retained message: that must be asked for with an empty value.
    if value is None:
        raise RowError("the payload is null")
    return value.encode() if isinstance(value, str) else value


def _qos(value: int | None) -> int:
    qos = QOS_DEFAULT if value is None else value
    if qos not in (0, 1, 2):
        raise RowError(f"qos is 0, 1 or 2, not {qos}")
    return qos


def _properties(row: dict[str, Any], mark: tuple[str, str] | None) -> Properties:
    correlation = row["correlation_data"]
    expiry_s = row["message_expiry_s"]
    if expiry_s is not None and not 0 <= expiry_s < 2**32:
        raise RowError(f"message_expiry_s is {expiry_s}; it must be 0..4294967295")
    return Properties(
        message_expiry_s=expiry_s,
        content_type=row["content_type"],
        response_topic=row["response_topic"],
        correlation_data=correlation.encode() if isinstance(correlation, str) else correlation,
        user_properties=_user_properties(row["user_properties"], mark),
    )


def _user_properties(
    pairs: list[tuple[str, str | None]] | None, mark: tuple[str, str] | None
) -> tuple[tuple[str, str], ...]:
    given = tuple((name, "" if value is None else value) for name, value in pairs or ())
    return given if mark is None else (*given, mark)
