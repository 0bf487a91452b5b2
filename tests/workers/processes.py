"""A running `serve --workers 2`, and its processes one by one."""

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from braidmq.net.handover import owner_of
from braidmq.worker import VARIABLE, Worker
from tests.support.broker import Broker
from tests.support.raw import ClosedError, RawClient

WORKERS = 2
PATIENCE_S = 60.0


def start(directory: Path, *flags: str) -> Broker:
    directory.mkdir()  # what the broker says is there, and is removed with it
    command = [sys.executable, "-m", "braidmq", "serve", "--port", "0", "--workers", str(WORKERS), *flags]
    return Broker(command, directory)


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not come to be"
        time.sleep(0.01)


def workers_of(broker: Broker) -> dict[int, int]:
    """The pids of its workers, by their number."""
    children = Path(f"/proc/{broker.pid}/task/{broker.pid}/children").read_text().split()
    found = {}
    for pid in map(int, children):
        worker = _worker(pid)
        if worker is not None:
            found[worker.index] = pid
    return found


def _worker(pid: int) -> Worker | None:
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    prefix = f"{VARIABLE}=".encode()
    told = next((one.removeprefix(prefix) for one in variables if one.startswith(prefix)), None)
    return msgspec.json.decode(told, type=Worker) if told is not None else None


def doors_of(broker: Broker) -> Path:
    worker = _worker(workers_of(broker)[0])
    assert worker is not None
    return Path(worker.doors)


def is_gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state == "Z"  # ended; only its parent has not asked yet


def end(pids: list[int]) -> None:
    """Leave no process behind, whatever a test has found."""
    for pid in pids:
        if not is_gone(pid):
            os.kill(pid, signal.SIGKILL)


def client_id_of(owner: int, word: str) -> str:
    ids = (f"{word}-{number}" for number in range(1000))
    return next(one for one in ids if owner_of(one.encode(), WORKERS) == owner)


def connected(port: int, client_id: str, *, clean_start: bool = True, expiry_s: int = 0) -> RawClient:
    client = RawClient(port, timeout_s=PATIENCE_S)
    client.connect(client_id, clean_start=clean_start, session_expiry_s=expiry_s)
    return client


def comes_back(port: int, client_id: str) -> RawClient:
    """A client that tries again until its worker is there; its session has to be, too."""
    found: list[RawClient] = []

    def is_let_in() -> bool:
        client = RawClient(port, timeout_s=PATIENCE_S)
        try:
            client.connect(client_id, clean_start=False, session_expiry_s=300)
        except (AssertionError, ClosedError):
            client.close()
            return False
        found.append(client)
        return True

    until(is_let_in)
    assert found[0].connack.session_present
    return found[0]
