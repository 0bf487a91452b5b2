"""What the operator is told, but not again and again: the same thing about the same peer once a minute."""

from collections import deque
from collections.abc import Hashable, Iterator
from typing import Final

from braidmq.cluster.effects import Level, Tell

AGAIN_S: Final = 60.0
FAULTS_MAX: Final = 5
_TOLD_MAX: Final = 1024


class Telling:
    def __init__(self) -> None:
        self._told_s: dict[Hashable, float] = {}  # the oldest first

    def tell(self, key: Hashable, level: Level, sentence: str, now: float) -> Iterator[Tell]:
        if now - self._told_s.get(key, -AGAIN_S) < AGAIN_S:
            return
        self._told_s.pop(key, None)
        self._told_s[key] = now
        if len(self._told_s) > _TOLD_MAX:
            del self._told_s[next(iter(self._told_s))]
        yield Tell(level, sentence)


class Faults:
    """Who breaks the rules of a link five times within a minute gets a minute's rest."""

    def __init__(self) -> None:
        self._faults_s: dict[int, deque[float]] = {}
        self._rests_until_s: dict[int, float] = {}

    def note(self, node: int, now: float) -> None:
        times = self._faults_s.setdefault(node, deque(maxlen=FAULTS_MAX))
        times.append(now)
        if len(self._faults_s) > _TOLD_MAX:
            self.forget(next(iter(self._faults_s)))
        if len(times) == FAULTS_MAX and now - times[0] < AGAIN_S:
            self._rests_until_s[node] = now + AGAIN_S
            times.clear()

    def rests_until_s(self, node: int) -> float:
        return self._rests_until_s.get(node, 0.0)

    def forget(self, node: int) -> None:
        self._faults_s.pop(node, None)
        self._rests_until_s.pop(node, None)
