"""Waiting for what other processes do."""

import time
from collections.abc import Callable

WAIT_S = 90.0
POLL_S = 0.05


def wait_for(condition: Callable[[], bool], what: str, timeout_s: float = WAIT_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout_s:.0f} s in vain for {what}"
        time.sleep(POLL_S)
