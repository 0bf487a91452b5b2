"""A hybrid clock: times that grow with every event of the cluster, and stay close to the wall clock.

A time is 48 bits of milliseconds and 16 bits that count events within one. It is the largest of the wall
clock, of all times given out and of all times seen from others, so what was caused by another event is later
than it, however the nodes' wall clocks differ.
"""

from typing import Final

SKEW_MAX_S: Final = 60.0  # a time that is further ahead is refused: it would drag all clocks with it
_COUNTER_BITS: Final = 16


def milliseconds(hlc: int) -> int:
    """The part of a hybrid time that is a wall clock's."""
    return hlc >> _COUNTER_BITS


class HybridClock:
    def __init__(self, wall_offset_s: float) -> None:
        """`wall_offset_s` is what to add to `now` for seconds since 1970; it may be set again at any time."""
        self.wall_offset_s = wall_offset_s
        self._last = 0

    def wall_ms(self, now: float) -> int:
        return max(0, int((now + self.wall_offset_s) * 1000))

    def tick(self, now: float) -> int:
        """A new time, larger than all that were given out or seen."""
        self._last = max(self._last + 1, self.wall_ms(now) << _COUNTER_BITS)
        return self._last

    def seen(self, hlc: int, now: float) -> bool:
        """Another node has said this time. False, and nothing happens, if it is too far ahead."""
        if milliseconds(hlc) > self.wall_ms(now) + SKEW_MAX_S * 1000:
            return False
        self._last = max(self._last, hlc)
        return True
