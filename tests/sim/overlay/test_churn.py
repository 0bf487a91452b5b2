"""Seeds of churn, and the world they happen in."""

from random import Random

from braidmq.overlay.settings import OverlaySettings
from braidmq.sim.overlay import checkers
from braidmq.sim.overlay.churn import ChurnTask, run_churn, task_of
from braidmq.sim.overlay.world import OverlayWorld
from braidmq.sim.world.clock import Clock
from braidmq.sim.world.network import Conditions, Network


def test_nobody_misses_a_publication_or_gets_one_twice() -> None:
    """A few seeds of `python -m braidmq.sim.overlay.hunt`, with loss, parted, and two that failed once."""
    for seed in (0, 2, 7, 9, 26, 287, 459):
        result = run_churn(task_of(seed))
        assert result.wrong == (), f"python -m braidmq.sim.overlay.hunt --first {seed} --seeds 1"
        assert result.expected >= 50
        assert (result.missed, result.repeated) == (0, 0)


def test_the_same_task_gives_the_same_result() -> None:
    task = ChurnTask(5, seconds=6.0, loss=0.05)
    assert run_churn(task) == run_churn(task)


def test_checkers_see_what_is_wrong() -> None:
    world = OverlayWorld(1, OverlaySettings(), Conditions())
    for name in ("a", "b", "c"):
        world.start(name, [] if name == "a" else ["a"])
        world.subscribe(name, "t")
        world.run_for(1.0)
    world.advertise("a", "t")
    world.run_for(3.0)
    publication = world.publish("a", "t")
    world.run_for(3.0)
    found = (checkers.list_is_sorted, checkers.delivered_exactly_once, checkers.presence_is_known)
    assert [checker(world) for checker in found] == [[], [], []]
    publication.hops.pop(("b", 1))
    publication.hops["c", 1].append(2)
    assert len(checkers.delivered_exactly_once(world)) == 2
    (node, _) = world.overlays["a"].virtual_nodes
    node.table.keys.reverse()
    assert len(checkers.tables_within_bounds(world)) == 1
    node.table.keys.reverse()
    node.table.remove(node.table.keys[-1])
    assert checkers.list_is_sorted(world)
    world._wanted.clear()
    assert len(checkers.presence_is_known(world)) == 1


def test_the_clock_goes_by_time_and_then_by_order() -> None:
    clock, seen = Clock(), []
    for time_s, name in ((2.0, "c"), (1.0, "a"), (1.0, "b"), (5.0, "d")):
        clock.at(time_s, seen.append, name)
    clock.run_until(3.0)
    assert (seen, clock.now, clock.next_at_s) == (["a", "b", "c"], 3.0, 5.0)


def test_the_network_delays_loses_parts_and_forgets_the_dead() -> None:
    clock = Clock()
    network = Network(clock, Random(1), Conditions((0.1, 0.2), loss=0.5))
    seen: list[int] = []
    for name in "ab":
        network.start(name)
    for number in range(100):
        network.send("a", "b", seen.append, number)
    clock.run_until(1.0)
    assert 30 < len(seen) < 70
    assert seen != sorted(seen)
    network.conditions = Conditions((0.1, 0.1))
    network.part(["a"])
    network.send("a", "b", seen.append, -1)
    clock.run_until(2.0)
    network.heal()
    network.send("a", "b", seen.append, -2)
    network.stop("b")
    network.start("b")
    clock.run_until(3.0)
    assert min(seen) >= 0
    assert network.counters["parted"] == network.counters["receiver down"] == 1
