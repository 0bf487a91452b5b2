"""When to ping, and when silence means that the server is gone.

A PINGREQ goes out when nothing was *sent* for the interval, as MQTT demands [MQTT-3.1.2-20], and also when
nothing was *received* for as long: a publisher of QoS 0 would otherwise never notice a dead peer.
"""

# Pinging a little before the interval ends keeps a slow timer or network from breaking the promise.
SAFETY = 0.9


class KeepAlive:
    def __init__(self, interval_s: float, answer_timeout_s: float, now: float) -> None:
        self.interval_s = interval_s
        self._interval_s = interval_s * SAFETY
        self._answer_timeout_s = answer_timeout_s
        self._sent_at = now
        self._received_at = now
        self._pinged_at: float | None = None

    def sent(self, now: float) -> None:
        self._sent_at = now

    def received(self, now: float) -> None:
        self._received_at = now

    def answered(self) -> None:
        self._pinged_at = None

    def pinged(self, now: float) -> None:
        if self._pinged_at is None:
            self._pinged_at = now

    def ping_due(self, now: float) -> bool:
        return self._interval_s > 0 and now >= self._ping_at()

    def answer_overdue(self, now: float) -> bool:
        return self._pinged_at is not None and now >= self._answer_until(self._pinged_at)

    def deadline(self, *, reading: bool) -> float | None:
        """When `ping_due` changes next, or `answer_overdue` for who reads; None: never."""
        if self._interval_s <= 0:
            return None
        if self._pinged_at is None or not reading:
            return self._ping_at()
        return min(self._ping_at(), self._answer_until(self._pinged_at))

    def _answer_until(self, pinged_at: float) -> float:
        """Whatever comes shows that the server lives, even if its PINGRESP is far behind in the stream."""
        return max(pinged_at, self._received_at) + self._answer_timeout_s

    def _ping_at(self) -> float:
        if self._pinged_at is None:
            return min(self._sent_at, self._received_at) + self._interval_s
        # One ping is already on its way; another only shows the server that we live.
        return self._sent_at + self._interval_s
