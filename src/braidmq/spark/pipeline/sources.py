"""The configured sources as one stream of messages."""

from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from braidmq.errors import ConfigError
from braidmq.spark.pipeline.config import PipelineConfig, Source
from braidmq.spark.pipeline.home import Home


def read_messages(spark: SparkSession, home: Home) -> DataFrame:
    """Every message of every source."""
    streams = [
        spark.readStream.format("mqtt").options(**source_options(home, source)).load()
        for source in home.config.sources
    ]
    return reduce(DataFrame.unionByName, streams)


def source_options(home: Home, source: Source) -> dict[str, Any]:
    """What the `mqtt` source is told; `options` of the file come last and win."""
    options: dict[str, Any] = {
        "brokers": ",".join(source.brokers),
        "topicFilter": ",".join(source.topics or subscribed_filters(home.config)),
        "group": source.group,
        "subscribersPerBroker": source.subscribers_per_broker,
        "qos": source.qos,
        "walLocation": home.internal.at("wal", source.group).path,
    }
    if source.max_messages_per_trigger is not None:
        options["maxOffsetsPerTrigger"] = source.max_messages_per_trigger
    if source.username is not None:
        options["username"] = source.username
    if source.password_file is not None:
        options["password"] = _password(Path(source.password_file))
    return options | source.options


def subscribed_filters(config: PipelineConfig) -> list[str]:
    """The topics of all schemas, each once."""
    return list(dict.fromkeys(schema.pattern.filter for schema in config.schemas))


def _password(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").rstrip("\r\n")
    except OSError as error:
        raise ConfigError(f"[source] password_file: {path}: {error.strerror}") from error
