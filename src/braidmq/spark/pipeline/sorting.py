"""Sorting messages into tables: Arrow in, Arrow out. Pure, and the heart of the pipeline.

Invariant, held for any bytes: every message is in `raw`, and in exactly one of the clean tables and
`dead_letters`. Cost: a topic is matched once per batch however often it occurs, everything but the decoding
of payloads is done by column, and a batch of one schema without faults is never copied.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from braidmq.spark.pipeline.config import COMMON_COLUMNS, DEVICE, PAYLOAD, PipelineConfig, Schema
from braidmq.spark.pipeline.patterns import TopicPattern
from braidmq.spark.pipeline.payloads import PayloadReader, Reading, Refused
from braidmq.spark.pipeline.tables import (
    AGGREGATES_FEED,
    AGGREGATES_FEED_SCHEMA,
    ALERTS_FEED,
    ALERTS_FEED_SCHEMA,
    DEAD_LETTERS,
    DEAD_SCHEMA,
    RAW,
    RAW_SCHEMA,
    clean_schema,
)

UNMATCHED_TOPIC: Final = "unmatched_topic"
TOO_LARGE: Final = "too_large"
CLOCK_AHEAD: Final = "clock_ahead"
TOPICS_REMEMBERED_MAX: Final = 100_000

Sorted = dict[str, pa.Table]


class _Match(NamedTuple):
    """Which schema a topic belongs to, and what its levels say."""

    schema: int
    levels: dict[str, str]


_NO_MATCH: Final = _Match(-1, {})


class _Levels(NamedTuple):
    """What the levels of some topics say, and the topic of each row."""

    by_topic: list[dict[str, str]]
    topics: np.ndarray[Any, np.dtype[np.int32]]

    def column(self, name: str) -> pa.Array:
        return pa.array([levels.get(name) for levels in self.by_topic], pa.string()).take(self.topics)


class Sorter:
    """Sorts batches as one configuration says. It remembers topics, and nothing of the messages."""

    def __init__(self, config: PipelineConfig) -> None:
        self._config = config
        self._patterns: list[TopicPattern] = [schema.pattern for schema in config.schemas]
        self._stations = [_Station(schema, config) for schema in config.schemas]
        self._matches: dict[str, _Match] = {}

    def sort(self, messages: pa.Table) -> Sorted:
        """The rows of every table; `messages` has the columns of the source."""
        topics = pa.concat_arrays(messages["topic"].chunks).dictionary_encode()
        found = [self._match(topic) for topic in topics.dictionary.to_pylist()]
        codes = topics.indices.to_numpy(zero_copy_only=False)
        homes = np.array([match.schema for match in found], dtype=np.int64)[codes]
        sorted_: dict[str, list[pa.Table]] = {RAW: [messages.select(RAW_SCHEMA.names)]}
        unmatched = np.flatnonzero(homes == _NO_MATCH.schema)
        if len(unmatched):
            rows = messages.take(unmatched)
            refused = [Refused(row, UNMATCHED_TOPIC, "") for row in range(len(unmatched))]
            _add(sorted_, DEAD_LETTERS, _dead_letters(rows, None, refused))
        for number, station in enumerate(self._stations):
            chosen = np.flatnonzero(homes == number)
            if len(chosen):
                rows = messages if len(chosen) == len(messages) else messages.take(chosen)
                levels = _Levels([match.levels for match in found], codes[chosen])
                for name, table in station.sort(rows, levels):
                    _add(sorted_, name, table)
        return {name: pa.concat_tables(tables) for name, tables in sorted_.items()}

    def schema_of(self, topic: str) -> str | None:
        """The name of the schema that a topic belongs to."""
        found = self._match(topic).schema
        return None if found == _NO_MATCH.schema else self._config.schemas[found].name

    def _match(self, topic: str) -> _Match:
        known = self._matches.get(topic)
        if known is not None:
            return known
        if len(self._matches) >= TOPICS_REMEMBERED_MAX:
            self._matches.clear()
        readings = ((number, pattern.read(topic)) for number, pattern in enumerate(self._patterns))
        match = next((_Match(number, levels) for number, levels in readings if levels is not None), _NO_MATCH)
        self._matches[topic] = match
        return match


class _Station:
    """Where the messages of one schema are sorted."""

    def __init__(self, schema: Schema, config: PipelineConfig) -> None:
        self._schema = schema
        self._columns = clean_schema(schema)
        is_raw = schema.format == "raw"
        self._reader = (
            None if is_raw else PayloadReader(schema.format, schema.specs, schema.definition)
        )
        self._bytes_max = config.pipeline.payload_bytes_max
        self._ahead_us_max = round(config.clock_ahead_s * 1e6)
        self._clamps = config.pipeline.clock_ahead == "clamp"
        self._feeds_aggregates = config.aggregates is not None and bool(schema.metric_names)
        rules = [rule for rule in config.rules if rule.schema in (None, schema.name)]
        self._must_be_heard = any(rule.silent_s is not None for rule in rules)
        watched = {rule.metric for rule in rules if rule.metric is not None}
        self._watched_metrics = [name for name in schema.metric_names if name in watched]

    def sort(self, rows: pa.Table, levels: _Levels) -> Iterator[tuple[str, pa.Table]]:
        heard = self._with_levels(rows, levels)
        reading = self._read(rows[PAYLOAD].to_pylist())
        good = heard if len(reading.rows) == len(rows) else heard.take(pa.array(reading.rows, pa.int64()))
        for name, column in reading.columns.items():
            good = good.append_column(name, column)
        good = good.append_column("event_time", self._event_times(good))
        good, ahead = self._split_ahead(good, reading)
        refused = reading.refused + ahead
        if refused:
            yield DEAD_LETTERS, _dead_letters(rows, self._schema.name, refused)
        if len(good):
            yield self._schema.name, good.select(self._columns.names).cast(self._columns)
            if self._feeds_aggregates:
                yield AGGREGATES_FEED, self._aggregates_feed(good)
        yield from ((ALERTS_FEED, digest) for digest in self._alerts_feed(heard, good))

    def _with_levels(self, rows: pa.Table, levels: _Levels) -> pa.Table:
        """The columns that a clean message keeps; a field may be called like any of the others."""
        kept = [name for name in COMMON_COLUMNS if name in rows.column_names]
        heard = rows.select([*kept, PAYLOAD] if self._reader is None else kept)
        for name in dict.fromkeys((DEVICE, *self._schema.pattern.names)):
            heard = heard.append_column(name, levels.column(name))
        return heard

    def _read(self, payloads: list[bytes]) -> Reading:
        if self._reader is None:
            return Reading(list(range(len(payloads))), {}, [])
        large = [row for row, payload in enumerate(payloads) if len(payload) > self._bytes_max]
        if not large:
            return self._reader.read(payloads)
        is_large = set(large)
        fit = [row for row in range(len(payloads)) if row not in is_large]
        reading = self._reader.read([payloads[row] for row in fit])
        too_much = f"bytes, more than {self._bytes_max}"
        refused = [Refused(row, TOO_LARGE, f"{len(payloads[row])} {too_much}") for row in large]
        refused += [Refused(fit[row], reason, detail) for row, reason, detail in reading.refused]
        return Reading([fit[row] for row in reading.rows], reading.columns, refused)

    def _event_times(self, good: pa.Table) -> pa.ChunkedArray:
        arrival = pc.coalesce(good["published_at"], good["received_at"])
        named = self._schema.event_time
        return arrival if named is None else pc.coalesce(good[named], arrival)

    def _split_ahead(self, good: pa.Table, reading: Reading) -> tuple[pa.Table, list[Refused]]:
        """Leaves out rows whose clock is too far ahead of ours, or takes their arrival for the event."""
        ahead_us = pc.subtract(good["event_time"].cast(pa.int64()), good["received_at"].cast(pa.int64()))
        is_ahead = pc.greater(ahead_us, self._ahead_us_max)
        if not pc.any(is_ahead).as_py():
            return good, []
        if self._clamps:
            times = pc.if_else(is_ahead, good["received_at"], good["event_time"])
            return good.set_column(good.column_names.index("event_time"), "event_time", times), []
        places = np.flatnonzero(is_ahead.to_numpy())
        seconds = ahead_us.take(places).to_pylist()
        refused = [
            Refused(reading.rows[place], CLOCK_AHEAD, f"event time {us / 1e6:.3f} s ahead of its arrival")
            for place, us in zip(places, seconds, strict=True)
        ]
        return good.filter(pc.invert(is_ahead)), refused

    def _aggregates_feed(self, good: pa.Table) -> pa.Table:
        names = self._schema.metric_names
        columns = [good[name].cast(pa.float64()).to_numpy() for name in names]  # null becomes NaN
        values = pa.array(np.column_stack(columns).ravel(), from_pandas=True)  # and NaN null
        offsets = pa.array(np.arange(len(good) + 1, dtype=np.int32) * len(names))
        keys = pa.array(list(names) * len(good), pa.string())
        columns = [
            pa.repeat(pa.scalar(self._schema.name), len(good)),
            good[DEVICE],
            good["event_time"],
            pa.MapArray.from_arrays(offsets, keys, values),
        ]
        return pa.Table.from_arrays(columns, schema=AGGREGATES_FEED_SCHEMA)

    def _alerts_feed(self, heard: pa.Table, good: pa.Table) -> Iterator[pa.Table]:
        """Who was heard of, and how far the watched metrics went: one row a device, however much it sent."""
        if self._must_be_heard:
            seen = heard.group_by(DEVICE).aggregate([("received_at", "max")])
            yield self._digest({DEVICE: seen[DEVICE], "seen_at": seen["received_at_max"]})
        in_order = good.sort_by("event_time") if self._watched_metrics else good
        for metric in self._watched_metrics:
            known = in_order.select([DEVICE, "received_at", "event_time", metric])
            known = known.filter(pc.is_valid(known[metric]))
            wanted = [("received_at", "max"), (metric, "min"), (metric, "max"), (metric, "last")]
            ends = known.group_by(DEVICE, use_threads=False).aggregate([*wanted, ("event_time", "last")])
            yield self._digest(
                {
                    DEVICE: ends[DEVICE],
                    "metric": pa.repeat(pa.scalar(metric), len(ends)),
                    "seen_at": ends["received_at_max"],
                    "least": ends[f"{metric}_min"].cast(pa.float64()),
                    "most": ends[f"{metric}_max"].cast(pa.float64()),
                    "last": ends[f"{metric}_last"].cast(pa.float64()),
                    "last_at": ends["event_time_last"],
                }
            )

    def _digest(self, columns: dict[str, pa.ChunkedArray]) -> pa.Table:
        length = len(columns[DEVICE])
        columns = columns | {"schema": pa.repeat(pa.scalar(self._schema.name), length)}
        return pa.Table.from_arrays(
            [columns.get(field.name, pa.nulls(length, field.type)) for field in ALERTS_FEED_SCHEMA],
            schema=ALERTS_FEED_SCHEMA,
        )


def _add(sorted_: dict[str, list[pa.Table]], name: str, table: pa.Table) -> None:
    sorted_.setdefault(name, []).append(table)


def _dead_letters(rows: pa.Table, schema: str | None, refused: list[Refused]) -> pa.Table:
    chosen = rows.select(RAW_SCHEMA.names).take(pa.array([bad.row for bad in refused], pa.int64()))
    columns = [
        *chosen.columns,
        pa.array([schema] * len(refused), pa.string()),
        pa.array([bad.reason for bad in refused], pa.string()),
        pa.array([bad.detail for bad in refused], pa.string()),
    ]
    return pa.Table.from_arrays(columns, schema=DEAD_SCHEMA)
