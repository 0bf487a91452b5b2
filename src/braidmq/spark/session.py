"""The Spark session that the pipeline's commands use, and a clear word when there is no Java."""

import logging
import os
import shutil
import sys
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from braidmq.errors import BraidError

TASK_ATTEMPTS: Final = 4  # `local[N]` alone gives a task one attempt only
# A shuffle of the default 200 partitions costs seconds a batch on a small machine.
DEFAULTS: Final = {
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    "spark.sql.execution.arrow.maxBytesPerBatch": "64m",  # messages may be large
    "spark.sql.streaming.metricsEnabled": "true",
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def default_master() -> str:
    """Every core of this machine."""
    return f"local[*,{TASK_ATTEMPTS}]"


def open_session(name: str, master: str | None, settings: dict[str, str | int | bool]) -> SparkSession:
    """A session; BraidError when Spark can't be started at all."""
    require_java()
    # Executors on this machine run the same interpreter, which has BraidMQ; a cluster names its own.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    chosen = master or default_master()
    if chosen.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.appName(name).master(chosen)
    for key, value in {**DEFAULTS, **settings}.items():
        builder = builder.config(key, value)
    # PySpark logs every error of SQL with its stack, besides raising it.
    logging.getLogger("SQLQueryContextLogger").disabled = True
    return builder.getOrCreate()


def require_java() -> None:
    home = os.environ.get("JAVA_HOME")
    found = Path(home, "bin", "java").exists() if home else shutil.which("java") is not None
    if not found:
        raise BraidError(
            "Spark needs a Java runtime, 17 or newer, and none was found. On Debian: "
            "apt-get install openjdk-17-jre-headless; or set JAVA_HOME"
        )
