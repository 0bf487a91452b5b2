"""Keeps receiver processes alive, and takes them along when it ends.

One thread per receiver starts it, reads its reports and starts it again after a growing pause. A receiver has
our pipe as its stdin: closing it, or dying, ends the receiver.
"""

import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterable

import msgspec

from braidmq.client.backoff import Backoff
from braidmq.spark.tasks import ReceiverTask, Report

BACKOFF_MIN_S = 0.1
BACKOFF_MAX_S = 15.0
STOP_PATIENCE_S = 12.0  # a little more than a receiver gives itself
FINAL_STATES = ("drained", "taken")  # starting it again would be of no use


class Keeper:
    """One receiver."""

    def __init__(self, task: ReceiverTask) -> None:
        self.task = task
        self.report = Report(subscriber=task.subscriber, draining=task.is_draining)
        self.restarts = 0
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._keep, name=f"keeper of {task.subscriber}", daemon=True)

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Asks the receiver to end."""
        with self._lock:
            self._stopping.set()
            if self._process is not None and self._process.stdin is not None:
                self._process.stdin.close()

    def join(self, deadline: float) -> None:
        self._thread.join(max(0.0, deadline - time.monotonic()))
        if self._thread.is_alive() and self._process is not None:
            self._process.kill()
            self._thread.join()

    def _keep(self) -> None:
        backoff = Backoff(BACKOFF_MIN_S, BACKOFF_MAX_S, random.random)
        while not self._stopping.is_set() and self.report.state not in FINAL_STATES:
            began = time.monotonic()
            self._run_once()
            backoff.connection_lasted(time.monotonic() - began)
            if not self._stopping.is_set() and self.report.state not in FINAL_STATES:
                self.restarts += 1
                self._stopping.wait(backoff.delay_s())

    def _run_once(self) -> None:
        with self._lock:
            if self._stopping.is_set():
                return
            # Its name is there for who looks at the list of processes.
            command = [sys.executable, "-m", "braidmq.spark.receiver", self.task.subscriber]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            self._process = process
            assert process.stdin is not None
            try:
                process.stdin.write(msgspec.json.encode(self.task) + b"\n")
                process.stdin.flush()
            except BrokenPipeError:
                pass  # it died at once; its end is noticed below
        assert process.stdout is not None
        for line in process.stdout:
            self._listen(line)
        process.wait()
        process.stdout.close()
        self.stop_talking(process)

    def stop_talking(self, process: "subprocess.Popen[bytes]") -> None:
        with self._lock:
            if process.stdin is not None and not process.stdin.closed:
                process.stdin.close()
        self.report.connected_since = 0.0
        if self.report.state not in (*FINAL_STATES, "stopped", "failed"):
            self.report.state = "failed"
            self.report.error = f"the receiver ended with code {process.returncode}"

    def _listen(self, line: bytes) -> None:
        try:
            self.report = msgspec.json.decode(line, type=Report)
        except msgspec.DecodeError:
            return  # half a line of a process that was killed


class Supervisor:
    def __init__(self) -> None:
        self._keepers: dict[str, Keeper] = {}

    def start(self, tasks: Iterable[ReceiverTask]) -> None:
        for task in tasks:
            keeper = self._keepers[task.subscriber] = Keeper(task)
            keeper.start()

    def reports(self) -> list[Report]:
        return [keeper.report for keeper in self._keepers.values()]

    def restarts(self) -> dict[str, int]:
        return {name: keeper.restarts for name, keeper in self._keepers.items()}

    def pids(self) -> dict[str, int | None]:
        return {name: keeper.pid for name, keeper in self._keepers.items()}

    def stop(self) -> None:
        deadline = time.monotonic() + STOP_PATIENCE_S
        for keeper in self._keepers.values():
            keeper.stop()
        for keeper in self._keepers.values():
            keeper.join(deadline)
