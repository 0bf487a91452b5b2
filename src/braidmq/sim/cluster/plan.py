"""What happens in a story, drawn from its seed before it begins: who there is, what they do, what breaks."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from braidmq.limits import Limits
from braidmq.sim.cluster.clients import Manners
from braidmq.sim.cluster.machine import Habits
from braidmq.sim.cluster.network import Delays
from braidmq.sim.cluster.world import World
from braidmq.sim.runner import derive_seed
from braidmq.topics import matches, split_shared

FAULTS: Final = ("crash", "disk", "cut", "part", "oneway", "lost", "away", "skew", "slow")
FEATURES: Final = ("clean", "tight", "retained", "groups", "movers")
CLUSTER_FEATURES: Final = ("clean", "tight", "retained")  # that hold in several nodes, too

TOPICS: Final = ("a/1", "a/2", "b/1", "b/2/3")
FILTERS: Final = ("a/1", "a/+", "#", "b/#", "+/1", "a/2", "b/2/3")
# How often each comes; the loss of a disk excuses so much that it has to be rare.
TROUBLES: Final = {"crash": 8, "disk": 1, "cut": 4, "part": 2, "oneway": 2, "lost": 4, "away": 3}
MOVES: Final = 10  # as often as that
MEET_S: Final = 2.0  # nodes have found each other by then
WRONG_CLOCK_S: Final = 30.0
UNDER_WAY_S: Final = 0.05  # what was published arrives within some of these

Deed = Callable[[World], None]


@dataclass(frozen=True, slots=True)
class Task:
    """One story, all of it."""

    seed: int
    nodes: int = 3
    faults: tuple[str, ...] = FAULTS
    features: tuple[str, ...] | None = None  # None: all that such nodes have
    clients: int = 5
    messages: int = 60
    troubles: int = 8
    seconds: float = 12.0

    def repeat(self) -> str:
        """The command that tells this story again."""
        return (
            f"braidmq sim cluster --seeds 1 --first {self.seed} --nodes {self.nodes}"
            + _chosen("--faults", self.faults, FAULTS)
            + ("" if self.features is None else _chosen("--features", self.features, ()))
        )

    def has(self, feature: str) -> bool:
        known = FEATURES if self.nodes == 1 else CLUSTER_FEATURES
        return feature in (known if self.features is None else self.features)


def _chosen(flag: str, chosen: tuple[str, ...], everything: tuple[str, ...]) -> str:
    return "" if chosen == everything else f" {flag} {','.join(chosen) or 'none'}"


class Plan:
    """Deeds and when they are done."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.rng = Random(derive_seed(task.seed, "plan"))
        self.nodes = [f"n{number}" for number in range(1, task.nodes + 1)]
        self.client_names = [f"c{number}" for number in range(1, task.clients + 1)]
        self.delays = self._delays()
        self.habits = {name: self._habits() for name in self.nodes}
        self.limits = self._limits()
        self.manners = {name: self._manners() for name in self.client_names}
        self.members = self._members()  # of a shared group; they want nothing else
        self.homes = {name: self.rng.choice(self.nodes) for name in self.client_names}
        self.deeds: list[tuple[float, Deed]] = []
        self._number = 0
        self._published_at_s: list[float] = []
        self._draw_clients()
        self._draw_messages()
        self._draw_duels()
        self._draw_troubles()
        self.deeds.sort(key=lambda deed: deed[0])

    @property
    def ends_s(self) -> float:
        return MEET_S + self.task.seconds

    def _has(self, fault: str) -> bool:
        return fault in self.task.faults

    # ---- who there is --------------------------------------------------------------------------------

    def _delays(self) -> Delays:
        rng = self.rng
        return Delays(0.0002, rng.choice((0.001, 0.01, 0.06)), rng.choice((0.001, 0.03)))

    def _habits(self) -> Habits:
        rng = self.rng
        slowest_s = rng.choice((0.002, 0.05, 0.3)) if self._has("slow") else 0.001
        wrong_s = rng.uniform(0, WRONG_CLOCK_S) if self._has("skew") else 0.0
        return Habits((0.0, slowest_s), rng.choice((0.0, 0.05)), wrong_s)

    def _manners(self) -> Manners:
        rng = self.rng
        lasts = not self.task.has("clean") or rng.random() < 0.7
        patience = rng.choice(((0.0, 0.0), (0.0, 0.0), (0.0, 0.3))) if self._has("slow") else (0.0, 0.0)
        return Manners(lasts, rng.choice((1, 3, 20)), patience, moves=self.task.has("movers"))

    def _limits(self) -> Limits:
        """Now and then queues are so short that messages have to be given up."""
        is_tight = self.task.has("tight") and self.rng.random() < 0.2
        return Limits(queue_messages_max=3) if is_tight else Limits()

    def _members(self) -> dict[str, tuple[str, int]]:
        """Clients and what they subscribe to: all members of a group with one QoS, and lasting or not."""
        rng = self.rng
        if not self.task.has("groups") or rng.random() < 0.4:
            return {}
        wish = f"$share/g/{rng.choice(FILTERS)}", rng.randint(0, 2)
        names = rng.sample(self.client_names, rng.randint(1, len(self.client_names) - 1))
        lasts = self.manners[names[0]].lasts
        for name in names:
            self.manners[name] = replace(self.manners[name], lasts=lasts)
        return dict.fromkeys(names, wish)

    # ---- what they do --------------------------------------------------------------------------------

    def _any_time(self) -> float:
        return MEET_S + self.rng.uniform(0.0, self.task.seconds)

    def _draw_clients(self) -> None:
        rng = self.rng
        for name in self.client_names:
            come_s = MEET_S + rng.uniform(0.0, 1.0)
            self.deeds.append((come_s, _come(name)))
            wish = self.members.get(name)
            for _ in range(1 if wish else rng.randint(0, 3)):
                filter, qos = wish or (rng.choice(FILTERS), rng.choice((0, 1, 2, 2)))
                at_s = come_s if rng.random() < 0.5 else self._any_time()
                self.deeds.append((at_s, _subscribe(name, filter, qos)))
                if rng.random() < 0.2:
                    self.deeds.append((self._any_time(), _unsubscribe(name, filter)))

    def _draw_messages(self) -> None:
        """Some alone, some in bursts."""
        rng, left = self.rng, self.task.messages
        while left > 0:
            at_s, name = self._any_time(), rng.choice(self.client_names)
            burst = min(left, rng.choice((1, 1, 2, 8)))
            for _ in range(burst):
                self._published_at_s.append(at_s)
                retain = self.task.has("retained") and rng.random() < 0.15
                is_empty = retain and rng.random() < 0.3
                self.deeds.append(
                    (at_s, _Publishing(self, name, rng.choice(TOPICS), rng.randint(0, 2), retain, is_empty))
                )
            left -= burst

    def _draw_duels(self) -> None:
        """Two clients retain on one topic at the same time: all nodes have to side with the same one."""
        rng = self.rng
        for _ in range(rng.randint(0, 3) if self.task.has("retained") else 0):
            at_s, topic = self._any_time(), rng.choice(TOPICS)
            for name in rng.sample(self.client_names, 2):
                self.deeds.append((at_s, _Publishing(self, name, topic, rng.randint(0, 2), True, False)))

    def next_number(self) -> int:
        """Messages are numbered in the order in which they are published."""
        self._number += 1
        return self._number

    # ---- what breaks ---------------------------------------------------------------------------------

    def _draw_troubles(self) -> None:
        weights = {kind: weight for kind, weight in TROUBLES.items() if self._has(kind)}
        if self.task.has("movers") and len(self.nodes) > 1:
            weights["move"] = MOVES
        count = self.rng.randint(0, self.task.troubles) if weights else 0
        for kind in self.rng.choices(list(weights), list(weights.values()), k=count) if count else ():
            getattr(self, f"_draw_{kind}")(self._bad_time())

    def _bad_time(self) -> float:
        """While something is under way, more often than not."""
        if self.rng.random() < 0.3:
            return self._any_time()
        return self.rng.choice(self._published_at_s) + self.rng.expovariate(1 / UNDER_WAY_S)

    def _draw_crash(self, at_s: float, *, loses_disk: bool = False) -> None:
        name = self.rng.choice(self.nodes)
        down_s = self.rng.choice((0.1, 0.1, 1.0, 5.0))
        self.deeds.append((at_s, lambda world: world.crash(name, loses_disk=loses_disk)))
        self.deeds.append((at_s + down_s, lambda world: world.start(name)))

    def _draw_disk(self, at_s: float) -> None:
        self._draw_crash(at_s, loses_disk=True)

    def _draw_cut(self, at_s: float) -> None:
        if len(self.nodes) > 1:
            one, other = self.rng.sample(self.nodes, 2)
            self.deeds.append((at_s, lambda world: world.cut(one, other)))

    def _draw_part(self, at_s: float) -> None:
        apart = set(self.rng.sample(self.nodes, self.rng.randint(1, max(1, len(self.nodes) // 2))))
        ways = [(a, b) for a in self.nodes for b in self.nodes if (a in apart) != (b in apart)]
        self._block(at_s, ways)

    def _draw_oneway(self, at_s: float) -> None:
        if len(self.nodes) > 1:
            self._block(at_s, [tuple(self.rng.sample(self.nodes, 2))])  # type: ignore[list-item]

    def _block(self, at_s: float, ways: list[tuple[str, str]]) -> None:
        self.deeds.append((at_s, lambda world: world.part(ways)))
        self.deeds.append((at_s + self.rng.choice((0.5, 2.0, 6.0)), lambda world: world.mend(ways)))

    def _draw_lost(self, at_s: float) -> None:
        """A client's connection is cut."""
        name = self.rng.choice(self.client_names)
        self.deeds.append((at_s, lambda world: world.cut(name, world.clients[name].node)))

    def _draw_away(self, at_s: float) -> None:
        """A client goes, and comes back."""
        name, politely = self.rng.choice(self.client_names), self.rng.random() < 0.5
        self.deeds.append((at_s, lambda world: world.clients[name].go(politely=politely)))
        self.deeds.append((at_s + self.rng.choice((0.2, 3.0)), lambda world: world.clients[name].come()))

    def _draw_move(self, at_s: float) -> None:
        """A client comes to another node, with or without a goodbye."""
        name, node = self.rng.choice(self.client_names), self.rng.choice(self.nodes)
        if self.rng.random() < 0.5:
            self.deeds.append((at_s, lambda world: world.clients[name].go(politely=True)))
        self.deeds.append((at_s, lambda world: world.clients[name].come(node)))


def _come(name: str) -> Deed:
    return lambda world: world.clients[name].come()


def _subscribe(name: str, filter: str, qos: int) -> Deed:
    return lambda world: world.clients[name].subscribe(filter, qos)


def _unsubscribe(name: str, filter: str) -> Deed:
    return lambda world: world.clients[name].unsubscribe(filter)


@dataclass(frozen=True, slots=True)
class _Publishing:
    plan: Plan
    client: str
    topic: str
    qos: int
    retain: bool
    is_empty: bool

    def __call__(self, world: World) -> None:
        client = world.clients[self.client]
        if client.can_publish(self.qos):
            number = self.plan.next_number()
            client.publish(number, self.topic, self.qos, retain=self.retain, is_empty=self.is_empty)


class Echo:
    """Publishes elsewhere as soon as a client has its SUBACK: what is promised holds from there on."""

    def __init__(self, plan: Plan, world: World) -> None:
        self._plan = plan
        self._world = world
        self._rng = Random(derive_seed(plan.task.seed, "echo"))

    def __call__(self, subscriber: str, filter: str) -> None:
        rng, qos = self._rng, self._rng.randint(0, 2)
        topics = [topic for topic in TOPICS if matches(split_shared(filter)[1], topic)]
        others = [
            client
            for name, client in self._world.clients.items()
            if name != subscriber and client.can_publish(qos)
        ]
        if others and rng.random() < 0.7:
            rng.choice(others).publish(self._plan.next_number(), rng.choice(topics), qos)
