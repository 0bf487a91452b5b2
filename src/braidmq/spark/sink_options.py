"""The options of the MQTT sink, read and refused by name before anything starts; docs/spark-sink.md has them.

How to reach the brokers is read as for the source (`options.py`); here is what only the sink has.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from braidmq.errors import ConfigError
from braidmq.spark.options import Connection, OptionReader, read_connection

# Spark itself adds these to what the user gave.
OF_SPARK: Final = frozenset({"path", "checkpointlocation", "queryname"})
EXPIRY_S_MAX: Final = 2**32 - 1
WINDOW: Final = 10_000
TIMEOUT_S: Final = 30.0


class SinkOptions(msgspec.Struct, frozen=True, kw_only=True):
    connection: Connection
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
    window: int = WINDOW  # messages on their way at once, for each task
    connect_timeout_s: float = TIMEOUT_S
    request_timeout_s: float = TIMEOUT_S


def parse_sink_options(given: Mapping[str, str]) -> SinkOptions:
    """What the user wrote, typed. ConfigError names the option that is wrong, missing or contradictory."""
    options = OptionReader({name: value for name, value in given.items() if name.lower() not in OF_SPARK})
    if options.has("topic") and options.has("topicColumn"):
        raise ConfigError("options topic and topicColumn contradict each other")
    read = SinkOptions(
        connection=read_connection(options),
        topic=_word(options, "topic"),
        topic_column=_word(options, "topicColumn") or "topic",
        payload_column=_word(options, "payloadColumn") or "payload",
        id_column=_word(options, "idColumn"),
        qos=options.optional_integer("qos", 0, 2),
        retain=options.boolean("retain", False) if options.has("retain") else None,
        message_expiry_s=_expiry_s(options),
        content_type=_word(options, "contentType"),
        response_topic=_word(options, "responseTopic"),
        marks=options.boolean("marks", True),
        run_id=_word(options, "runId"),
        window=options.integer("window", WINDOW, 1, 65_535),
        connect_timeout_s=options.duration_s("connectTimeout", TIMEOUT_S),
        request_timeout_s=options.duration_s("requestTimeout", TIMEOUT_S),
    )
    options.finish()
    return read


def _word(options: OptionReader, name: str) -> str | None:
    """Text that isn't empty, if it is there."""
    return options.required(name) if options.has(name) else None


def _expiry_s(options: OptionReader) -> int | None:
    if not options.has("messageExpiry"):
        return None
    return round(options.duration_s("messageExpiry", 0, 0, EXPIRY_S_MAX))
