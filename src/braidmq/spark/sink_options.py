"""The options of the MQTT sink, read and refused by name before anything starts.

Names are camelCase and, as everywhere in Spark, compared without regard to case. One table says what there
is; docs/spark-sink.md explains it.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from braidmq.client import TlsFiles
from braidmq.client.addresses import PORT, TLS_PORT, parse_addresses
from braidmq.errors import ConfigError

BOOLEANS: Final = {"true": True, "false": False}
# Spark itself adds these to what the user gave.
OF_SPARK: Final = frozenset({"path", "checkpointlocation", "queryname"})


class SinkOptions(msgspec.Struct, frozen=True, kw_only=True):
    brokers: tuple[str, ...]
    topic: str | None = None  # a name, or a template with columns in braces; None: the topic column
    topic_column: str = "topic"
    payload_column: str = "payload"
    id_column: str | None = None  # identifies a row in its mark; None: its place in the partition
    qos: int | None = None  # None, here and below: from the column of the same meaning, if there is one
    retain: bool | None = None
    message_expiry_s: int | None = None
    content_type: str | None = None
    response_topic: str | None = None
    marks: bool = True
    run_id: str | None = None
    window: int = 10_000  # messages on their way at once, for each task
    username: str | None = None
    password: str | None = None
    tls: bool | TlsFiles = False
    connect_timeout_s: float = 30.0
    request_timeout_s: float = 30.0


def _text(value: str) -> str:
    if not value:
        raise ValueError("is empty")
    return value


def _boolean(value: str) -> bool:
    if value.lower() not in BOOLEANS:
        raise ValueError("must be true or false")
    return BOOLEANS[value.lower()]


def _integer(least: int, most: int) -> Callable[[str], int]:
    def read(value: str) -> int:
        if not (value.isascii() and value.isdigit() and least <= int(value) <= most):
            raise ValueError(f"must be a whole number, {least} to {most}")
        return int(value)

    return read


def _seconds(value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise ValueError("must be a number of seconds above 0")
    return seconds


# Option as written -> (field of SinkOptions or part of TLS, how its value is read).
TABLE: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    "brokers": ("brokers", _text),
    "topic": ("topic", _text),
    "topicColumn": ("topic_column", _text),
    "payloadColumn": ("payload_column", _text),
    "idColumn": ("id_column", _text),
    "qos": ("qos", _integer(0, 2)),
    "retain": ("retain", _boolean),
    "messageExpiry": ("message_expiry_s", _integer(0, 2**32 - 1)),
    "contentType": ("content_type", _text),
    "responseTopic": ("response_topic", _text),
    "marks": ("marks", _boolean),
    "runId": ("run_id", _text),
    "window": ("window", _integer(1, 65_535)),
    "username": ("username", _text),
    "password": ("password", _text),
    "tls": ("tls", _boolean),
    "tls.ca": ("tls.ca", _text),
    "tls.certificate": ("tls.certificate", _text),
    "tls.key": ("tls.key", _text),
    "tls.verify": ("tls.verify", _boolean),
    "connectTimeout": ("connect_timeout_s", _seconds),
    "requestTimeout": ("request_timeout_s", _seconds),
}
_BY_LOWER_NAME: Final = {name.lower(): name for name in TABLE}


def parse_sink_options(given: Mapping[str, str]) -> SinkOptions:
    """What the user wrote, typed. ConfigError names the option that is wrong, missing or contradictory."""
    values = dict(_read(name, value) for name, value in given.items() if name.lower() not in OF_SPARK)
    tls_files = {field[4:]: values.pop(field) for field in list(values) if field.startswith("tls.")}
    if "brokers" not in values:
        raise ConfigError("mqtt sink: option brokers is missing, such as host:1883,other:1883")
    if "topic" in values and "topic_column" in values:
        raise ConfigError("mqtt sink: options topic and topicColumn contradict each other")
    if tls_files:
        if values.get("tls") is False:
            raise ConfigError("mqtt sink: option tls is false, but there are tls.* options")
        values["tls"] = TlsFiles(**tls_files)
    values["brokers"] = _brokers(values["brokers"], TLS_PORT if values.get("tls") else PORT)
    return SinkOptions(**values)


def _read(name: str, value: str) -> tuple[str, Any]:
    known = _BY_LOWER_NAME.get(name.lower())
    if known is None:
        raise ConfigError(f"mqtt sink: unknown option {name!r}; there are {', '.join(TABLE)}")
    field, read = TABLE[known]
    try:
        return field, read(value)
    except ValueError as error:
        shown = "" if known == "password" else f" {value!r}"
        raise ConfigError(f"mqtt sink: option {known}{shown} {error}") from None


def _brokers(text: str, default_port: int) -> tuple[str, ...]:
    try:
        return tuple(str(address) for address in parse_addresses(text, default_port))
    except ConfigError as error:
        raise ConfigError(f"mqtt sink: option brokers: {error}") from None
