"""What a pipeline is told: one TOML file, as frozen values.

The structs are the definition: types, ranges and defaults are read off the annotations. Invariant: what
`load_pipeline` returns has no doubtful part. An unknown key, a wrong type, a value out of range or two
values that contradict each other raise ConfigError, which names the file, the line where it can be found,
and the key.
"""

import re
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec

from braidmq.config.toml import Keys, line_of, nearest, parse_toml, read_text
from braidmq.errors import ConfigError, ProtocolError
from braidmq.spark.pipeline.encodings import Definition, loader
from braidmq.spark.pipeline.fields import FieldSpec, is_metric, is_timestamp
from braidmq.spark.pipeline.patterns import TopicPattern, parse_pattern
from braidmq.topics.filters import split_shared, validate_filter

NAME_PATTERN: Final = r"^[a-z][a-z0-9_]{0,62}$"
Name = Annotated[str, msgspec.Meta(pattern=NAME_PATTERN)]
Text = Annotated[str, msgspec.Meta(min_length=1)]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=86_400 * 366)]
Fraction = Annotated[float, msgspec.Meta(gt=0, lt=1)]
Qos = Literal[0, 1, 2]

DEVICE: Final = "device"
# The columns that every clean table has; a field or a level of a topic can't have such a name.
COMMON_COLUMNS: Final = (
    "topic", DEVICE, "event_time", "received_at", "published_at", "broker", "subscriber", "offset",
)  # fmt: skip
PARTITION_COLUMNS: Final = ("day", "hour")
PAYLOAD: Final = "payload"  # the one field of a schema of format raw
TABLE_NAMES: Final = frozenset({"raw", "dead_letters", "aggregates", "alerts"})
CLOCK_AHEAD_S: Final = 300.0  # where no windows depend on it
ALERT_PLACES: Final = frozenset({"rule", "schema", DEVICE})


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What all tables of the file have in common."""


class PipelineSettings(_Table, frozen=True, kw_only=True):
    """Where the tables are and how often they grow."""

    location: Text
    work: Text | None = None  # checkpoints, commits and hand-offs; by default _pipeline in the location
    format: Literal["parquet", "delta"] = "parquet"
    trigger_s: Seconds = 1.0
    payload_bytes_max: Annotated[int, msgspec.Meta(ge=1, le=256 * 1024 * 1024)] = 1024 * 1024
    # An event time further ahead of its arrival would close the windows of everybody else.
    clock_ahead_s_max: Seconds | None = None
    clock_ahead: Literal["dead_letter", "clamp"] = "dead_letter"
    file_rows_max: Annotated[int, msgspec.Meta(ge=1_000)] = 1_000_000


class Source(_Table, frozen=True, kw_only=True):
    """Brokers and what to subscribe to at each of them."""

    brokers: Annotated[tuple[Text, ...], msgspec.Meta(min_length=1)]
    group: Text
    topics: tuple[Text, ...] = ()  # by default the topics of the schemas
    subscribers_per_broker: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 1
    qos: Qos = 1
    username: Text | None = None
    password_file: Text | None = None
    max_messages_per_trigger: Annotated[int, msgspec.Meta(ge=1)] | None = None
    fail_when_disconnected_s: Seconds | None = None  # by default a broker may be away for ever
    options: dict[str, str | int | bool] = {}  # any other option of the `mqtt` source, by its own name


class Schema(_Table, frozen=True, kw_only=True):
    """What the messages of some topics look like, and so one clean table."""

    name: Name
    topic: Text
    format: Literal["json", "cbor", "messagepack", "avro", "protobuf", "raw"] = "json"
    schema_file: Text | None = None  # of Avro and Protobuf, relative to this file
    message: Text | None = None  # the Protobuf message
    definition: Definition | None = None  # what schema_file says; read when the configuration is
    fields: dict[Name, str | FieldSpec] = {}
    event_time: Name | None = None
    metrics: tuple[Name, ...] | None = None  # by default every number

    @property
    def pattern(self) -> TopicPattern:
        return parse_pattern(self.topic)

    @property
    def specs(self) -> dict[str, FieldSpec]:
        """Every field in full."""
        return {
            name: FieldSpec(type=spec) if isinstance(spec, str) else spec
            for name, spec in self.fields.items()
        }

    @property
    def metric_names(self) -> tuple[str, ...]:
        if self.metrics is not None:
            return self.metrics
        return tuple(name for name, spec in self.specs.items() if is_metric(spec))


class Aggregates(_Table, frozen=True, kw_only=True):
    """Windows per device and metric."""

    window_s: Seconds = 60.0
    slide_s: Seconds | None = None
    watermark_s: Seconds = 120.0
    close_after_s: Seconds | None = None  # by the clock, when no event comes
    percentiles: tuple[Fraction, ...] = (0.5, 0.95, 0.99)
    trigger_s: Seconds = 10.0


class Alerts(_Table, frozen=True, kw_only=True):
    """Where alerts are published."""

    brokers: tuple[Text, ...] = ()  # by default those of the first source
    topic: Text = "alerts/{device}/{rule}"
    qos: Qos = 1
    retain: bool = False
    trigger_s: Seconds = 5.0
    options: dict[str, str | int | bool] = {}  # any other option of the `mqtt` sink, by its own name


class Rule(_Table, frozen=True, kw_only=True):
    """What is worth an alert: a metric beyond a threshold, or a device that isn't heard of."""

    name: Name
    schema: Name | None = None
    metric: Name | None = None
    above: float | None = None
    below: float | None = None
    silent_s: Seconds | None = None


