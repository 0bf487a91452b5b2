"""Things that are to happen later, in order of time. Cost: see `Deadlines`.

Timers that are moved often (keep alive) are not cancelled and set again: they fire, look at what has happened
since, and are set anew for what is left.
"""

from collections.abc import Callable

from braidmq.timing.deadlines import Deadlines


class Timer:
    """One thing that is to happen; `cancel` makes it not happen."""

    __slots__ = ("_deadlines", "action", "at_s")

    def __init__(self, at_s: float, action: Callable[[], None], deadlines: "Deadlines[Timer]") -> None:
        self.at_s = at_s
        self.action: Callable[[], None] | None = action
        self._deadlines = deadlines

    def cancel(self) -> None:
        if self.action is not None:
            self.action = None
            self._deadlines.gave_up()


def _is_set(timer: Timer) -> bool:
    return timer.action is not None


class Timers:
    """Timers, driven from outside by `run_due`."""

    def __init__(self) -> None:
        self._deadlines: Deadlines[Timer] = Deadlines(_is_set)

    def __len__(self) -> int:
        """How many are held, the cancelled ones included."""
        return len(self._deadlines)

    def set(self, at_s: float, action: Callable[[], None]) -> Timer:
        timer = Timer(at_s, action, self._deadlines)
        self._deadlines.add(at_s, timer)
        return timer

    def run_due(self, now: float) -> None:
        """Let happen whatever is due by `now`."""
        while (timer := self._deadlines.take_due(now)) is not None:
            action, timer.action = timer.action, None
            assert action is not None
            action()

    @property
    def next_at_s(self) -> float:
        """When `run_due` should be called next; infinity if nothing is set."""
        return self._deadlines.next_at_s
