"""Things that are to happen later, in order of time. Cost: O(log n) to set, O(1) to cancel.

A cancelled timer stays in the heap until its time comes, so timers that are moved often (keep alive) are not
cancelled and set again: they fire, look at what has happened since, and are set anew for what is left.
"""

import heapq
from collections.abc import Callable
from itertools import count
from math import inf


class Timer:
    """One thing that is to happen; `cancel` makes it not happen."""

    __slots__ = ("action", "at_s")

    def __init__(self, at_s: float, action: Callable[[], None] | None) -> None:
        self.at_s = at_s
        self.action = action

    def cancel(self) -> None:
        self.action = None


class Timers:
    """A heap of timers, driven from outside by `run_due`."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Timer]] = []
        self._order = count()

    def set(self, at_s: float, action: Callable[[], None]) -> Timer:
        timer = Timer(at_s, action)
        heapq.heappush(self._heap, (at_s, next(self._order), timer))
        return timer

    def run_due(self, now: float) -> None:
        """Let happen whatever is due by `now`."""
        while self._heap and self._heap[0][0] <= now:
            _, _, timer = heapq.heappop(self._heap)
            if timer.action is not None:
                timer.action()

    @property
    def next_at_s(self) -> float:
        """When `run_due` should be called next; infinity if nothing is set."""
        while self._heap and self._heap[0][2].action is None:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else inf
