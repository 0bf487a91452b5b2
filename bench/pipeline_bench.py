"""What a batch of the pipeline costs, against the same tables written by Spark's own means.

Both read the same Parquet file of JSON messages and write raw, clean and dead letters. `ours` is the
pipeline's single pass (Arrow to Python and msgspec); `native` keeps the batch in Spark's cache and runs
from_json and three writes, which is how one would do it with DataFrames alone. They run in turn; CPU
seconds are those of the JVM and its Python workers. `ours` also writes the hand-offs for aggregates and
alerts, since it always does.

    python -m bench.pipeline_bench [messages] [rounds]
"""

import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from braidmq.spark.pipeline.config import load_pipeline
from braidmq.spark.pipeline.home import open_home
from braidmq.spark.pipeline.ingest import Ingest
from braidmq.spark.schema import spark_schema
from braidmq.spark.session import open_session
from tests.spark.pipeline.samples import AGGREGATES, HEAD, NOON_US, RULES, TELEMETRY, make_messages

SCHEMA = "ts long, temperature double, env struct<humidity:float>, count int, _corrupt string"


def main(messages: int = 200_000, rounds: int = 5) -> None:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        file = root / "messages.parquet"
        pq.write_table(make_messages(map(_message, range(messages))), file, row_group_size=messages // 4)
        spark = open_session("bench", "local[2,4]", {})
        ways = {
            "ours": _ours(root),
            "native": lambda batch, number: _native(batch, root / "native" / str(number)),
        }
        results: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
        for number in range(rounds + 1):
            for name, way in ways.items():
                results[name].append(_measure(spark, file, way, number))
        for small in (1_000,):
            for name, way in ways.items():
                seconds = [_measure(spark, file, way, 1_000 + n, small)[0] for n in range(rounds)]
                print(f"{name:<7} batch of {small}: median {statistics.median(seconds) * 1e3:.0f} ms")
        for name, measured in results.items():
            warm = measured[1:]
            wall, cpu = (statistics.median(column) for column in zip(*warm, strict=True))
            rate = f"{cpu / messages * 1e6:.2f} CPU-s per million messages, {messages / wall:,.0f} messages/s"
            print(f"{name:<7} {rate}")
        spark.stop()


def _message(n: int) -> tuple[str, bytes]:
    body = {
        "ts": NOON_US // 1000,
        "temperature": n % 90,
        "env": {"humidity": 0.5},
        "count": n,
        "note": "x" * 100,
    }
    return f"sites/s{n % 5}/d{n % 1000}/telemetry", b"{" if n % 100 == 0 else json.dumps(body).encode()


def _ours(root: Path) -> Callable[[DataFrame, int], None]:
    file = root / "pipeline.toml"
    file.write_text(HEAD + TELEMETRY + AGGREGATES + RULES)
    home = open_home(load_pipeline(file))
    return Ingest(home, home.commit_log("ingest"), lambda: "bench")


def _native(batch: DataFrame, root: Path) -> None:
    when = (F.to_date("received_at").alias("day"), F.hour("received_at").alias("hour"))
    options = {"columnNameOfCorruptRecord": "_corrupt"}
    parsed = batch.select(
        "*", *when, F.from_json(F.col("payload").cast("string"), SCHEMA, options).alias("v")
    ).persist()
    good = F.col("v._corrupt").isNull() & F.col("v.ts").isNotNull() & F.col("v.temperature").isNotNull()
    levels = F.split("topic", "/")
    clean = parsed.where(good).select(
        "topic", levels[1].alias("site"), levels[2].alias("device"), "received_at", "published_at", "broker",
        "subscriber", "offset", "v.temperature", "v.env.humidity", "v.count", "day", "hour",
    )  # fmt: skip
    for name, rows in {
        "raw": parsed.drop("v"),
        "clean": clean,
        "dead": parsed.where(~good).drop("v"),
    }.items():
        rows.write.partitionBy("day", "hour").option("compression", "zstd").parquet(str(root / name))
    parsed.unpersist()
    shutil.rmtree(root)


def _measure(
    spark: SparkSession,
    file: Path,
    way: Callable[[DataFrame, int], None],
    number: int,
    rows: int | None = None,
) -> tuple[float, float]:
    """Wall and CPU seconds of one batch."""
    batch = spark.read.schema(spark_schema()).parquet(str(file))
    batch = batch if rows is None else batch.limit(rows)
    cpu, wall = _cpu_s(), time.perf_counter()
    way(batch, number)
    return time.perf_counter() - wall, _cpu_s() - cpu


def _cpu_s() -> float:
    """Of all processes below this one: the JVM and its Python workers, living or not."""
    times = [child.cpu_times() for child in psutil.Process().children(recursive=True)]
    return sum(sum(time[:4]) for time in times)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
