"""The Spark half of bench.spark_source: the same rows to Parquet, from ready Arrow files and from the log.

Both are streaming queries of one batch with the same number of partitions. Wall time is what Spark says of
that batch; CPU time is that of the JVM and of the Python workers of Spark.
"""

import contextlib
import itertools
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from braidmq.spark.driver import StreamDriver
from braidmq.spark.reading import read_slices
from braidmq.spark.schema import spark_schema
from braidmq.spark.source_options import read_stream_options

WAIT_S = 300.0
POLL_S = 0.05


class ReadyReader(DataSourceStreamReader):
    """The least that a Python source can do: one batch, record batches straight from files."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"batch": 0}

    def latestOffset(self) -> dict[str, int]:  # type: ignore[override]  # noqa: N802
        return {"batch": 1}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [InputPartition(str(path)) for path in sorted(self.folder.glob("*.arrow"))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        with pa.ipc.open_file(pa.memory_map(partition.value)) as file:
            for number in range(file.num_record_batches):
                yield file.get_batch(number)


class ReadySource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "ready_arrow"

    def schema(self) -> StructType:
        return spark_schema()

    def streamReader(self, schema: StructType) -> ReadyReader:  # noqa: N802
        return ReadyReader(self.options["folder"])


class SparkBench:
    def __init__(self, folder: Path, port: int, topics: str, rows: int) -> None:
        self._folder = folder
        self._rows = rows
        self._options = {
            "brokers": f"127.0.0.1:{port}",
            "topicFilter": topics,
            "shared": "false",
            "group": "bench",
            "walLocation": str(folder / "wal"),
            "walMaxBytes": "64g",
            "availableNowTimeout": "100ms",
            "failWhenUnavailable": "false",
        }
        self._spark: SparkSession | None = None
        self._runs = itertools.count()
        self.contenders: dict[str, Callable[[], dict[str, float]]] = {
            "mqtt": self._from_mqtt,
            "arrow files": self._from_files,
        }

    # -- before Spark -------------------------------------------------------------------------------------

    def receive(self) -> None:
        """The backlog into the log; then its rows into ready files, one per partition."""
        options = read_stream_options(self._options)
        driver = StreamDriver(options)
        deadline = time.monotonic() + WAIT_S
        while (end := driver.latest({}, options.limits)) == {} or self._stored(driver, end) < self._rows:
            if time.monotonic() > deadline:
                raise TimeoutError("the receiver took too long")
            time.sleep(POLL_S)
        driver.stop()
        ready = self._folder / "ready"
        ready.mkdir()
        for number, pieces in enumerate(driver.plan({}, end)):
            batches = list(read_slices(options.wal_location, pieces, skip_missing=False))
            with pa.ipc.new_file(ready / f"{number:04}.arrow", batches[0].schema) as writer:
                for batch in batches:
                    writer.write_batch(batch)

    def _stored(self, driver: StreamDriver, end: dict[str, int]) -> int:
        return sum(piece.rows for pieces in driver.plan({}, end) for piece in pieces)

    # -- in Spark -----------------------------------------------------------------------------------------

    def start(self) -> None:
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        builder = (
            SparkSession.builder.master("local[2,4]").appName("bench").config("spark.ui.enabled", "false")
        )
        builder = builder.config("spark.log.level", "ERROR").config("spark.ui.showConsoleProgress", "false")
        self._spark = builder.config("spark.driver.memory", "2g").getOrCreate()
        self._spark.dataSource.register(ReadySource)
        for run in self.contenders.values():
            run()

    def stop(self) -> None:
        assert self._spark is not None
        self._spark.stop()

    def _from_mqtt(self) -> dict[str, float]:
        assert self._spark is not None
        return self._write(
            self._spark.readStream.format("mqtt").options(**self._options).load(), available_now=True
        )

    def _from_files(self) -> dict[str, float]:
        assert self._spark is not None
        reader = self._spark.readStream.format("ready_arrow").option("folder", str(self._folder / "ready"))
        return self._write(reader.load(), available_now=False)

    def _write(self, rows: DataFrame, *, available_now: bool) -> dict[str, float]:
        number = next(self._runs)
        out, checkpoint = self._folder / f"out{number}", self._folder / f"checkpoint{number}"
        before = self._cpu_s()
        writer = rows.writeStream.format("parquet").option("checkpointLocation", str(checkpoint))
        writer = writer.trigger(availableNow=True) if available_now else writer.trigger(once=True)
        query = writer.start(str(out))
        query.awaitTermination()
        cpu_s = self._cpu_s() - before
        batches = [json.loads(progress.json) for progress in query.recentProgress]
        wall_s = sum(batch["durationMs"]["addBatch"] for batch in batches if batch["numInputRows"]) / 1000
        written = sum(batch["numInputRows"] for batch in batches)
        if written != self._rows:
            raise RuntimeError(f"{written} rows instead of {self._rows}")
        for folder in (out, checkpoint):
            shutil.rmtree(folder)
        return {
            "rows_per_s": round(written / wall_s),
            "rows_per_cpu_s": round(written / cpu_s),
            "batches": len([batch for batch in batches if batch["numInputRows"]]),
        }

    def _cpu_s(self) -> float:
        """The JVM and its workers; receivers are measured elsewhere."""
        assert self._spark is not None
        jvm = psutil.Process(self._spark.sparkContext._gateway.proc.pid)  # type: ignore[union-attr]
        if "java" not in jvm.name():
            jvm = next(child for child in jvm.children(recursive=True) if "java" in child.name())
        used = jvm.cpu_times()
        total = used.user + used.system
        for child in jvm.children():
            with contextlib.suppress(psutil.NoSuchProcess):  # and zombies: others than the daemon come and go
                if any("pyspark.daemon" in word for word in child.cmdline()):
                    times = child.cpu_times()
                    total += times.user + times.system + times.children_user + times.children_system
                    total += sum(sum(worker.cpu_times()[:2]) for worker in child.children(recursive=True))
        return float(total)
