"""What can be chosen about reading: the stream, a range of its log, or the retained messages.

Which subscribers there are follows from the options alone (`subscribers`), with names that stay the same from
run to run: a name is the MQTT client identifier, the folder of the write-ahead log and the key in an offset.
"""

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

from braidmq.errors import BraidError, ConfigError
from braidmq.spark.offsets import Position, read_position
from braidmq.spark.options import BrokerAddress, Connection, OptionReader, read_connection
from braidmq.spark.plan import TriggerLimits
from braidmq.topics import validate_filter

MIB = 1 << 20
WAL_BYTES_LEAST = 16 * MIB
# Beyond a third of the packet identifiers a repeat can't be guessed from a reused identifier (see dedup.py).
RECEIVE_MAXIMUM_FOR_GUESS = 21_844

_STREAM_ONLY = (
    "maxOffsetsPerTrigger", "maxBytesPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "walMaxBytes",
    "metricsPort", "metricsHost", "availableNowQuiet", "availableNowTimeout", "dedupRedelivered",
    "subscribersPerBroker", "sessionExpiry", "receiveMaximum", "segmentDelay", "shared",
    "failWhenDisconnected", "failWhenUnavailable", "watchBrokers", "maxOutage",
)  # fmt: skip
_CONNECTION_ONLY = (
    "brokers", "brokerUrl", "topicFilter", "subscribe", "qos", "username", "password", "tls", "tls.ca",
    "tls.certificate", "tls.key", "tls.verify", "keepAlive", "clientIdPrefix", "group", "snapshotQuiet",
)  # fmt: skip


class Subscriber(msgspec.Struct, frozen=True):
    """One member of the group: one receiver process, one MQTT session, one folder of the log."""

    name: str
    broker: BrokerAddress


class StreamOptions(msgspec.Struct, frozen=True, kw_only=True):
    connection: Connection
    filters: tuple[str, ...]
    group: str
    shared: bool
    subscribers: tuple[Subscriber, ...]
    qos: int
    session_expiry_s: int
    receive_maximum: int
    wal_location: str
    wal_bytes_max: int  # of all subscribers together
    segment_delay_s: float
    limits: TriggerLimits
    starting: Position
    fail_on_data_loss: bool
    dedup: str  # auto, true or false
    disconnected_s_max: float | None  # None: a broker may be away for ever
    fail_when_unavailable: bool
    watches_brokers: bool
    outage_s_max: float | None  # how long receivers may be away, as the user expects
    metrics_port: int | None
    metrics_host: str
    available_now_quiet_s: float
    available_now_timeout_s: float

    @property
    def subscriptions(self) -> tuple[str, ...]:
        prefix = f"$share/{self.group}/" if self.shared else ""
        return tuple(prefix + topic_filter for topic_filter in self.filters)

    @property
    def subscriber_wal_bytes_max(self) -> int:
        return self.wal_bytes_max // len(self.subscribers)


class WalRangeOptions(msgspec.Struct, frozen=True, kw_only=True):
    wal_location: str
    starting: Position
    ending: Position
    fail_on_data_loss: bool


class SnapshotOptions(msgspec.Struct, frozen=True, kw_only=True):
    connection: Connection
    filters: tuple[str, ...]
    qos: int
    client_id_prefix: str
    quiet_s: float


def read_stream_options(given: Mapping[str, str]) -> StreamOptions:
    options = OptionReader(given)
    options.refuse(("endingOffsets",), "is for spark.read; a stream has no end")
    options.refuse(("snapshotQuiet",), "is for spark.read: a stream takes no snapshot")
    connection = read_connection(options)
    group = _read_group(options, None)
    shared = options.boolean("shared", True)
    each = options.integer("subscribersPerBroker", 1, 1, 1_000)
    if not shared and each > 1:
        raise ConfigError("option subscribersPerBroker over 1 needs shared=true, or each gets every message")
    prefix = _read_client_id_prefix(options, group)
    read = StreamOptions(
        connection=connection,
        filters=_read_filters(options),
        group=group,
        shared=shared,
        subscribers=_subscribers(connection, prefix, each),
        qos=options.integer("qos", 1, 0, 2),
        session_expiry_s=round(options.duration_s("sessionExpiry", 7 * 86_400, 0, 4_294_967_295)),
        receive_maximum=options.integer("receiveMaximum", 16_384, 1, 65_535),
        wal_location=_read_wal_location(options),
        wal_bytes_max=options.size_bytes("walMaxBytes", 4096 * MIB, WAL_BYTES_LEAST) or 0,
        segment_delay_s=options.duration_s("segmentDelay", 0.1, 0, 60),
        limits=_read_limits(options),
        starting=read_position("startingOffsets", options.text("startingOffsets", "earliest") or ""),
        fail_on_data_loss=options.boolean("failOnDataLoss", True),
        dedup=options.choice("dedupRedelivered", "auto", ("auto", "true", "false")),
        disconnected_s_max=_read_optional_duration(options, "failWhenDisconnected"),
        fail_when_unavailable=options.boolean("failWhenUnavailable", True),
        watches_brokers=options.boolean("watchBrokers", True),
        outage_s_max=_read_optional_duration(options, "maxOutage"),
        metrics_port=options.optional_integer("metricsPort", 0, 65_535),
        metrics_host=options.text("metricsHost", "127.0.0.1") or "",
        available_now_quiet_s=options.duration_s("availableNowQuiet", 2, 0.1, 3600),
        available_now_timeout_s=options.duration_s("availableNowTimeout", 60, 0.1, 86_400),
    )
    options.finish()
    _check_stream(read)
    return read


