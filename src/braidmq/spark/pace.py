"""When a receiver stops collecting and stores what it has: pure.

Storing costs a flush of the disk, so it should be seldom; nothing is acknowledged before, so it should be
soon. A segment is closed when it is large, or when its first message is `delay_s` old.

There is one trap. A broker may let fewer messages be unacknowledged than we allow (Mosquitto: 20), and then
it waits for us while we wait for more. It is known by its sign: waiting ends twice with the same count.
From then on that count closes a segment at once, until more than that come together. Taking chance for that
sign costs nothing but an early flush.
"""

RATE_WEIGHT_S = 60.0  # about what a rate is averaged over


class Rate:
    """How many a second, averaged over about a minute; a count that falls began anew."""

    def __init__(self) -> None:
        self._count = 0
        self._at: float | None = None
        self._rate = 0.0

    def update(self, count: int, now: float) -> float:
        if self._at is not None and now > self._at:
            passed_s = now - self._at
            grown = count - self._count if count >= self._count else count
            weight = min(1.0, passed_s / RATE_WEIGHT_S)
            self._rate += (grown / passed_s - self._rate) * weight
        self._count, self._at = count, now
        return self._rate


class Pace:
    def __init__(self, rows_max: int, bytes_max: int, delay_s: float) -> None:
        self._rows_max = rows_max
        self._bytes_max = bytes_max
        self._delay_s = delay_s
        self._waited_in_vain_at = 0
        self._window = 0  # 0: the broker has not been seen to wait for us

    def patience_s(self, rows: int, size_bytes: int, waited_s: float) -> float:
        """How long to wait for more messages; 0: store now."""
        if rows >= self._rows_max or size_bytes >= self._bytes_max:
            return 0.0
        if rows > self._window:
            self._window = 0
        if self._window and rows == self._window:
            return 0.0
        return max(0.0, self._delay_s - waited_s)

    def stored(self, rows: int, waited_s: float) -> None:
        """A segment was closed with so many messages."""
        if waited_s < self._delay_s:
            return
        if rows == self._waited_in_vain_at:
            self._window = rows
        self._waited_in_vain_at = rows
