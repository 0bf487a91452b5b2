"""Who is judged next, when more clients want to come in than can be judged at once.

Networks take turns, and within a network the user names, so that nobody's guesses keep others out. Of one
name the newest comes first, and a new name before the old ones: when more come than can be judged, those who
wait longest have given up, and whoever floods must not make an honest client wait for the end of the flood. A
network that rests, because too many of its logins have failed, has its turn when it has rested. When there is
no room for one more, the oldest of the network with most waiting goes.

Invariant: every network with somebody waiting is once in the rota or once among those that rest. Cost: a step
for each network that is looked at, which is once a turn and once a rest; one for each that waits, when full.
"""

from collections import deque
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from math import inf
from typing import Generic, TypeVar

T = TypeVar("T")


class _Line(Generic[T]):
    """Those of one network."""

    def __init__(self) -> None:
        self.count = 0
        self._names: deque[str] = deque()
        self._by_name: dict[str, deque[T]] = {}

    def add(self, name: str, item: T) -> None:
        if name not in self._by_name:
            self._by_name[name] = deque()
            self._names.appendleft(name)
        self._by_name[name].append(item)
        self.count += 1

    def take(self) -> T:
        """The newest of the name whose turn it is."""
        name = self._names.popleft()
        item = self._by_name[name].pop()
        if self._by_name[name]:
            self._names.append(name)
        else:
            del self._by_name[name]
        self.count -= 1
        return item

    def push_out(self) -> T:
        """The oldest of the name of which most are waiting."""
        name = max(self._by_name, key=lambda name: len(self._by_name[name]))
        item = self._by_name[name].popleft()
        if not self._by_name[name]:
            del self._by_name[name]
            self._names.remove(name)
        self.count -= 1
        return item


class FairQueue(Generic[T]):
    """`rests_until(network, now)` says until when a network rests; not later than now: it doesn't."""

    def __init__(self, waiting_max: int, rests_until: Callable[[str, float], float]) -> None:
        self._waiting_max = waiting_max
        self._rests_until = rests_until
        self._lines: dict[str, _Line[T]] = {}
        self._rota: deque[str] = deque()
        self._resting: list[tuple[float, str]] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def next_at_s(self) -> float:
        """When the first network that rests has rested; infinite if none does."""
        return self._resting[0][0] if self._resting else inf

    def add(self, network: str, name: str, item: T) -> T | None:
        """Who has to go for it, if there is no room for all."""
        if network not in self._lines:
            self._lines[network] = _Line()
            self._rota.append(network)
        self._lines[network].add(name, item)
        self._count += 1
        return None if self._count <= self._waiting_max else self._push_out()

    def _push_out(self) -> T:
        network = max(self._lines, key=lambda network: self._lines[network].count)
        line = self._lines[network]
        self._count -= 1
        item = line.push_out()
        if not line.count:
            self._forget(network)
        return item

    def _forget(self, network: str) -> None:
        """Nobody of it waits any more."""
        del self._lines[network]
        if network in self._rota:
            self._rota.remove(network)
        else:
            self._resting = [entry for entry in self._resting if entry[1] != network]
            heapify(self._resting)

    def take(self, now: float) -> T | None:
        """Whose turn it is; None if nobody waits, or all who wait are of networks that rest."""
        while self.next_at_s <= now:
            self._rota.append(heappop(self._resting)[1])
        while self._rota:
            network = self._rota.popleft()
            until_s = self._rests_until(network, now)
            if until_s > now:
                heappush(self._resting, (until_s, network))
                continue
            line = self._lines[network]
            self._count -= 1
            item = line.take()
            if line.count:
                self._rota.append(network)
            else:
                del self._lines[network]
            return item
        return None