def _check_stream(read: StreamOptions) -> None:
    if read.subscriber_wal_bytes_max < WAL_BYTES_LEAST:
        raise ConfigError(
            f"option walMaxBytes is too small: each of {len(read.subscribers)} subscribers needs "
            f"{WAL_BYTES_LEAST} bytes"
        )
    if read.dedup == "true" and read.receive_maximum > RECEIVE_MAXIMUM_FOR_GUESS:
        raise ConfigError(
            f"option dedupRedelivered=true needs a receiveMaximum of at most {RECEIVE_MAXIMUM_FOR_GUESS}"
        )
    if read.qos > 0 and read.session_expiry_s == 0:
        raise ConfigError("option sessionExpiry of 0 loses messages at every reconnect; use qos=0 for that")


def means_stream(given: Mapping[str, str]) -> bool:
    """Whether these can only be options of a stream: it has both a broker and a log, or what only it has."""
    names = {name.lower() for name in given}
    has_broker = bool(names & {"brokers", "brokerurl"})
    return has_broker and bool(names & {name.lower() for name in ("walLocation", "group", *_STREAM_ONLY)})


def read_batch_options(given: Mapping[str, str]) -> WalRangeOptions | SnapshotOptions:
    """Offsets or a log ask for a range of the log; a broker asks for its retained messages."""
    options = OptionReader(given)
    options.refuse(_STREAM_ONLY, "is for spark.readStream")
    if any(options.has(name) for name in ("walLocation", "startingOffsets", "endingOffsets")):
        return _read_wal_range(options)
    return _read_snapshot(options)


def _read_wal_range(options: OptionReader) -> WalRangeOptions:
    options.refuse(_CONNECTION_ONLY, "contradicts walLocation: a range of the log is read without a broker")
    read = WalRangeOptions(
        wal_location=_read_wal_location(options),
        starting=read_position("startingOffsets", options.text("startingOffsets", "earliest") or ""),
        ending=read_position("endingOffsets", options.text("endingOffsets", "latest") or ""),
        fail_on_data_loss=options.boolean("failOnDataLoss", True),
    )
    if read.starting == "latest" or read.ending == "earliest":
        raise ConfigError("startingOffsets=latest or endingOffsets=earliest leaves nothing to read")
    options.finish()
    return read


def _read_snapshot(options: OptionReader) -> SnapshotOptions:
    connection = read_connection(options)
    group = _read_group(options, "spark")
    read = SnapshotOptions(
        connection=connection,
        filters=_read_filters(options),
        qos=options.integer("qos", 1, 0, 2),
        client_id_prefix=_read_client_id_prefix(options, group),
        quiet_s=options.duration_s("snapshotQuiet", 1, 0.05, 3600),
    )
    options.finish()
    return read


def _read_optional_duration(options: OptionReader, name: str) -> float | None:
    return options.duration_s(name, 0, 1, 86_400 * 366) if options.has(name) else None


def _read_group(options: OptionReader, default: str | None) -> str:
    """A stream has no default: two queries with one group would share the messages out between them."""
    group = options.required("group") if default is None else options.text("group", default) or ""
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", group):
        raise ConfigError(f"option group must be 1 to 64 letters, digits, dots, dashes or _, not {group!r}")
    return group


def _read_client_id_prefix(options: OptionReader, group: str) -> str:
    prefix = options.text("clientIdPrefix", group) or ""
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", prefix):
        raise ConfigError(
            f"option clientIdPrefix must be 1 to 64 letters, digits, dots, dashes or _, not {prefix!r}"
        )
    return prefix


def _read_filters(options: OptionReader) -> tuple[str, ...]:
    filters = options.words("topicFilter", "subscribe")
    for topic_filter in filters:
        if topic_filter.startswith("$share/"):
            raise ConfigError("option topicFilter: leave $share/... out, option group gives it")
        try:
            validate_filter(topic_filter)
        except BraidError as error:
            raise ConfigError(f"option topicFilter: {topic_filter!r} is no topic filter: {error}") from error
    return filters


def _read_wal_location(options: OptionReader) -> str:
    location = options.required("walLocation")
    if "://" not in location and not location.startswith("/"):
        raise ConfigError(
            f"option walLocation must be an absolute path or a URI, not {location!r}: "
            "the processes of Spark have other working directories"
        )
    if "://" in location and not urlsplit(location).path:
        raise ConfigError(f"option walLocation has no path: {location!r}")
    return location.rstrip("/")


def _read_limits(options: OptionReader) -> TriggerLimits:
    limits = TriggerLimits(
        rows_max=options.optional_integer("maxOffsetsPerTrigger", 1),
        bytes_max=options.size_bytes("maxBytesPerTrigger", None),
        rows_min=options.integer("minOffsetsPerTrigger", 0, 0),
        delay_max_s=options.duration_s("maxTriggerDelay", 15 * 60, 0),
    )
    if options.has("maxTriggerDelay") and not limits.rows_min:
        raise ConfigError("option maxTriggerDelay needs option minOffsetsPerTrigger")
    if limits.rows_max is not None and limits.rows_min > limits.rows_max:
        raise ConfigError("option minOffsetsPerTrigger is over maxOffsetsPerTrigger")
    return limits


def _subscribers(connection: Connection, prefix: str, each: int) -> tuple[Subscriber, ...]:
    return tuple(
        Subscriber(f"{prefix}-{_safe(broker)}-{number}", broker)
        for broker in connection.brokers
        for number in range(each)
    )


def _safe(broker: BrokerAddress) -> str:
    """A broker in a client identifier and in the name of a folder."""
    return re.sub(r"[^A-Za-z0-9.]", "_", f"{broker.host}_{broker.port}")
