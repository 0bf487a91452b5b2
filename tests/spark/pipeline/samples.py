"""Messages and configurations for the tests of the pipeline."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from braidmq.spark.pipeline.config import PipelineConfig, load_pipeline
from braidmq.spark.pipeline.evolution import check_tables, evolve
from braidmq.spark.pipeline.home import Home
from braidmq.spark.pipeline.sorting import Sorter
from braidmq.spark.pipeline.writing import TableWriter, TaskReport
from braidmq.spark.schema import ARROW_SCHEMA

NOON_US = 1_790_078_400_000_000  # 2026-09-22 12:00 UTC

HEAD = """
[pipeline]
location = "data"
payload_bytes_max = 1000
[[source]]
brokers = ["127.0.0.1:1883"]
group = "plant"
"""
TELEMETRY = """
[[schema]]
name = "telemetry"
topic = "sites/{site}/{device}/telemetry"
event_time = "ts"
[schema.fields]
ts = "timestamp_ms"
temperature = { type = "double", min = -100, max = 500 }
humidity = { type = "float", path = "env.humidity", optional = true }
count = { type = "int", optional = true }
"""
OTHERS = """
[[schema]]
name = "packed"
topic = "packed/{device}"
format = "messagepack"
fields = { level = "long" }
[[schema]]
name = "compact"
topic = "compact/{device}"
format = "cbor"
fields = { level = "double" }
[[schema]]
name = "pictures"
topic = "pictures/#"
format = "raw"
"""
AGGREGATES = """
[aggregates]
window_s = 60
watermark_s = 60
"""
RULES = """
[[rule]]
name = "hot"
metric = "temperature"
above = 80
[[rule]]
name = "silent"
schema = "telemetry"
silent_s = 60
"""
EVERYTHING = HEAD + TELEMETRY + OTHERS + AGGREGATES + RULES


def make_config(directory: Path, text: str) -> PipelineConfig:
    file = directory / "pipeline.toml"
    file.write_text(text)
    return load_pipeline(file)


def make_messages(
    messages: Iterable[tuple[str, bytes]],
    *,
    first_offset: int = 0,
    subscriber: str = "plant-0",
    received_us: int | Sequence[int] = NOON_US,
) -> pa.Table:
    """Rows as the source gives them."""
    rows = list(messages)
    received = [received_us] * len(rows) if isinstance(received_us, int) else list(received_us)
    columns: dict[str, list[Any]] = {
        "topic": [topic for topic, _ in rows],
        "payload": [payload for _, payload in rows],
        "qos": [1] * len(rows),
        "retain": [False] * len(rows),
        "dup": [False] * len(rows),
        "received_at": received,
        "broker": ["127.0.0.1:1883"] * len(rows),
        "subscriber": [subscriber] * len(rows),
        "offset": list(range(first_offset, first_offset + len(rows))),
        "user_properties": [[("unit", "C")]] * len(rows),
    }
    arrays = [
        pa.array(columns[field.name], field.type)
        if field.name in columns
        else pa.nulls(len(rows), field.type)
        for field in ARROW_SCHEMA
    ]
    return pa.Table.from_arrays(arrays, schema=ARROW_SCHEMA)


def telemetry(
    device: str, temperature: Any = 20.0, *, ts_ms: Any = NOON_US // 1000, site: str = "north", **more: Any
) -> tuple[str, bytes]:
    payload = {"ts": ts_ms, "temperature": temperature} | more
    return f"sites/{site}/{device}/telemetry", json.dumps(payload).encode()


def write_messages(
    home: Home, batch: int, *messages: tuple[str, bytes], received_us: int = NOON_US
) -> None:
    """Messages into the tables as a batch of the pipeline does it, without Spark."""
    check_tables(home)
    evolve(home)
    log = home.commit_log("ingest")
    writer = TableWriter(log.staging(), home.targets(), 1_000)
    received = make_messages(messages, first_offset=batch, received_us=received_us)
    reasons: dict[str, int] = {}
    for table, rows in Sorter(home.config).sort(received).items():
        writer.write(table, rows)
        if table == "dead_letters":
            reasons = dict(Counter(rows["reason"].to_pylist()))
    log.commit("q", batch, [TaskReport(writer.close(), reasons)])
