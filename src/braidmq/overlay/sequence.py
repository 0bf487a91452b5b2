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
        self._held: dict[int, tuple[M, float]] = {}  # until when
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
        """What can be delivered now that this one is here; it may have to wait until `release_at_s`."""
        if not hold_s:
            return [message]
        if self._expected == 0 and seq == 1:
            self._expected = 1
        if self._expected and seq < self._expected:
            self.late_count += 1
            return [message]
        self._held[seq] = (message, now + hold_s)
        return self._ready()

    def release(self, now: float) -> list[M]:
        """What has waited long enough for earlier ones, and all that is held before it."""
        overdue = max((seq for seq, (_, until_s) in self._held.items() if until_s <= now), default=0)
        ready = [self._held.pop(seq)[0] for seq in sorted(self._held) if seq <= overdue]
        self._expected = max(self._expected, overdue + 1)
        return ready + self._ready()

    def _ready(self) -> list[M]:
        ready: list[M] = []
        while self._expected in self._held:
            ready.append(self._held.pop(self._expected)[0])
            self._expected += 1
        self.release_at_s = min((until_s for _, until_s in self._held.values()), default=inf)
        return ready
