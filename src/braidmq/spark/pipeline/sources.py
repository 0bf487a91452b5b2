"""The configured sources as one stream of messages."""

from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from braidmq.errors import ConfigError
from braidmq.spark.pipeline.config import PipelineConfig, Source
from braidmq.spark.pipeline.home import Home
from braidmq.spark.preflight import check_connection
from braidmq.spark.sink_options import parse_sink_options
from braidmq.spark.source_options import read_stream_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_messages(spark: "SparkSession", home: Home) -> "DataFrame":
    """Every message of every source."""
    streams = [
        spark.readStream.format("mqtt").options(**source_options(home, source)).load()
        for source in home.config.sources
    ]
    return reduce(lambda one, other: one.unionByName(other), streams)


def source_options(home: Home, source: Source) -> dict[str, Any]:
    """What the `mqtt` source is told; `options` of the file come last and win."""
    options: dict[str, Any] = {
        "brokers": ",".join(source.brokers),
        "topicFilter": ",".join(source.topics or subscribed_filters(home.config)),
        "group": source.group,
        "subscribersPerBroker": source.subscribers_per_broker,
        "qos": source.qos,
        "walLocation": _own_wal(home, source),
    }
    if source.fail_when_disconnected_s is not None:
        options["failWhenDisconnected"] = f"{source.fail_when_disconnected_s}s"
    if source.max_messages_per_trigger is not None:
        options["maxOffsetsPerTrigger"] = source.max_messages_per_trigger
    if source.username is not None:
        options["username"] = source.username
    if source.password_file is not None:
        options["password"] = _password(Path(source.password_file))
    return options | source.options


def wal_location(home: Home, source: Source) -> str:
    """Where the source keeps what it has received."""
    given = {name.lower(): str(value) for name, value in source.options.items()}
    return given.get("wallocation", _own_wal(home, source)).rstrip("/")


def _own_wal(home: Home, source: Source) -> str:
    return home.internal.at("wal", source.group).uri


def check_options(home: Home) -> None:
    """ConfigError if the source or the sink would refuse what the file gives them; needs no Spark."""
    try:
        for source in home.config.sources:
            table = f"[source] group {source.group}"
            check_connection(read_stream_options(as_text(source_options(home, source))).connection)
        table = "[alerts]"
        parse_sink_options(as_text(sink_options(home.config)))
    except ConfigError as error:
        raise ConfigError(f"{table}: {error}") from error


def sink_options(config: PipelineConfig) -> dict[str, Any]:
    """What the `mqtt` sink is told about alerts; `options` of the file come last and win."""
    settings = config.alerts
    return {
        "brokers": ",".join(settings.brokers or config.sources[0].brokers),
        "qos": settings.qos,
        "retain": settings.retain,
        "contentType": "application/json",
        "idColumn": "id",
        **settings.options,
    }


def as_text(options: dict[str, Any]) -> dict[str, str]:
    """Options as Spark hands them over."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()
    }


def subscribed_filters(config: PipelineConfig) -> list[str]:
    """The topics of all schemas, each once."""
    return list(dict.fromkeys(schema.pattern.filter for schema in config.schemas))


def _password(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").rstrip("\r\n")
    except OSError as error:
        raise ConfigError(f"[source] password_file: {path}: {error.strerror}") from error
