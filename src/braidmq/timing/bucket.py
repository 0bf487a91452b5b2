"""A token bucket: how often something may happen. It knows no clock."""


class Bucket:
    """Fills at `rate_per_s`, and holds what flows in within one second."""

    __slots__ = ("_at_s", "_level", "_rate_per_s")

    def __init__(self, rate_per_s: int, now: float) -> None:
        self._rate_per_s = rate_per_s
        self._level = float(rate_per_s)
        self._at_s = now

    def _fill(self, now: float) -> None:
        self._level = min(self._level + (now - self._at_s) * self._rate_per_s, self._rate_per_s)
        self._at_s = now

    def spend(self, amount: int, now: float) -> float:
        """Take `amount` out, also what isn't in it; how many seconds it takes to pay the debt back."""
        self._fill(now)
        self._level -= amount
        return max(0.0, -self._level / self._rate_per_s)

    def take_one(self, now: float) -> bool:
        """Take one out if it is there."""
        self._fill(now)
        if self._level < 1:
            return False
        self._level -= 1
        return True
