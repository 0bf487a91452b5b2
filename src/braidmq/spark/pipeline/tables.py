"""The tables of a pipeline: their names, their columns and where their files are. Pure.

```
LOCATION/
  raw/ dead_letters/ aggregates/ alerts/    day=2026-11-15/hour=09/*.parquet
  clean/SCHEMA/                             the same, one table a schema
  _pipeline/                                checkpoints, commits, staged files, feeds, device states
```
The last may be elsewhere (`work`): an object store has no rename, which checkpoints and commits need.
Tables grow by the hour of arrival, not of the event: a device with a wrong clock can't make partitions.
"""

from typing import Final

import pyarrow as pa

from braidmq.spark.pipeline.config import DEVICE, PAYLOAD, PipelineConfig, Schema
from braidmq.spark.pipeline.fields import TIMESTAMP, kept_type
from braidmq.spark.schema import ARROW_SCHEMA

RAW: Final = "raw"
DEAD_LETTERS: Final = "dead_letters"
AGGREGATES: Final = "aggregates"
ALERTS: Final = "alerts"
INTERNAL: Final = "_pipeline"
# Hand-offs between the queries: files that are read once by a stream and then deleted by it.
AGGREGATES_FEED: Final = "_aggregates_feed"
ALERTS_FEED: Final = "_alerts_feed"
DEVICE_STATES: Final = "_device_states"

RAW_SCHEMA: Final = ARROW_SCHEMA
DEAD_SCHEMA: Final = pa.schema(
    [*ARROW_SCHEMA, ("schema", pa.string()), ("reason", pa.string()), ("detail", pa.string())]
)
AGGREGATES_FEED_SCHEMA: Final = pa.schema(
    [
        ("schema", pa.string()),
        (DEVICE, pa.string()),
        ("event_time", TIMESTAMP),
        ("metrics", pa.map_(pa.string(), pa.float64())),
    ]
)
ALERTS_FEED_SCHEMA: Final = pa.schema(
    [
        ("schema", pa.string()),
        (DEVICE, pa.string()),
        ("metric", pa.string()),  # null: the device was heard of, and no more
        ("seen_at", TIMESTAMP),
        ("least", pa.float64()),
        ("most", pa.float64()),
        ("last", pa.float64()),
        ("last_at", TIMESTAMP),
    ]
)
ALERTS_SCHEMA: Final = pa.schema(
    [
        ("id", pa.string()),
        ("rule", pa.string()),
        ("state", pa.string()),  # raised or cleared
        ("schema", pa.string()),
        (DEVICE, pa.string()),
        ("metric", pa.string()),
        ("value", pa.float64()),
        ("since", TIMESTAMP),
        ("at", TIMESTAMP),
    ]
)
DEVICE_STATES_SCHEMA: Final = pa.schema(
    [
        ("rule", pa.string()),
        ("schema", pa.string()),
        (DEVICE, pa.string()),
        ("seen_at", TIMESTAMP),
        ("since", TIMESTAMP),  # null: nothing is wrong
    ]
)


def clean_schema(schema: Schema) -> pa.Schema:
    """The columns of a clean table."""
    levels = [(name, pa.string()) for name in schema.pattern.names if name != DEVICE]
    fields = [(name, kept_type(spec)) for name, spec in schema.specs.items()]
    return pa.schema(
        [
            ("topic", pa.string()),
            (DEVICE, pa.string()),
            *levels,
            ("event_time", TIMESTAMP),
            ("received_at", TIMESTAMP),
            ("published_at", TIMESTAMP),
            ("broker", pa.string()),
            ("subscriber", pa.string()),
            ("offset", pa.int64()),
            *(fields or [(PAYLOAD, pa.binary())]),
        ]
    )


def aggregates_schema(config: PipelineConfig) -> pa.Schema:
    """The columns of the aggregates, one for each percentile."""
    percentiles = config.aggregates.percentiles if config.aggregates else ()
    return pa.schema(
        [
            ("window_start", TIMESTAMP),
            ("window_end", TIMESTAMP),
            ("schema", pa.string()),
            (DEVICE, pa.string()),
            ("metric", pa.string()),
            ("count", pa.int64()),
            *((name, pa.float64()) for name in ("mean", "min", "max")),
            *((percentile_column(fraction), pa.float64()) for fraction in percentiles),
        ]
    )


def percentile_column(fraction: float) -> str:
    """p50, p95, p99_9."""
    return f"p{fraction * 100:.10g}".replace(".", "_")


def user_tables(config: PipelineConfig) -> dict[str, pa.Schema]:
    """Every table that users see, by the name that queries use."""
    tables = {RAW: RAW_SCHEMA} | {schema.name: clean_schema(schema) for schema in config.schemas}
    tables[DEAD_LETTERS] = DEAD_SCHEMA
    if config.aggregates is not None:
        tables[AGGREGATES] = aggregates_schema(config)
    if config.rules:
        tables[ALERTS] = ALERTS_SCHEMA
    return tables


def directory_of(config: PipelineConfig, table: str) -> str:
    """Where a table that users see is, relative to the location."""
    return f"clean/{table}" if any(schema.name == table for schema in config.schemas) else table
