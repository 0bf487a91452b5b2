"""Whatever happens to links and nodes: five seconds after the last fault everybody sees the same cluster.

`python -m tests.cluster.test_seeds 1000` runs more seeds than the suite does.
"""

import sys
from collections.abc import Callable
from random import Random

import pytest

from braidmq.cluster import events as ev
from tests.cluster.world import Node, World

SEEDS = 200
FAULTS_S = 12.0
AGREED_S = 5.0


class Trouble:
    """Faults by a seed. The last thing that happens is that every partition heals."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = Random(seed)
        self.ends_at_s = 0.0  # of the last standstill
        self.world = World(seed, delay_s=(0.001, rng.choice((0.005, 0.05, 0.2))))
        names = [f"n{index}" for index in range(rng.randint(2, 6))]
        self.world.seeds = tuple(f"{name}:7000" for name in names[: rng.randint(1, 2)])
        for name in names:
            self.world.add(name, keeps=rng.random() < 0.7, skew_s=rng.uniform(-25, 25))

    @property
    def faults(self) -> tuple[Callable[[], None], ...]:
        starts = (self.start, self.start)
        return (
            self.cut,
            self.kill,
            *starts,
            self.part,
            self.one_way,
            self.freeze,
            self.leave,
            self.world.heal,
        )

    def run(self) -> None:
        world, rng = self.world, self.rng
        for node in world.nodes.values():
            world.clock.at(rng.uniform(0, 1.5), node.start)
        world.run(2.0)
        for _ in range(rng.randint(1, 12)):
            rng.choice(self.faults)()
            world.run(rng.uniform(0, FAULTS_S / 8))
        seeds = [world.nodes[address.split(":")[0]] for address in world.seeds]
        if not any(node.is_up for node in seeds):
            seeds[0].start()  # who knows nobody else can't find anybody without
        world.run(max(0.0, self.ends_at_s - world.clock.now))
        world.heal()

    def cut(self) -> None:
        ends = [end for node in self.world.nodes.values() for end in node.ends.values()]
        if ends:
            self.world.cut(self.rng.choice(ends))

    def kill(self) -> None:
        up = [node for node in self.world.nodes.values() if node.is_up]
        if up:
            self.rng.choice(up).stop(is_sudden=self.rng.random() < 0.5)

    def freeze(self) -> None:
        up = [node for node in self.world.nodes.values() if node.is_up]
        if up:
            seconds = self.rng.uniform(0.1, 6.0)
            self.rng.choice(up).freeze(seconds)
            self.ends_at_s = max(self.ends_at_s, self.world.clock.now + seconds)

    def leave(self) -> None:
        up = [node for node in self.world.nodes.values() if node.is_up]
        if len(up) > 1:
            node = self.rng.choice(up)
            node.tell(ev.Leave())
            node.stop(is_sudden=False)

    def start(self) -> None:
        down = [node for node in self.world.nodes.values() if not node.is_up]
        if down:
            self.rng.choice(down).start()

    def part(self) -> None:
        side = {name for name in self.world.nodes if self.rng.random() < 0.5}
        for one in side:
            for other in self.world.nodes.keys() - side:
                self.world.block(one, other)
                self.world.block(other, one)

    def one_way(self) -> None:
        one, other = self.rng.sample(list(self.world.nodes), 2)
        self.world.block(one, other)


def disagreements(world: World) -> list[str]:
    up = [node for node in world.nodes.values() if node.is_up]
    return [fault for node in up for fault in _wrong_at(node, up)]


def _wrong_at(node: Node, up: list[Node]) -> list[str]:
    members = node.cluster.members
    others = {other.id: other for other in up if other is not node}
    wrong = [f"{node.name} has {member.name} as {member.state}" for member in members
             if (member.state == "live") != (member.node in others) and member.state != "dead"]  # fmt: skip
    wrong += [f"{node.name} misses {others[id_].name}" for id_ in others if not members.is_linked(id_)]
    for id_, other in others.items():
        link, back = members.link_of(id_), other.cluster.members.link_of(node.id)
        end = node.ends.get(link) if link is not None else None
        if end is None or end.other is None or end.other.number != back:
            wrong.append(f"{node.name} and {other.name} use different links")
    if len(node.ends) != len(others):
        wrong.append(f"{node.name} has {len(node.ends)} connections to {len(others)} peers")
    return wrong


def run_seed(seed: int) -> list[str]:
    trouble = Trouble(seed)
    trouble.run()
    trouble.world.run(AGREED_S)
    return disagreements(trouble.world)


@pytest.mark.parametrize("first", range(0, SEEDS, 50))
def test_views_agree_five_seconds_after_the_last_fault(first: int) -> None:
    assert {seed: wrong for seed in range(first, first + 50) if (wrong := run_seed(seed))} == {}


def test_a_disagreement_is_seen() -> None:
    """The judge, judged: a node that nobody can reach is missed."""
    world = Trouble(3).world
    for node in world.nodes.values():
        node.start()
    world.run(AGREED_S)
    assert disagreements(world) == []
    world.block("n0", "n1")
    world.run(AGREED_S)
    assert disagreements(world) != []


if __name__ == "__main__":
    for number in range(int(sys.argv[1])):
        if found := run_seed(number):
            print(number, *found, sep="\n  ")
