"""Moves under load, with faults by seed: nothing acknowledged is lost, nothing doubled, every node's order
kept.

The checker knows nothing of how sessions move. That it sees what it should is shown by mutations: moves that
leave out one step each, and are caught.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from braidmq.cluster.clock import HybridClock
from braidmq.cluster.effects import Enter
from braidmq.cluster.move_messages import CUT, CutRequest, Install
from braidmq.cluster.moving import Moves
from braidmq.clustered.sessions import Sessions
from tests.clustered.ensemble import FAILURE_S, WALL_OFFSET_S, Client, Ensemble, Entry, Node

NODES = 5
ROUNDS = 4
SEEDS = 12


@dataclass
class Run:
    """What was published, and what a client that moves about has got in the end."""

    ensemble: Ensemble
    published: int = 0
    acknowledged: set[bytes] = field(default_factory=set)
    got: list[bytes] = field(default_factory=list)
    is_fresh: bool = False  # the home was dead, and the client got another session
    is_busy: bool = True
    is_moving: bool = True

    def publish(self) -> None:
        """Somebody publishes, now and then."""
        rng = self.ensemble.rng
        node = rng.choice(self.ensemble.nodes)
        if node.is_up:
            self.published += 1
            payload = b"%d %d" % (node.id, self.published)
            node.publish("t", payload, lambda: self.acknowledged.add(payload))
        if self.is_busy:
            self.ensemble.at(rng.uniform(0, 0.02 if self.is_moving else 0.5), self.publish)

    def check(self) -> list[str]:
        """What is wrong."""
        wrong = []
        if lost := self.acknowledged - set(self.got):
            wrong.append(f"lost {sorted(lost)[:5]}, {len(lost)} in all")
        if doubled := [one for one in set(self.got) if self.got.count(one) > 1]:
            wrong.append(f"doubled {sorted(doubled)[:5]}, {len(doubled)} in all")
        for node in range(1, NODES + 1):
            numbers = [int(one.split()[1]) for one in self.got if one.startswith(b"%d " % node)]
            if numbers != sorted(numbers):
                wrong.append(f"out of order from {node}: {numbers}")
        return wrong


Fault = Callable[[Ensemble, int, int], None]  # of a run, while a session moves from a node to another


def nothing(ensemble: Ensemble, old: int, new: int) -> None:
    pass


def crash(lasts_s: tuple[float, float]) -> Fault:
    """Some node crashes at some moment of the move, and is back later."""

    def fault(ensemble: Ensemble, old: int, new: int) -> None:
        rng = ensemble.rng
        victim = ensemble.nodes[rng.choice((old, old, new, new, *range(1, NODES + 1))) - 1]
        ensemble.at(rng.uniform(0, 0.3), victim.crash)
        ensemble.at(rng.uniform(*lasts_s), lambda: back(ensemble, victim))

    return fault


def back(ensemble: Ensemble, node: Node) -> None:
    if not node.is_up:
        node.start()
        ensemble.link_all()


def cut(ensemble: Ensemble, old: int, new: int) -> None:
    """A link breaks at some moment of the move, and is there again before anybody is counted dead."""
    rng = ensemble.rng
    one, other = rng.sample(range(1, NODES + 1), 2)
    if old != new and rng.random() < 0.5:
        one, other = old, new
    ensemble.at(rng.uniform(0, 0.3), lambda: ensemble.cut(one, other))
    ensemble.at(rng.uniform(0.31, 2.5), lambda: ensemble.link(one, other))


def flicker(ensemble: Ensemble, old: int, new: int) -> None:
    """The links of both homes with others break and are there again at once, again and again."""
    rng = ensemble.rng
    others = [node for node in range(1, NODES + 1) if node not in (old, new)]
    for _ in range(16):
        one, other = rng.choice((old, new)), rng.choice(others)
        at_s = rng.uniform(0.05, 0.25)
        ensemble.at(at_s, lambda one=one, other=other: ensemble.cut(one, other))
        ensemble.at(at_s + 0.02, lambda one=one, other=other: ensemble.link(one, other))


def late(ensemble: Ensemble, old: int, new: int) -> None:
    """A third node isn't linked with the new home while the session moves there."""
    third = ensemble.rng.choice([node for node in range(1, NODES + 1) if node not in (old, new)])
    ensemble.cut(third, new)
    ensemble.run(FAILURE_S + 0.1)  # from then on nobody waits for it
    ensemble.at(ensemble.rng.uniform(1.5, 3.0), lambda: ensemble.link(third, new))


