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

import psutil
import pyarrow as pa
import pytest

from braidmq.client import BlockingClient
from tests.spark.waiting import wait_for
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
    def __init__(self, folder: Path, **options: object) -> None:
        self.folder = folder
        (folder / "options.json").write_text(
            json.dumps({name: str(value) for name, value in options.items()})
        )
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "tests.spark.mini", str(self.folder)]
        log = (self.folder / "log").open("ab")
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log)

    def receivers(self) -> list[psutil.Process]:
        assert self._process is not None
        with contextlib.suppress(psutil.NoSuchProcess):
            return psutil.Process(self._process.pid).children()
        return []

    def kill_driver(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def kill_receivers(self) -> int:
        killed = 0
        for receiver in self.receivers():
            with contextlib.suppress(psutil.NoSuchProcess):
                receiver.kill()
                killed += 1
        return killed

    def stop(self) -> None:
        assert self._process is not None
        if self._process.poll() is None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.wait(30)

    def payloads(self) -> Counter[bytes]:
        counted: Counter[bytes] = Counter()
        for path in (self.folder / "out").glob("*.arrow"):
            with pa.ipc.open_file(path) as file:
                counted.update(file.read_all().column("payload").to_pylist())
        return counted

    def log(self) -> str:
        return (self.folder / "log").read_text()


class Publisher:
    """Numbers its messages; what it returns from is acknowledged by the broker."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.acknowledged = 0

    def publish(self, address: str, count: int, qos: int = 1) -> None:
        numbers = range(self.acknowledged, self.acknowledged + count)
        with BlockingClient(address, connect_patience_s=30.0) as client:
            client.publish_many(((f"{self.topic}/{n % 5}", str(n)) for n in numbers), qos=qos)
        self.acknowledged += count

    def wait_for_subscribers(self, address: str) -> None:
        """A group without members gets nothing: the next message is sent until somebody is there."""
        payload = str(self.acknowledged)
        with BlockingClient(address, connect_patience_s=30.0) as client:
            wait_for(lambda: client.publish(f"{self.topic}/0", payload, qos=1).reason == 0, "the receivers")
        self.acknowledged += 1

    def wanted(self) -> Counter[bytes]:
        return Counter({str(number).encode(): 1 for number in range(self.acknowledged)})


def expect_each_once(query: AttackedQuery, publisher: Publisher) -> None:
    """Waits for the last message, then gives a repeat the time to show itself: until all is quiet."""
    wanted = publisher.wanted()
    wait_for(lambda: wanted.keys() <= query.payloads().keys(), "every message")
    deadline = time.monotonic() + 1.0
    while time.monotonic() < deadline:
        time.sleep(0.1)
    found = query.payloads()
    assert found - wanted == Counter(), f"doubled: {found - wanted}"
    assert found == wanted