class PipelineConfig(_Table, frozen=True, kw_only=True):
    """Everything one pipeline is told."""

    pipeline: PipelineSettings
    sources: Annotated[tuple[Source, ...], msgspec.Meta(min_length=1)] = msgspec.field(name="source")
    schemas: Annotated[tuple[Schema, ...], msgspec.Meta(min_length=1)] = msgspec.field(name="schema")
    aggregates: Aggregates | None = None
    alerts: Alerts = Alerts()
    rules: tuple[Rule, ...] = msgspec.field(name="rule", default=())
    spark: dict[str, str | int | bool] = {}  # settings of Spark itself

    @property
    def clock_ahead_s(self) -> float:
        """How far an event may be ahead of its arrival: less than the watermark, or others become late."""
        if self.pipeline.clock_ahead_s_max is not None:
            return self.pipeline.clock_ahead_s_max
        return CLOCK_AHEAD_S if self.aggregates is None else self.aggregates.watermark_s / 2

    def schema(self, name: str) -> Schema:
        return next(schema for schema in self.schemas if schema.name == name)


def load_pipeline(path: Path) -> PipelineConfig:
    """The pipeline that a TOML file describes; a relative location is beside the file."""
    text = read_text(path)
    raw = parse_toml(text, str(path))
    try:
        config = msgspec.convert(raw, PipelineConfig)
        _refuse_contradictions(config)
    except msgspec.ValidationError as error:
        raise ConfigError(_located(str(error), path, text)) from error
    except _DoubtError as error:
        raise ConfigError(f"{path}{line_of(text, error.keys)}: {_spelt(error.keys)}: {error}") from error
    config = msgspec.structs.replace(
        config, schemas=tuple(_with_definition(schema, path) for schema in config.schemas)
    )
    return msgspec.structs.replace(
        config,
        pipeline=msgspec.structs.replace(
            config.pipeline,
            location=_beside(config.pipeline.location, path),
            work=None if config.pipeline.work is None else _beside(config.pipeline.work, path),
        ),
    )


def _with_definition(schema: Schema, path: Path) -> Schema:
    if schema.schema_file is None:
        return schema
    file = path.parent / schema.schema_file
    try:
        definition = Definition(file.read_bytes(), schema.message)
    except OSError as error:
        raise ConfigError(f"{path}: [schema] schema_file: {file}: {error.strerror}") from error
    try:
        loader(schema.format, definition)
    except ConfigError as error:
        raise ConfigError(f"{path}: [schema] schema_file: {file}: {error}") from error
    return msgspec.structs.replace(schema, definition=definition)


def _beside(location: str, path: Path) -> str:
    return location if "://" in location else str((path.parent / location).absolute())


# -- what each value alone can't tell -----------------------------------------------------------------------

class _DoubtError(Exception):
    """Something contradicts something else; `keys` lead to it in the file."""

    def __init__(self, keys: Keys, message: str) -> None:
        super().__init__(message)
        self.keys = keys


