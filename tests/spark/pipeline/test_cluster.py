"""The command on a real cluster: a master, two workers, a driver that is killed, and a good end."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pyarrow.dataset as ds
import pyspark
import pytest

from braidmq.client import BlockingClient
from braidmq.spark.pipeline.home import Home, open_home
from braidmq.spark.pipeline.status import read_status
from tests.spark.conftest import java_is_there
from tests.spark.pipeline.samples import make_config
from tests.spark.waiting import wait_for

pytestmark = [
    pytest.mark.soak,
    pytest.mark.xdist_group("spark"),
    pytest.mark.timeout(1200),
    pytest.mark.skipif(not java_is_there(), reason="no Java runtime"),
]
SPARK_HOME = Path(pyspark.__file__).parent
PATIENCE_S = 240.0

CLUSTER = """
[pipeline]
location = "data"
[[source]]
brokers = ["{address}"]
group = "{name}"
subscribers_per_broker = 2
[[schema]]
name = "numbers"
topic = "{name}/{{device}}"
[schema.fields]
n = "long"
[spark]
"spark.executor.memory" = "512m"
"spark.driver.memory" = "512m"
"spark.driver.host" = "127.0.0.1"
"""


@contextmanager
def process(command: list[str], log: Path, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process with its output in a file; it doesn't outlive the test."""
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(SPARK_HOME), **variables}
    with log.open("wb") as output:
        started = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment
        )
    try:
        yield started
    finally:
        started.kill()
        started.wait()


def node(kind: str, *arguments: str) -> list[str]:
    spark_class = str(SPARK_HOME / "bin" / "spark-class")
    name = f"org.apache.spark.deploy.{kind.lower()}.{kind}"
    return [spark_class, name, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0", *arguments]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """A master and two workers of one core; the master's address."""
    log = tmp_path / "master.log"
    with process(node("Master"), log, SPARK_DAEMON_MEMORY="256m"):
        wait_for(lambda: re.search(r"Starting Spark master at", log.read_text()) is not None, "the master")
        found = re.search(r"Starting Spark master at (\S+)", log.read_text())
        assert found
        workers = [
            node(
                "Worker",
                "--cores",
                "1",
                "--memory",
                "1g",
                "--work-dir",
                str(tmp_path / f"work{number}"),
                found[1],
            )
            for number in range(2)
        ]
        with (
            process(workers[0], tmp_path / "worker0.log", SPARK_DAEMON_MEMORY="256m"),
            process(workers[1], tmp_path / "worker1.log", SPARK_DAEMON_MEMORY="256m"),
        ):
            wait_for(lambda: log.read_text().count("Registering worker") == 2, "two workers")
            yield found[1]


def braidmq(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "braidmq", *arguments]


def raw_rows(home: Home) -> int:
    return read_status(home, 0).rows["raw"]


def test_a_pipeline_on_a_cluster_outlives_an_executor_and_its_driver(
    cluster: str, address: str, name: str, tmp_path: Path
) -> None:
    file = tmp_path / "pipeline.toml"
    home = open_home(make_config(tmp_path, CLUSTER.format(address=address, name=name)))
    run = braidmq("pipeline", "run", str(file), "--master", cluster)
    published = 0
    with BlockingClient(address) as client:

        def publish(count: int) -> None:
            nonlocal published
            client.publish_many(
                (f"{name}/d{n % 5}", f'{{"n": {n}}}') for n in range(published, published + count)
            )
            published += count

        with process(run, tmp_path / "killed.log") as driver:
            wait_for(
                lambda: client.publish(f"{name}/first", b"?", qos=1).reason == 0, "the receivers", PATIENCE_S
            )
            publish(300)
            wait_for(lambda: raw_rows(home) >= 301, "the first rows", PATIENCE_S)
            kill_executor(tmp_path / "work0")
            publish(200)
            wait_for(lambda: raw_rows(home) >= 501, "rows without that executor", PATIENCE_S)
            driver.send_signal(signal.SIGKILL)
            driver.wait()
        publish(500)
        with process(run, tmp_path / "stopped.log") as driver:
            wait_for(lambda: raw_rows(home) >= 1_001, "all rows", PATIENCE_S)
            driver.send_signal(signal.SIGTERM)
            assert driver.wait(PATIENCE_S) == 0, (tmp_path / "stopped.log").read_text()
    check_tables(home)
    assert all(any(tmp_path.glob(f"work{number}/app-*/*")) for number in range(2))  # both had executors


def kill_executor(work: Path) -> None:
    """Kills what works for the pipeline below a worker's directory."""
    executors = [
        process
        for process in psutil.process_iter(["cmdline"])
        if "CoarseGrainedExecutorBackend" in " ".join(process.info["cmdline"] or ())
        and _working_directory(process).startswith(str(work))
    ]
    assert executors
    executors[0].kill()


def _working_directory(process: psutil.Process) -> str:
    try:
        return str(process.cwd())
    except psutil.Error:
        return ""


def check_tables(home: Home) -> None:
    report = read_status(home, 0)
    assert [(query.name, query.state) for query in report.queries] == [("ingest", "stopped")]
    assert report.rows == {"raw": 1_001, "numbers": 1_000, "dead_letters": 1}
    raw, clean = (
        ds.dataset(home.table(table).path, format="parquet").to_table() for table in ("raw", "numbers")
    )
    assert len(raw) == 1_001
    assert sorted(clean["n"].to_pylist()) == list(range(1_000))
