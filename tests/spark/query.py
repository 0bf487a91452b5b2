"""A query under attack: brokers, a driver and its receivers, all of which can be killed and started again."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from urllib.parse import unquote

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from braidmq.client import BlockingClient, publish_patiently
from braidmq.errors import BraidError
from braidmq.wire import Publish
from tests.spark.waiting import WAIT_S, wait_for
from tests.support.broker import Broker, free_port, toml_text

ROOM = {"limits": {"queue_messages_max": 1_000_000, "queue_bytes_max": 1 << 30}}


class DurableBroker:
    """A broker that remembers; `kill` and `start` as often as wanted, on the same port."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.folder = Path(tempfile.mkdtemp(prefix="braidmq-test-"))
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self._running: Broker | None = None
        self.start()

    def start(self) -> None:
        run = Path(tempfile.mkdtemp(dir=self.folder))
        self._running = Broker(self._command(run), run, self.port)

    def _command(self, run: Path) -> list[str]:
        data = self.folder / "data"
        data.mkdir(exist_ok=True)
        if self.kind == "braidmq":
            (run / "broker.toml").write_text(toml_text(ROOM))
            flags = ["--port", str(self.port), "--data-dir", str(data), "--config", str(run / "broker.toml")]
            return [sys.executable, "-m", "braidmq", "serve", *flags]
        program = shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
        if program is None:
            pytest.skip("mosquitto is not installed (Debian: apt-get install mosquitto)")
        data.chmod(0o777)
        lines = [
            f"listener {self.port} 127.0.0.1",
            "allow_anonymous true",
            "persistence true",
            f"persistence_location {data}/",
            "max_queued_messages 0",
            "max_inflight_messages 0",
            "user root",
        ]
        (run / "mosquitto.conf").write_text("\n".join(lines) + "\n")
        return [program, "-c", str(run / "mosquitto.conf")]

    def kill(self) -> None:
        """SIGKILL. Mosquitto writes its state now and then only, so it is told to do so before."""
        assert self._running is not None
        process = self._running.process
        if self.kind == "mosquitto":
            saved = self.folder / "data" / "mosquitto.db"
            before = saved.stat().st_mtime_ns if saved.exists() else 0
            process.send_signal(signal.SIGUSR1)
            wait_for(lambda: saved.exists() and saved.stat().st_mtime_ns != before, "Mosquitto to save")
        process.kill()
        process.wait()

    def stop(self) -> None:
        assert self._running is not None
        self._running.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


class AttackedQuery:
    """A query in a process of its own; by default the stand-in of mini.py."""

    program = "tests.spark.mini"

    def __init__(self, folder: Path, **options: object) -> None:
        self.folder = folder
        given = {name: str(value) for name, value in options.items()}
        (folder / "options.json").write_text(json.dumps(given))
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", self.program, str(self.folder)]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log)

    def descendants(self, word: str) -> list[psutil.Process]:
        """Processes below the query whose command line has a word."""
        assert self._process is not None
        found = []
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in psutil.Process(self._process.pid).children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    if any(word in part for part in process.cmdline()):
                        found.append(process)
        return found

    def receivers(self) -> list[psutil.Process]:
        return self.descendants("braidmq.spark.receiver")

    def kill_receivers(self) -> int:
        return kill(self.receivers())

    def kill_driver(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        assert self._process is not None
        if self._process.poll() is None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.wait(60)

    def payloads(self) -> Counter[bytes]:
        counted: Counter[bytes] = Counter()
        for path in (self.folder / "out").glob("*.arrow"):
            with pa.ipc.open_file(path) as file:
                counted.update(file.read_all().column("payload").to_pylist())
        return counted


class AttackedSparkQuery(AttackedQuery):
    """The same in Spark: a driver with its JVM, Python workers, and receivers."""

    program = "tests.spark.spark_query"

    def kill_driver(self) -> None:
        """The JVM is what counts; the Python program that started it goes too."""
        kill(self.descendants("org.apache.spark.deploy"))
        super().kill_driver()

    def kill_workers(self) -> int:
        """Python workers of the executors, not the daemon that forks them."""
        daemons = self.descendants("pyspark.daemon")
        return kill([process for process in daemons if process.ppid() in {other.pid for other in daemons}])

    def payloads(self) -> Counter[bytes]:
        counted: Counter[bytes] = Counter()
        for (_, payload), count in self.rows().items():
            counted[payload] += count
        return counted

    def rows(self) -> Counter[tuple[str, bytes]]:
        """(topic without its last level, payload), from the files that Spark has committed.

        What an aborted task has left is not among them.
        """
        committed: set[str] = set()
        for path in (self.folder / "out" / "_spark_metadata").glob("*"):
            if not path.name.startswith(".") and not path.name.endswith(".tmp"):
                lines = path.read_text().splitlines()[1:]
                committed.update(unquote(json.loads(line)["path"].removeprefix("file://")) for line in lines)
        counted: Counter[tuple[str, bytes]] = Counter()
        for name in committed:
            table = pq.read_table(name, columns=["topic", "payload"])
            topics = (topic.rpartition("/")[0] for topic in table.column("topic").to_pylist())
            counted.update(zip(topics, table.column("payload").to_pylist(), strict=True))
        return counted


def kill(processes: list[psutil.Process]) -> int:
    killed = 0
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
            killed += 1
    return killed


class Publisher:
    """Numbers its messages; what it returns from is acknowledged by the broker."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.acknowledged = 0

    def publish(self, address: str, count: int, qos: int = 1) -> None:
        numbers = range(self.acknowledged, self.acknowledged + count)
        packets = [Publish(f"{self.topic}/{n % 5}", str(n).encode(), qos) for n in numbers]
        with BlockingClient(address, connect_patience_s=30.0) as client:
            # While receivers are dead a group can be full, which is told and no reason to give up.
            outcomes = publish_patiently(client, packets, patience_s=WAIT_S)
        for refusal in (outcome for outcome in outcomes if isinstance(outcome, BraidError)):
            raise refusal
        self.acknowledged += count

    def wait_for_subscribers(self, address: str, timeout_s: float = WAIT_S) -> None:
        """A group without members gets nothing: the next message is sent until somebody is there."""
        payload = str(self.acknowledged)
        with BlockingClient(address, connect_patience_s=30.0) as client:
            wait_for(
                lambda: client.publish(f"{self.topic}/0", payload, qos=1).reason == 0,
                "the receivers",
                timeout_s,
            )
        self.acknowledged += 1

    def wanted(self) -> Counter[bytes]:
        return Counter({str(number).encode(): 1 for number in range(self.acknowledged)})


def expect_each_once(query: AttackedQuery, publisher: Publisher, timeout_s: float = WAIT_S) -> None:
    """Waits for the last message, then gives a repeat the time to show itself: until all is quiet."""
    wanted = publisher.wanted()
    wait_for(lambda: wanted.keys() <= query.payloads().keys(), "every message", timeout_s)
    deadline = time.monotonic() + 1.0
    while time.monotonic() < deadline:
        time.sleep(0.1)
    found = query.payloads()
    assert found - wanted == Counter(), f"doubled: {found - wanted}"
    assert found == wanted