def _refuse_contradictions(config: PipelineConfig) -> None:
    for index, source in enumerate(config.sources):
        _refuse_source(source, ("source", index))
    for index, schema in enumerate(config.schemas):
        _refuse_schema(schema, ("schema", index))
    _refuse_repeats("schema", [schema.name for schema in config.schemas])
    _refuse_repeats("rule", [rule.name for rule in config.rules])
    for index, rule in enumerate(config.rules):
        _refuse_rule(rule, config, ("rule", index))
    _refuse_place(config.pipeline)
    _refuse_alerts(config.alerts)
    _refuse_aggregates(config)
    groups = [(source.group, broker) for source in config.sources for broker in source.brokers]
    for group, broker in groups:
        if groups.count((group, broker)) > 1:
            raise _DoubtError(("source",), f"group {group!r} is used twice at broker {broker}")


def _refuse_place(settings: PipelineSettings) -> None:
    if settings.work is None and "://" in settings.location and not settings.location.startswith("file://"):
        raise _DoubtError(
            ("pipeline", "work"),
            "is needed where the location is no directory: one for checkpoints and commits, which need a "
            "rename that is done at once; on a cluster one that all machines share",
        )
    if settings.work is not None and "://" in settings.work:
        raise _DoubtError(("pipeline", "work"), "has to be a directory, not a URI")


def _refuse_repeats(table: str, names: list[str]) -> None:
    for index, name in enumerate(names):
        if name in names[:index]:
            raise _DoubtError((table, index, "name"), f"{name!r} is there already")


def _refuse_source(source: Source, keys: Keys) -> None:
    for topic in source.topics:
        try:
            validate_filter(topic)
            shared, _ = split_shared(topic)
        except ProtocolError as error:
            raise _DoubtError((*keys, "topics"), f"{topic!r}: {error.detail}") from error
        if shared is not None:
            raise _DoubtError((*keys, "topics"), f"{topic!r}: the group is a key of its own, `group`")


def _refuse_schema(schema: Schema, keys: Keys) -> None:
    if schema.name in TABLE_NAMES:
        raise _DoubtError((*keys, "name"), f"{schema.name!r} is the name of another table")
    try:
        levels = schema.pattern.names
    except ProtocolError as error:
        raise _DoubtError((*keys, "topic"), f"{schema.topic!r}: {error.detail}") from error
    taken = {*COMMON_COLUMNS, *PARTITION_COLUMNS} - {DEVICE}
    for name in levels:
        if name in taken or not re.match(NAME_PATTERN, name) or levels.count(name) > 1:
            raise _DoubtError((*keys, "topic"), f"{{{name}}} can't be the name of a column")
    _refuse_fields(schema, keys, taken | {DEVICE, *levels})


def _refuse_format(schema: Schema, keys: Keys) -> None:
    if schema.definition is not None:
        raise _DoubtError((*keys, "definition"), "is read from schema_file")
    has_file = schema.format in ("avro", "protobuf")
    if has_file != (schema.schema_file is not None):
        raise _DoubtError((*keys, "schema_file"), "goes with the formats avro and protobuf, and they with it")
    if (schema.format == "protobuf") != (schema.message is not None):
        raise _DoubtError((*keys, "message"), "goes with the format protobuf, and it with a message")


def _refuse_fields(schema: Schema, keys: Keys, taken: set[str]) -> None:
    _refuse_format(schema, keys)
    if schema.format == "raw" and schema.fields:
        raise _DoubtError((*keys, "fields"), "a schema of format raw has none: the payload is kept as it is")
    if schema.format != "raw" and not schema.fields:
        raise _DoubtError((*keys, "fields"), 'a schema has to have fields, or format = "raw"')
    for name, spec in schema.specs.items():
        where = (*keys, "fields", name)
        if name in taken:
            raise _DoubtError(where, "a column of every clean table, or a level of the topic, has this name")
        if problem := spec.problem():
            raise _DoubtError(where, problem)
    paths = [spec.keys(name) for name, spec in schema.specs.items()]
    for one in paths:
        if any(one == other[: len(one)] and one is not other for other in paths):
            raise _DoubtError(
                (*keys, "fields"), f"the path {'.'.join(one)} is used twice, or leads through a value"
            )
    if schema.event_time is not None and not is_timestamp(schema.specs.get(schema.event_time)):
        raise _DoubtError((*keys, "event_time"), f"{schema.event_time!r} is no field of type timestamp")
    for name in schema.metrics or ():
        if name not in schema.specs or not is_metric(schema.specs[name]):
            raise _DoubtError((*keys, "metrics"), f"{name!r} is no field that is a number")


