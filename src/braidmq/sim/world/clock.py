"""A virtual clock: what is to happen, in order of time, and of two at the same time the one that was set
first.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from math import inf


class Clock:
    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[..., None], tuple[object, ...]]] = []
        self._order = count()

    def at(self, time_s: float, action: Callable[..., None], *arguments: object) -> None:
        heappush(self._events, (time_s, next(self._order), action, arguments))

    def run_until(self, time_s: float) -> None:
        """Let everything happen that is due by then."""
        events = self._events
        while events and events[0][0] <= time_s:
            self.now, _, action, arguments = heappop(events)
            action(*arguments)
        self.now = time_s

    @property
    def next_at_s(self) -> float:
        return self._events[0][0] if self._events else inf
