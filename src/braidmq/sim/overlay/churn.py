"""Brokers come, leave, crash, restart and are parted while one topic is published: the paper's future work.

A trial is a function of its task. Everything after the first quiet moment is drawn from the seed, so a
failing trial is repeated by its task alone: `python -m braidmq.sim.overlay.churn --seed N` prints what went
wrong.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

from braidmq.overlay.settings import OverlaySettings, Reading
from braidmq.sim.overlay import checkers
from braidmq.sim.overlay.world import OverlayWorld
from braidmq.sim.world.network import Conditions

TOPIC: Final = "plant/line/temperature"
SEED_BROKER: Final = "seed"  # neither crashes nor leaves, as the brokers named in a configuration
SETTLE_S: Final = 20.0
REFORM_S: Final = 30.0  # each side of a cut has found its new neighbours by then
HEAL_S: Final = 150.0  # lost neighbours are looked for every minute at last


@dataclass(frozen=True, slots=True)
class ChurnTask:
    seed: int
    brokers: int = 24
    subscribers: int = 12
    publishers: int = 2
    entries_max: int = 16
    seconds: float = 30.0
    joins_per_s: float = 0.5
    leaves_per_s: float = 0.25
    crashes_per_s: float = 0.25
    publications_per_s: float = 2.0
    loss: float = 0.0
    delay_s: tuple[float, float] = (0.005, 0.03)
    parts: bool = False
    reading: Reading = Reading.EVERYBODY


@dataclass(frozen=True, slots=True)
class ChurnResult:
    """What became of the publications, and what the overlay spent on it."""

    publications: int
    expected: int  # deliveries
    missed: int
    repeated: int
    hops_mean: float
    hops_max: int
    delay_mean_ms: float
    delay_max_ms: float
    messages: int
    delegated_again: int
    joins: int
    leaves: int
    crashes: int
    wrong: tuple[str, ...]


class Churn:
    def __init__(self, task: ChurnTask) -> None:
        self.task = task
        self.rng = Random(task.seed)
        # Near lists need four a side; a table must hold more than that.
        settings = OverlaySettings(entries_max=task.entries_max, near_count=4, reading=task.reading)
        self.world = OverlayWorld(task.seed, settings, Conditions(task.delay_s))
        self.publishers = [f"p{number}" for number in range(task.publishers)]
        self.idle = [f"b{number}" for number in range(task.brokers)]
        self.subscribed: list[str] = []
        self.down: list[str] = []
        self.happened: Counter[str] = Counter()
        self.wrong: list[str] = []

    def run(self) -> ChurnResult:
        self._begin()
        self._live()
        self._end()
        return self._result()

    def _begin(self) -> None:
        world = self.world
        world.start(SEED_BROKER, [])
        world.subscribe(SEED_BROKER, "a")
        world.run_for(0.5)
        for name in [*self.publishers, *self.idle]:
            world.start(name, [SEED_BROKER])
            world.subscribe(name, self.rng.choice("az"))
        for name in self.publishers:
            world.advertise(name, TOPIC)
        world.run_for(5.0)
        for _ in range(self.task.subscribers):
            self._join()
        world.run_for(SETTLE_S)
        self._check(checkers.list_is_sorted)

    def _live(self) -> None:
        task, world = self.task, self.world
        rates = {
            self._join: task.joins_per_s,
            self._leave: task.leaves_per_s,
            self._crash: task.crashes_per_s,
            self._restart: task.crashes_per_s,
            self._publish: task.publications_per_s,
        }
        events = self._drawn(rates)
        start_s = world.clock.now
        world.network.conditions = Conditions(task.delay_s, task.loss)
        if task.parts:
            events += [(task.seconds * 0.2, self._part), (task.seconds * 0.7, self._heal)]
        for at_s, action in sorted(events, key=lambda event: event[0]):
            world.clock.run_until(start_s + at_s)
            action()
            self._check(checkers.tables_within_bounds)

    def _drawn(self, rates: dict[Callable[[], None], float]) -> list[tuple[float, Callable[[], None]]]:
        seconds = self.task.seconds
        return [
            (self.rng.uniform(0, seconds), action)
            for action, rate in rates.items()
            for _ in range(round(rate * seconds))
        ]

    def _end(self) -> None:
        """Wait until all is quiet; then one more publication from each must reach everybody."""
        self.world.network.conditions = Conditions(self.task.delay_s)
        self.world.run_for(HEAL_S if self.task.parts else SETTLE_S + 40.0)
        for name in self.publishers:
            self.world.publish(name, TOPIC)
        self.world.run_for(SETTLE_S)
        for checker in (checkers.list_is_sorted, checkers.delivered_exactly_once, checkers.presence_is_known):
            self._check(checker)

    def _check(self, checker: Callable[[OverlayWorld], list[str]]) -> None:
        self.wrong += [f"{self.world.clock.now:.1f} s: {text}" for text in checker(self.world)]

    # -- what happens ------------------------------------------------------------------------------------

    def _join(self) -> None:
        if self.idle:
            name = self.idle.pop(self.rng.randrange(len(self.idle)))
            self.subscribed.append(name)
            self.happened["join"] += 1
            self.world.subscribe(name, TOPIC)

    def _leave(self) -> None:
        if len(self.subscribed) > 2:
            name = self.subscribed.pop(self.rng.randrange(len(self.subscribed)))
            self.idle.append(name)
            self.happened["leave"] += 1
            self.world.unsubscribe(name, TOPIC)

    def _crash(self) -> None:
        if len(self.subscribed) > 2:
            name = self.subscribed.pop(self.rng.randrange(len(self.subscribed)))
            self.down.append(name)
            self.happened["crash"] += 1
            self.world.crash(name)

    def _restart(self) -> None:
        if self.down:
            name = self.down.pop(0)
            self.world.start(name, [SEED_BROKER])
            self.world.subscribe(name, self.rng.choice("az"))
            self.idle.append(name)

    def _publish(self) -> None:
        self.world.publish(self.rng.choice(self.publishers), TOPIC)

    def _part(self) -> None:
        names = [*self.idle, *self.subscribed]
        self.world.part(self.rng.sample(names, len(names) // 3), REFORM_S)

    def _heal(self) -> None:
        self.world.heal(HEAL_S)

    def _result(self) -> ChurnResult:
        world = self.world
        publications = list(world.publications.values())
        hops = [one for publication in publications for ones in publication.hops.values() for one in ones]
        delays_s = [delay for publication in publications for delay in publication.delays_s]
        return ChurnResult(
            publications=len(publications),
            expected=sum(len(publication.expected) for publication in publications),
            missed=sum(len(publication.expected - publication.hops.keys()) for publication in publications),
            repeated=sum(len(ones) - 1 for publication in publications for ones in publication.hops.values()),
            hops_mean=sum(hops) / max(1, len(hops)),
            hops_max=max(hops, default=0),
            delay_mean_ms=1000 * sum(delays_s) / max(1, len(delays_s)),
            delay_max_ms=1000 * max(delays_s, default=0),
            messages=sum(world.messages.values()),
            delegated_again=sum(
                overlay.counters.get("delegated again", 0) for overlay in world.overlays.values()
            ),
            joins=self.happened["join"],
            leaves=self.happened["leave"],
            crashes=self.happened["crash"],
            wrong=tuple(self.wrong),
        )


def run_churn(task: ChurnTask) -> ChurnResult:
    return Churn(task).run()


def task_of(seed: int) -> ChurnTask:
    """Everything by the seed: every third network loses messages, every eighth is parted."""
    parts = seed % 8 == 7
    return ChurnTask(
        seed,
        subscribers=6 + seed % 13,
        publishers=1 + seed % 3,
        entries_max=(12, 16, 24)[seed % 3],
        seconds=100.0 if parts else 30.0,
        loss=0.02 if seed % 3 == 2 else 0.0,
        parts=parts,
        reading=(Reading.EVERYBODY, Reading.PUBLISHERS, Reading.EVERYBODY, Reading.NOBODY)[seed // 8 % 4],
    )
