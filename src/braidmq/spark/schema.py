"""The one schema of `spark.read*.format("mqtt")`, for Spark and for Arrow.

It never depends on options: parsing payloads is Spark's work (`from_json` and friends), so that a query can
change its mind about a payload without touching the source. pyspark is imported only where it is asked for:
receivers read this file too.

| column | meaning |
|---|---|
| topic, payload | as published |
| qos, retain, dup | as delivered to us |
| received_at | when the receiver got it |
| published_at | user property `ts`: milliseconds since 1970 as a whole number; null if absent or unreadable |
| broker | `host:port` it came from |
| subscriber | which receiver got it; also its MQTT client identifier |
| offset | unique and rising per subscriber |
| content_type, response_topic, correlation_data | MQTT 5 properties, null if absent |
| user_properties | MQTT 5 user properties; of several with one name the first; empty if there are none |
"""

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

PUBLISHED_AT_PROPERTY = "ts"

_TIME = pa.timestamp("us", tz="UTC")
_MAP = pa.map_(pa.field("key", pa.string(), nullable=False), pa.field("value", pa.string()))

ARROW_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("payload", pa.binary()),
        ("qos", pa.int32()),
        ("retain", pa.bool_()),
        ("dup", pa.bool_()),
        ("received_at", _TIME),
        ("published_at", _TIME),
        ("broker", pa.string()),
        ("subscriber", pa.string()),
        ("offset", pa.int64()),
        ("content_type", pa.string()),
        ("response_topic", pa.string()),
        ("correlation_data", pa.binary()),
        ("user_properties", _MAP),
    ]
)


def spark_schema() -> "StructType":
    """The same for Spark."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(ARROW_SCHEMA)
