"""A thread that calls `ping` when it is time, for programs that compute for long between two calls."""

import threading
import time
from collections.abc import Callable

CHECK_S = 1.0  # how often to look when there is nothing to wait for


class Pinger:
    def __init__(self, ping: Callable[[], float | None]) -> None:
        self._ping = ping  # gives the time of the next one
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="mqtt pinger", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Comes back when the thread is gone."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        delay_s = 0.0
        while not self._stopping.wait(delay_s):
            deadline = self._ping()
            # Not longer than a second: a new connection may have an earlier deadline than the old one.
            delay_s = CHECK_S if deadline is None else min(max(deadline - time.monotonic(), 0.01), CHECK_S)
