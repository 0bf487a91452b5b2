"""Real broker processes for tests: started on a free port of 127.0.0.1, stopped by pid.

`BRAIDMQ_TEST_BROKER=mosquitto` puts Mosquitto under the same tests. That is how the tests themselves are
checked: what fails there is either a known deviation of Mosquitto or a mistake in the test.
`BRAIDMQ_TEST_WORKERS=2` lets the broker under test be one of two processes.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

START_TIMEOUT_S = 20.0
STOP_TIMEOUT_S = 10.0
POLL_S = 0.01

# What Mosquitto calls some of our limits; a limit it hasn't got makes serve() raise UnsupportedError.
MOSQUITTO_NAMES = {
    "packet_bytes_max": "max_packet_size",
    "topic_alias_max": "max_topic_alias",
    "receive_maximum": "max_inflight_messages",
    "inflight_max": "max_inflight_messages",
    "keep_alive_s_max": "max_keepalive",
    "connections_max": "max_connections",
    "queue_messages_max": "max_queued_messages",
    "queue_bytes_max": "max_queued_bytes",
}


class UnsupportedError(Exception):
    """The broker under test can't be configured this way."""


def under_test() -> str:
    """`braidmq`, or the outside judge named by the environment."""
    return os.environ.get("BRAIDMQ_TEST_BROKER", "braidmq")


def toml_value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{toml_value(str(k))} = {toml_value(v)}" for k, v in value.items()) + "}"
    return str(value)


def toml_text(config: Mapping[str, Mapping[str, object]]) -> str:
    """`{"limits": {...}, "auth.scram": {...}}` as TOML tables."""
    lines: list[str] = []
    for table, entries in config.items():
        lines.append(f"[{table}]")
        lines += [f"{key} = {toml_value(value)}" for key, value in entries.items()]
    return "\n".join(lines) + "\n"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Broker:
    """One running broker process. Its output goes to a file, so that a full pipe can't stall it."""

    def __init__(self, command: list[str], directory: Path, port: int | None = None) -> None:
        self.directory = directory
        self.log_path = directory / "broker.log"
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=directory)
        try:
            self.port = self._wait_for_port() if port is None else self._wait_until_open(port)
        except BaseException:
            self.stop()
            raise

    @property
    def pid(self) -> int:
        return self.process.pid

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def running(self) -> bool:
        return self.process.poll() is None

    def _wait_for_port(self) -> int:
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            found = re.search(r"listening on 127\.0\.0\.1:(\d+)", self.log())
            if found:
                return int(found[1])
            if not self.running():
                break
            time.sleep(POLL_S)
        raise RuntimeError(f"the broker did not start:\n{self.log()}")

    def admin_address(self) -> str:
        """Where the admin API is; it is printed after the listeners' addresses."""
        while self.running():
            found = re.search(r"listening on (http://127\.0\.0\.1:\d+) \(admin API\)", self.log())
            if found:
                return found[1]
            time.sleep(POLL_S)
        raise RuntimeError(f"the broker did not start:\n{self.log()}")

    def _wait_until_open(self, port: int) -> int:
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline and self.running():
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return port
            time.sleep(POLL_S)
        raise RuntimeError(f"the broker did not start:\n{self.log()}")

    def stop(self) -> int:
        """Stop the process (SIGTERM, then SIGKILL) and give its exit code."""
        if self.running():
            self.process.terminate()
            try:
                self.process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
        code = self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)
        return code


def start_braidmq(config: Mapping[str, Mapping[str, object]] | None = None, *flags: str) -> Broker:
    directory = Path(tempfile.mkdtemp(prefix="braidmq-test-"))
    command = [sys.executable, "-m", "braidmq", "serve", "--in-memory", "--port", "0", *flags]
    if config:
        path = directory / "broker.toml"
        path.write_text(toml_text(config))
        command += ["--config", str(path)]
    return Broker(command, directory)


def start_mosquitto(config: Mapping[str, Mapping[str, object]] | None = None, *settings: str) -> Broker:
    """`settings` are lines for its own configuration file."""
    program = shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        raise UnsupportedError("mosquitto is not installed (Debian: apt-get install mosquitto)")
    wanted = dict(config or {})
    limits = wanted.pop("limits", {})
    unknown = [name for name in limits if name not in MOSQUITTO_NAMES]
    if wanted or unknown:
        raise UnsupportedError(f"mosquitto has no setting for {[*wanted, *unknown]}")
    directory, port = Path(tempfile.mkdtemp(prefix="braidmq-test-")), free_port()
    lines = [f"listener {port} 127.0.0.1", "allow_anonymous true", "persistence false", "log_dest none"]
    lines += ["set_tcp_nodelay true", *settings]
    lines += [f"{MOSQUITTO_NAMES[name]} {value}" for name, value in limits.items()]
    path = directory / "mosquitto.conf"
    path.write_text("\n".join(lines) + "\n")
    return Broker([program, "-c", str(path)], directory, port)


def serve(config: Mapping[str, Mapping[str, object]] | None = None) -> Broker:
    """Start the broker under test. `config` maps a TOML table (`limits`, `auth.scram`) to its entries."""
    if under_test() == "mosquitto":
        return start_mosquitto(config)
    return start_braidmq(config, "--workers", os.environ.get("BRAIDMQ_TEST_WORKERS", "1"))
