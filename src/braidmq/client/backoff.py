"""How long to wait before the next attempt to connect: longer each time, and never in step with others."""

from collections.abc import Callable

STABLE_S = 10.0  # a connection that lasted this long was a good one; the next loss starts anew


class Backoff:
    def __init__(self, min_s: float, max_s: float, random: Callable[[], float]) -> None:
        self._min_s = min_s
        self._max_s = max_s
        self._random = random
        self._failures = 0

    def delay_s(self) -> float:
        """The next wait: between half and all of a bound that doubles."""
        # 2**64 times any sensible minimum is beyond any maximum, and keeps the power finite.
        bound_s = min(self._max_s, self._min_s * 2.0 ** min(self._failures, 64))
        self._failures += 1
        return bound_s * (0.5 + 0.5 * self._random())

    def connection_lasted(self, lasted_s: float) -> None:
        if lasted_s >= STABLE_S:
            self._failures = 0
