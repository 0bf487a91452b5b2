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
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import paho.mqtt.client as paho
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from braidmq.spark.wal import Wal
from tests.spark.waiting import WAIT_S, wait_for
from tests.support.broker import Broker, free_port, toml_text

Row = tuple[str, bytes]  # topic and payload
SAME = b"ok"
QUIET_S = 1.0
# A message that one group refuses and another takes would be published again to both: there is room for all.
ROOM = {
    "limits": {"queue_messages_max": 1_000_000, "queue_bytes_max": 1 << 30},
    "groups": {"messages_max": 10_000_000, "bytes_max": 1 << 32},
}


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

    def restart(self) -> None:
        """In order, with SIGTERM."""
        assert self._running is not None
        self._running.process.terminate()
        self._running.process.wait()
        self.start()

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

    def wait_until_receiving(
        self, receivers: int, timeout_s: float = WAIT_S, since: float = 0.0
    ) -> None:
        """Until all have subscribed, on connections that are not older than `since`."""
        wal = Wal(str(self.folder / "wal"))

        def all_receive() -> bool:
            state = wal.state()
            if state is None or [one.state for one in state.receivers] != ["receiving"] * receivers:
                return False
            return all(one.connected_since >= since for one in state.receivers)

        wait_for(all_receive, "the receivers", timeout_s)

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

    def rows(self) -> Counter[Row]:
        """How often each topic and payload is among the rows that were written."""
        counted: Counter[Row] = Counter()
        for path in (self.folder / "out").glob("*.arrow"):
            with pa.ipc.open_file(path) as file:
                counted.update(_rows_of(file.read_all()))
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

    def rows(self) -> Counter[Row]:
        """From the files that Spark has committed: what an aborted task has left is not among them."""
        committed: set[str] = set()
        for path in (self.folder / "out" / "_spark_metadata").glob("*"):
            if not path.name.startswith(".") and not path.name.endswith(".tmp"):
                lines = path.read_text().splitlines()[1:]
                committed.update(unquote(json.loads(line)["path"].removeprefix("file://")) for line in lines)
        counted: Counter[Row] = Counter()
        for name in committed:
            counted.update(_rows_of(pq.read_table(name, columns=["topic", "payload"])))
        return counted


def _rows_of(table: pa.Table) -> Iterator[Row]:
    return zip(table.column("topic").to_pylist(), table.column("payload").to_pylist(), strict=True)


def kill(processes: list[psutil.Process]) -> int:
    killed = 0
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
            killed += 1
    return killed


class Publisher:
    """A foreign client (paho) that counts what the broker has acknowledged.

    Every second message says the same as the others, as devices do; the rest are numbered.
    """

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.wanted: Counter[Row] = Counter()
        self._next = 0

    def publish(self, address: str, count: int, qos: int = 1) -> None:
        """Comes back when all are acknowledged; a group that is full is waited for."""
        waiting = [self._message() for _ in range(count)]
        deadline = time.monotonic() + WAIT_S
        with paho_client(address) as client:
            while waiting and time.monotonic() < deadline:
                waiting = self._attempt(client, waiting, qos)
        assert not waiting, f"the broker refused {len(waiting)} messages"

    def _message(self) -> Row:
        self._next += 1
        payload = SAME if self._next % 2 else str(self._next).encode()
        return f"{self.topic}/{self._next % 5}", payload

    def _attempt(self, client: "PahoClient", rows: list[Row], qos: int) -> list[Row]:
        """Those that the broker did not take."""
        sent = {client.publish(topic, payload, qos): (topic, payload) for topic, payload in rows}
        reasons = client.wait_for(sent)
        self.wanted.update(row for token, row in sent.items() if reasons[token] == 0)
        return [row for token, row in sent.items() if reasons[token] != 0]

    def wait_for_subscribers(self, address: str, timeout_s: float = WAIT_S) -> None:
        """A group without members gets nothing: the next message is sent until somebody is there."""
        row = self._message()
        with paho_client(address) as client:
            wait_for(lambda: not self._attempt(client, [row], 1), "the receivers", timeout_s)


class PahoClient:
    """paho with its callbacks gathered: what was published, and the reason that the broker gave."""

    def __init__(self, address: str) -> None:
        host, _, port = address.partition(":")
        self._reasons: dict[int, int] = {}
        self._client = paho.Client(paho.CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
        self._client.on_publish = self._on_publish
        self._client.max_queued_messages_set(0)
        self._client.max_inflight_messages_set(1_000)
        wait_for(lambda: self._connects(host, int(port)), "the broker")
        self._client.loop_start()

    def _connects(self, host: str, port: int) -> bool:
        try:
            return self._client.connect(host, port) == paho.MQTT_ERR_SUCCESS
        except OSError:
            return False

    def _on_publish(self, _client: object, _data: object, mid: int, reason: Any, _properties: object) -> None:
        self._reasons[mid] = int(reason.value)

    def publish(self, topic: str, payload: bytes, qos: int) -> int:
        return self._client.publish(topic, payload, qos).mid

    def wait_for(self, tokens: Iterable[int]) -> dict[int, int]:
        wanted = set(tokens)
        wait_for(lambda: wanted <= self._reasons.keys(), "the acknowledgements")
        return {token: self._reasons.pop(token) for token in wanted}

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


@contextlib.contextmanager
def paho_client(address: str) -> Iterator[PahoClient]:
    client = PahoClient(address)
    try:
        yield client
    finally:
        client.close()


def expect(
    query: AttackedQuery, wanted: Counter[Row], *, exact: bool = True, timeout_s: float = WAIT_S
) -> None:
    """Waits until nothing is missing, then gives a repeat the time to show itself."""
    wait_for(lambda: not wanted - query.rows(), "every message", timeout_s)
    time.sleep(QUIET_S)
    if exact:
        doubled = query.rows() - wanted
        assert not doubled, f"doubled {doubled.total()}, as {doubled.most_common(5)}"
