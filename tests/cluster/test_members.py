"""Members: who is linked, suspect, unreachable, dead, draining, gone."""

from braidmq.cluster import effects as do
from braidmq.cluster import events as ev
from tests.cluster.world import World, cluster_of


def test_three_nodes_find_each_other_from_one_seed() -> None:
    world = cluster_of(3)
    world.run(2.0)
    for node in world.nodes.values():
        assert set(node.states().values()) == {"live"}
        assert len(node.states()) == 2
        assert len(node.ends) == 2  # one connection a pair


def test_a_killed_node_is_dead_within_four_seconds_and_back_within_one() -> None:
    world = cluster_of(3)
    world.run(2.0)
    world.nodes["n2"].stop(is_sudden=True)
    world.run(2.5)
    assert world.nodes["n0"].states() == {"n1": "live", "n2": "suspect"}
    world.run(1.5)
    assert world.nodes["n0"].states() == {"n1": "live", "n2": "dead"}
    assert any(isinstance(effect, do.Died) for effect in world.nodes["n0"].effects)
    world.run(20.0)
    world.nodes["n2"].start()
    world.run(1.0)
    assert world.nodes["n0"].states() == {"n1": "live", "n2": "live"}
    linked = [effect for effect in world.nodes["n0"].effects if isinstance(effect, do.Linked)][-1]
    assert (linked.is_new_boot, linked.was_absent) == (True, True)


def test_a_node_that_keeps_nothing_is_forgotten_when_it_is_dead() -> None:
    world = cluster_of(2, keeps=False)
    world.run(2.0)
    world.nodes["n1"].stop(is_sudden=False)
    world.run(4.0)
    assert world.nodes["n0"].states() == {}
    kinds = [
        type(effect) for effect in world.nodes["n0"].effects if isinstance(effect, do.Died | do.Forgotten)
    ]
    assert kinds == [do.Died, do.Forgotten]


def test_a_peer_that_others_hear_is_unreachable_not_dead() -> None:
    world = cluster_of(3)
    world.run(2.0)
    world.block("n0", "n2")
    world.block("n2", "n0")
    world.run(10.0)
    assert world.nodes["n0"].states() == {"n1": "live", "n2": "unreachable"}
    world.nodes["n1"].stop(is_sudden=True)
    world.run(5.0)
    assert world.nodes["n0"].states() == {"n1": "dead", "n2": "dead"}


def test_a_node_that_stood_still_does_not_take_others_for_dead() -> None:
    world = cluster_of(3)
    world.run(2.0)
    sleeper = world.nodes["n0"]
    world.clock.now += 30.0  # nobody does anything for half a minute
    sleeper.tell(ev.TimeCame())
    assert set(sleeper.states().values()) == {"live"}


def test_a_joiner_is_told_whom_to_dial() -> None:
    world = World()
    world.seeds = ("n0:7000",)
    for name in ("n0", "n1", "n2"):
        world.add(name).start()
        world.run(1.0)
    assert world.nodes["n2"].states() == {"n0": "live", "n1": "live"}
    assert [type(effect) for effect in world.nodes["n2"].effects if isinstance(effect, do.Met)] == [
        do.Met
    ] * 2
