"""What the application has taken and not finished, and how long it works on a message. Pure.

Work is the time during which anything is in hand. A message gets what has passed since the one before it
was finished, or since the first was taken. So a single worker's time is its time, a batch's time is shared
by its messages, and four workers side by side look four times as fast as one: it is the pace that the
broker needs to know. Invariant: the work of all messages together is the time that was spent working.
"""


class Workbench:
    def __init__(self) -> None:
        self.messages = 0  # in hand
        self._deliveries = 0  # how many are worked on at once: each batch is one
        self._busy_since = 0.0

    @property
    def waiting(self) -> int:
        """In hand, behind one that is worked on."""
        return self.messages - self._deliveries

    def take(self, messages: int, now: float) -> None:
        """One delivery of so many messages."""
        if not messages:
            return
        if not self.messages:
            self._busy_since = now
        self.messages += messages
        self._deliveries += 1

    def finish(self, messages: int, now: float, *, whole_delivery: bool) -> tuple[int, float]:
        """So many are done: how many of them were in hand, and the time that they took together."""
        done = min(messages, self.messages)
        if not done:
            return 0, 0.0
        work_s = now - self._busy_since
        self._busy_since = now
        self.messages -= done
        fewest = 1 if self.messages else 0
        self._deliveries = max(min(self._deliveries - whole_delivery, self.messages), fewest)
        return done, work_s
