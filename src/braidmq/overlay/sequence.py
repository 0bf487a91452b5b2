"""What a subscriber has had from one publisher: nothing twice, and in order where that costs a moment."""

from math import inf
from typing import Final, Generic, TypeVar

WINDOW: Final = 4096  # numbers below the highest that are told apart; what is older counts as seen


M = TypeVar("M")


class Sequence(Generic[M]):
    """Numbers start at 1. `take` answers with what is to be delivered now."""

    __slots__ = ("_expected", "_held", "_highest", "_seen", "late_count", "release_at_s")

    def __init__(self) -> None:
        self._highest = 0
        self._seen = 0  # bit n: highest - n was seen
        self._expected = 0  # 0: not known yet
        self._held: dict[int, M] = {}
        self.release_at_s = inf
        self.late_count = 0

    def is_new(self, seq: int) -> bool:
        """Whether this number comes for the first time; it counts as seen from now on."""
        if seq > self._highest:
            shift = min(seq - self._highest, WINDOW)
            self._seen = ((self._seen << shift) | 1) & ((1 << WINDOW) - 1)
            self._highest = seq
            return True
        bit = 1 << (self._highest - seq)
        if self._highest - seq >= WINDOW or self._seen & bit:
            return False
        self._seen |= bit
        return True

    def take(self, seq: int, message: M, now: float, hold_s: float) -> list[M]:
        if not hold_s:
            return [message]
        if self._expected == 0 and seq == 1:
            self._expected = 1
        if self._expected and seq < self._expected:
            self.late_count += 1
            return [message]
        self._held[seq] = message
        ready: list[M] = []
        while self._expected in self._held:
            ready.append(self._held.pop(self._expected))
            self._expected += 1
        if not self._held:
            self.release_at_s = inf
        elif self.release_at_s == inf:
            self.release_at_s = now + hold_s
        return ready

    def release(self) -> list[M]:
        """Everything that was held: what is missing has been waited for long enough."""
        ready = [self._held[seq] for seq in sorted(self._held)]
        if self._held:
            self._expected = max(self._held) + 1
        self._held.clear()
        self.release_at_s = inf
        return ready