def play(seed: int, fault: Fault, **made: Any) -> Run:
    ensemble = Ensemble(NODES, seed, **made)
    run = Run(ensemble)
    client = ensemble.connect(1, "c")
    ensemble.run(0.5)
    client.subscribe("t")
    ensemble.run(0.5)
    run.publish()
    for _ in range(ROUNDS):
        home, new = ensemble.homes("c")[0], ensemble.rng.randrange(NODES) + 1
        fault(ensemble, home, new)
        if ensemble.nodes[new - 1].is_up:
            client.vanish() if ensemble.rng.random() < 0.5 else None
            client = ensemble.connect(new, "c")
        run.is_moving = True
        ensemble.run(1.5)
        run.is_moving = False
        ensemble.run(6)
        answer = client.connack if ensemble.nodes[new - 1].is_up else None
        if answer is not None and answer.reason == 0 and not answer.session_present:
            run.is_fresh = True
            return run
    run.is_busy = False
    ensemble.run(30)
    run.got = received(ensemble, client)
    return run


def received(ensemble: Ensemble, client: Client) -> list[bytes]:
    """All that the session has, for a client that comes for good."""
    client.vanish()
    for _ in range(5):
        client = ensemble.connect(ensemble.rng.randrange(NODES) + 1, "c")
        ensemble.run(12)
        if not client.is_closed:
            break
    assert len(ensemble.homes("c")) == 1
    return client.receive_all()


FAULTS: dict[str, Fault] = {
    "nothing": nothing,
    "short crash": crash((0.4, 2.5)),
    "long crash": crash((4.0, 6.0)),
    "cut": cut,
    "flicker": flicker,
    "late": late,
}


@pytest.mark.parametrize("name", FAULTS)
def test_nothing_is_lost_doubled_or_out_of_order(name: str) -> None:
    fresh = 0
    for seed in range(SEEDS):
        run = play(seed, FAULTS[name])
        fresh += run.is_fresh
        assert run.is_fresh or run.check() == [], (name, seed)
    assert fresh == 0 or (name == "long crash" and fresh < SEEDS / 2)


class CutsInTwoTurns(Moves):
    """The cut for the old home is put in its stream some time after the other."""

    def __init__(self, node: Node) -> None:
        super().__init__(node.table, node.sessions)
        self._node = node

    def received(self, peer: int, control: Any, now: float) -> list[Any]:
        effects = super().received(peer, control, now)
        if isinstance(control, CutRequest) and len(effects) == 2 and isinstance(effects[0], Enter):
            first = effects.pop(0)
            self._node.soon(lambda: self._node.enter(first), 0.05)
        return effects


class WithoutTail(Sessions):
    """What comes before a late cut is not sent on, and nobody waits for it."""

    def _send_on(self, *late: Any) -> None:
        pass

    def _install(self, effect: Install) -> None:
        everybody = tuple(range(1, NODES + 1))
        super()._install(Install(effect.move, effect.old, effect.state, everybody))


def caught(fault: Fault, **made: Any) -> int:
    runs = [play(seed, fault, **made) for seed in range(SEEDS)]
    return sum(bool(run.check()) for run in runs if not run.is_fresh)


def test_cuts_in_different_turns_are_caught() -> None:
    assert caught(nothing, make_moves=CutsInTwoTurns) > SEEDS / 2


def test_a_move_without_the_tail_is_caught() -> None:
    made = {"make_sessions": lambda node: WithoutTail(node.broker, node.id, HybridClock(WALL_OFFSET_S))}
    assert caught(late, **made) > SEEDS / 2


def test_cuts_that_are_not_kept_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    enter = Node.enter

    def forgetful(node: Node, effect: Enter) -> None:
        if effect.kind != CUT:
            enter(node, effect)
            return
        node.sequences[effect.peer] += 1
        entry = Entry(node.sequences[effect.peer], effect.kind, effect.head, None)
        node.changes.append(lambda: node.ensemble.send(node, effect.peer, entry))

    monkeypatch.setattr(Node, "enter", forgetful)
    assert caught(flicker) > SEEDS / 4
