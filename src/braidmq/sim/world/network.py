"""A network between brokers that delays, loses, reorders and parts, as told and by its seed."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random

from braidmq.sim.world.clock import Clock


@dataclass(frozen=True, slots=True)
class Conditions:
    """Messages overtake each other where delays differ."""

    delay_s: tuple[float, float] = (0.01, 0.01)  # least and most
    loss: float = 0.0  # share of messages


class Network:
    """Names are of brokers. A message that is under way when its receiver goes down is lost."""

    def __init__(self, clock: Clock, rng: Random, conditions: Conditions) -> None:
        self.conditions = conditions
        self.counters: Counter[str] = Counter()
        self._clock = clock
        self._rng = rng
        self._lives: dict[str, int] = {}  # odd while it is up
        self._side: dict[str, int] = {}  # of a partition

    def start(self, name: str) -> None:
        if not self.is_up(name):
            self._lives[name] = self._lives.get(name, 0) + 1

    def stop(self, name: str) -> None:
        if self.is_up(name):
            self._lives[name] += 1

    def is_up(self, name: str) -> bool:
        return self._lives.get(name, 0) % 2 == 1

    def life_of(self, name: str) -> int:
        """A number that changes when the broker stops or starts."""
        return self._lives.get(name, 0)

    def part(self, names: Iterable[str]) -> None:
        """From now on these and all others can't reach each other."""
        self._side = dict.fromkeys(names, 1)

    def heal(self) -> None:
        self._side = {}

    def can_reach(self, one: str, other: str) -> bool:
        return self._side.get(one, 0) == self._side.get(other, 0)

    def send(self, source: str, target: str, arrive: Callable[..., None], *arguments: object) -> None:
        """`arrive(*arguments)` happens when and if the message gets there."""
        low, high = self.conditions.delay_s
        delay_s = low if low == high else self._rng.uniform(low, high)
        if self.conditions.loss and self._rng.random() < self.conditions.loss:
            self.counters["lost"] += 1
            return
        life = self._lives.get(target, 0)
        self._clock.at(self._clock.now + delay_s, self._arrive, source, target, life, arrive, arguments)

    def _arrive(
        self, source: str, target: str, life: int, arrive: Callable[..., None], arguments: tuple[object, ...]
    ) -> None:
        if life % 2 == 0 or self._lives[target] != life:
            self.counters["receiver down"] += 1
        elif self._side and not self.can_reach(source, target):
            self.counters["parted"] += 1
        else:
            arrive(*arguments)
