"""Connections whose CONNECT isn't answered yet: there is a bound to how many, and the oldest gives way.

Whoever means it is through in some round trips. Whoever only holds a place is pushed out by those who come
after, and can't keep them out.
"""

from typing import Protocol


class Newcomer(Protocol):
    def close(self, why: str) -> None: ...


class Lingerer(Protocol):
    """A socket that is kept open for its client to read the rest."""

    def give_up(self) -> None: ...


class Newcomers:
    """Those who are not in yet, in the order in which they came."""

    def __init__(self, newcomers_max: int) -> None:
        self.pushed_out = 0  # since the start
        self.newcomers_max = newcomers_max
        self._waiting: dict[Newcomer, None] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, newcomer: Newcomer) -> None:
        """Somebody has connected."""
        if len(self._waiting) >= self.newcomers_max:
            self.push_out()
        self._waiting[newcomer] = None

    def push_out(self) -> None:
        """The oldest gives way, if there is one."""
        if self._waiting:
            self.pushed_out += 1
            oldest = next(iter(self._waiting))
            self.settle(oldest)
            oldest.close("gave way to newer connections before its CONNECT was complete")

    def settle(self, newcomer: Newcomer) -> None:
        """It is in, or gone."""
        self._waiting.pop(newcomer, None)
