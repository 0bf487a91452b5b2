"""SQL over the tables of a pipeline, and the rows for people or for programs."""

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from braidmq.errors import BraidError
from braidmq.spark.pipeline.evolution import check_tables
from braidmq.spark.pipeline.home import Home
from braidmq.spark.pipeline.reading import read_table
from braidmq.spark.pipeline.recovery import recover
from braidmq.spark.pipeline.tables import user_tables


class QueryError(BraidError):
    """The SQL can't be run; the message says why."""


def register_tables(spark: SparkSession, home: Home) -> list[str]:
    """Makes every table of the pipeline known to SQL by its name; the names."""
    names = list(user_tables(home.config))
    for name in names:
        read_table(spark, home, name).createOrReplaceTempView(name)
    return names


def run_query(spark: SparkSession, home: Home, sql: str, rows_max: int | None) -> tuple[list[str], list[Row]]:
    """The columns and rows of a query."""
    recover(home)
    check_tables(home)
    register_tables(spark, home)
    try:
        frame: DataFrame = spark.sql(sql)
        rows = frame.collect() if rows_max is None else frame.take(rows_max)
    except PySparkException as error:
        raise QueryError(_told(error)) from error
    return frame.columns, rows


def json_lines(rows: list[Row]) -> Iterator[str]:
    """One JSON object a row; times as ISO 8601 in UTC, bytes as text where they are text, else as hex."""
    return (json.dumps(row.asDict(recursive=True), default=_plain, ensure_ascii=False) for row in rows)


def shown(value: Any) -> str:
    """A value in a table for people."""
    if value is None:
        return ""
    if isinstance(value, datetime | date | bytearray | bytes):
        return str(_plain(value))
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()  # Spark gives local time without an offset
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes | bytearray):
        try:
            return bytes(value).decode()
        except UnicodeDecodeError:
            return bytes(value).hex()
    return str(value)


def _told(error: PySparkException) -> str:
    """The first sentence; Spark adds the whole plan."""
    return str(error).split("\n\nJVM stacktrace")[0].split(";\n")[0].strip()[:1_000]