def _refuse_rule(rule: Rule, config: PipelineConfig, keys: Keys) -> None:
    threshold = (rule.above is not None) + (rule.below is not None)
    if threshold + (rule.silent_s is not None) != 1:
        raise _DoubtError(keys, "one of above, below and silent_s has to be there")
    if rule.schema is not None and rule.schema not in {schema.name for schema in config.schemas}:
        raise _DoubtError((*keys, "schema"), f"there is no schema {rule.schema!r}")
    if (rule.metric is not None) != bool(threshold):
        raise _DoubtError(keys, "metric goes with above or below, and they with it")
    schemas = [schema for schema in config.schemas if rule.schema in (None, schema.name)]
    if rule.metric is not None and not any(rule.metric in schema.metric_names for schema in schemas):
        raise _DoubtError((*keys, "metric"), f"no schema has a metric {rule.metric!r}")


def _refuse_alerts(alerts: Alerts) -> None:
    places = set(re.findall(r"{([^{}]*)}", alerts.topic))
    if places - ALERT_PLACES:
        known = ", ".join(f"{{{place}}}" for place in sorted(ALERT_PLACES))
        raise _DoubtError(("alerts", "topic"), f"only {known} can be filled in")
    plain = re.sub(r"{[^{}]*}", "", alerts.topic)
    if set(plain) & set("+#{}"):
        raise _DoubtError(("alerts", "topic"), f"{alerts.topic!r} is no topic to publish to")


def _refuse_aggregates(config: PipelineConfig) -> None:
    aggregates = config.aggregates
    if aggregates is None:
        return
    if aggregates.slide_s is not None and aggregates.slide_s > aggregates.window_s:
        raise _DoubtError(("aggregates", "slide_s"), "is above window_s: some events would be in no window")
    if config.clock_ahead_s >= aggregates.watermark_s:
        raise _DoubtError(
            ("pipeline", "clock_ahead_s_max"),
            f"has to be below watermark_s of [aggregates] ({aggregates.watermark_s:g}): one fast clock would "
            "make the events of all others late",
        )
    if aggregates.close_after_s is not None and aggregates.close_after_s < aggregates.watermark_s:
        raise _DoubtError(
            ("aggregates", "close_after_s"), "is below watermark_s: events that may be late would be too late"
        )
    if not any(schema.metric_names for schema in config.schemas):
        raise _DoubtError(("aggregates",), "no schema has a field that is a number")


# -- where it is in the file --------------------------------------------------------------------------------


def _located(message: str, path: Path, text: str) -> str:
    """msgspec's complaint with the file, the line and our spelling of the place."""
    what, _, where = message.partition(" - at `$")
    keys: list[str | int] = [
        int(index) if index else key for key, index in re.findall(r"\.([A-Za-z_]\w*)|\[(\d+)\]", where)
    ]
    unknown = re.search(r"unknown field `(.*)`", what)
    if unknown:
        keys.append(unknown[1])
        what = f"unknown key{nearest(unknown[1], _known(keys))}"
    missing = re.search(r"missing required field `(.*)`", what)
    if missing:
        what = f"{missing[1]} is missing"
    return f"{path}{line_of(text, tuple(keys))}: {_spelt(tuple(keys))}: {what}"


_TABLES: Final[dict[str, type[msgspec.Struct]]] = {
    "pipeline": PipelineSettings, "source": Source, "schema": Schema, "aggregates": Aggregates,
    "alerts": Alerts, "rule": Rule, "fields": FieldSpec,
}  # fmt: skip


def _known(keys: list[str | int]) -> list[str]:
    tables = [key for key in keys[:-1] if key in _TABLES]
    struct = _TABLES[str(tables[-1])] if tables else PipelineConfig
    return [field.encode_name for field in msgspec.structs.fields(struct)]


def _spelt(keys: Keys) -> str:
    """`[schema] fields.temperature`, as a reader of the file would call it."""
    names = [key for key in keys if isinstance(key, str)]
    if not names:
        return "the file"
    return f"[{names[0]}] {'.'.join(names[1:])}".rstrip()
