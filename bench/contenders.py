"""Starts and stops the processes under measurement, each on a free port and pinned to one core."""

import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from braidmq.errors import BraidError

GENERATOR_CORE, BROKER_CORE = 0, 1
START_MAX_S = 20.0
STOP_MAX_S = 10.0
MOSQUITTO_MISSING = (
    "make bench compares with Mosquitto, which isn't installed. On Debian: apt-get install mosquitto"
)
# No limit that a flooding publisher could meet, no disk, no log; a window as wide as the generator's.
MOSQUITTO_CONFIG = """\
listener {port} 127.0.0.1
allow_anonymous true
{persistence}
log_dest none
log_type none
connection_messages false
set_tcp_nodelay true
max_inflight_messages 1000
max_queued_messages 0
max_queued_bytes 0
max_connections -1
"""
# It saves all it has each second; between two saves nothing is on disk. There is no setting that keeps each
# message before its acknowledgement but saving everything after every change.
MOSQUITTO_SAVES = "persistence true\npersistence_location {directory}/\nautosave_interval 1"
# The same for ours, whose queues always have a bound.
BRAIDMQ_LIMITS = ("inflight_max=1000", "receive_maximum=1000", "queue_messages_max=10000000",
                  "queue_bytes_max=4000000000")


class BenchError(BraidError):
    """The benchmark can't go on."""


class Contender(msgspec.Struct, frozen=True):
    """A process that takes the load."""

    name: str
    pid: int
    port: int


def find_mosquitto() -> str | None:
    """Debian puts it where an ordinary user's PATH does not lead."""
    places = [os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"]
    return shutil.which("mosquitto", path=os.pathsep.join(places))


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def pinned(core: int) -> Iterator[bool]:
    """What is started inside inherits the core; False where there is no second core or no such call."""
    if not hasattr(os, "sched_setaffinity") or core not in os.sched_getaffinity(0):
        yield False
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield True
    finally:
        os.sched_setaffinity(0, before)


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def stop(process: subprocess.Popen[Any]) -> None:
    process.terminate()
    try:
        process.wait(STOP_MAX_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def await_answer(name: str, process: subprocess.Popen[Any], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_MAX_S
    while not answers(port):
        if process.poll() is not None or time.monotonic() > deadline:
            said = log.read_text(errors="replace").strip()
            raise BenchError(f"{name} didn't start: {said or 'no word from it'}")
        time.sleep(0.02)


@contextmanager
def started(
    name: str, command: Sequence[str], port: int, environment: Mapping[str, str] | None = None
) -> Iterator[Contender]:
    """Run the command on the broker's core until the block ends."""
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        log = Path(directory, "log")
        with log.open("wb") as output, pinned(BROKER_CORE):
            process = subprocess.Popen(
                command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, env=environment
            )
        try:
            await_answer(name, process, port, log)
            yield Contender(name, process.pid, port)
        finally:
            stop(process)


@contextmanager
def mosquitto(*, saves: bool = False) -> Iterator[Contender]:
    program, port = find_mosquitto(), free_port()
    if program is None:
        raise BenchError(MOSQUITTO_MISSING)
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        config = Path(directory, "mosquitto.conf")
        persistence = MOSQUITTO_SAVES.format(directory=directory) if saves else "persistence false"
        own = f"user {pwd.getpwuid(os.getuid()).pw_name}\n"  # or it gives up the right to its own directory
        config.write_text(own + MOSQUITTO_CONFIG.format(port=port, persistence=persistence))
        with started("mosquitto", [program, "-c", str(config)], port) as contender:
            yield contender


@contextmanager
def braidmq(*flags: str, name: str = "braidmq", checkout: Path | None = None) -> Iterator[Contender]:
    """Ours, or what `checkout` has built; in memory, unless flags say where to keep what must survive."""
    port = free_port()
    limits = [part for limit in BRAIDMQ_LIMITS for part in ("--limit", limit)]
    kept = flags or ("--in-memory",)
    command = [sys.executable, "-m", "braidmq", "serve", "--port", str(port), *limits, *kept]
    with started(name, command, port, _importing_from(checkout)) as contender:
        yield contender


def _importing_from(checkout: Path | None) -> dict[str, str] | None:
    if checkout is None:
        return None
    if not list((checkout / "src" / "braidmq").rglob("*.so")):
        raise BenchError(f"{checkout}: no built BraidMQ; run make setup there")
    return {**os.environ, "PYTHONPATH": str((checkout / "src").resolve())}


@contextmanager
def durable_braidmq(durability: str) -> Iterator[Contender]:
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as directory,
        braidmq("--data-dir", directory, "--durability", durability, name=durability) as contender,
    ):
        yield contender


@contextmanager
def relay(*, bare_c: bool) -> Iterator[Contender]:
    """What moving the bytes costs at least: through uvloop, or, as the generator's ceiling, through C."""
    port = free_port()
    command = [sys.executable, "-m", "bench.relay", str(port), *(["--c"] if bare_c else [])]
    with started("C relay" if bare_c else "uvloop relay", command, port) as contender:
        yield contender
