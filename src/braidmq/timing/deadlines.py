"""Things in the order of their time, some of which are given up before it comes.

Invariant: at most half of the heap is given up, or it is small; when it is more, it is swept out. Cost:
O(log n) to add and to take, and to give up O(1), spread over the sweeps. Rejected: to leave in the heap what
was given up until its time has come, which may be in a day; and to look for it there, which costs O(n).
"""

import heapq
from collections.abc import Callable
from itertools import count
from math import inf
from typing import Final, Generic, TypeVar

T = TypeVar("T")

SWEPT_MIN: Final = 64  # fewer than these are not worth a sweep


class Deadlines(Generic[T]):
    """A heap of things; `is_alive` says of one whether it still counts."""

    def __init__(self, is_alive: Callable[[T], bool]) -> None:
        self._is_alive = is_alive
        self._heap: list[tuple[float, int, T]] = []
        self._order = count()
        self._given_up = 0

    def __len__(self) -> int:
        """How many are held, alive or given up."""
        return len(self._heap)

    def add(self, at_s: float, thing: T) -> None:
        heapq.heappush(self._heap, (at_s, next(self._order), thing))

    def gave_up(self) -> None:
        """One of the things in here, and only one, counts no more."""
        self._given_up += 1
        if len(self._heap) >= SWEPT_MIN and self._given_up * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if self._is_alive(entry[2])]
            heapq.heapify(self._heap)
            self._given_up = 0

    def take_due(self, now: float) -> T | None:
        """The first one whose time has come, if there is one."""
        if self.next_at_s > now:
            return None
        return heapq.heappop(self._heap)[2]

    @property
    def next_at_s(self) -> float:
        """When the first of them is due; infinity if there is none."""
        while self._heap and not self._is_alive(self._heap[0][2]):
            heapq.heappop(self._heap)
            self._given_up -= 1
        return self._heap[0][0] if self._heap else inf
