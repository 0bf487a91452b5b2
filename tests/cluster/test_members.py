"""Members: who is linked, suspect, unreachable, dead, draining, gone."""

from braidmq.cluster import effects as do
from braidmq.cluster import events as ev
from braidmq.cluster import frames
from braidmq.cluster.controls import Introduce
from braidmq.cluster.frames import Beat
from braidmq.cluster.handshake import Introduced
from tests.cluster.pair import Core, Peer
from tests.cluster.world import WALL_S, World, cluster_of


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


def test_a_newcomer_is_introduced_to_those_who_are_there() -> None:
    core = Core()
    Peer(core, 1, node=200).join()
    Peer(core, 2, node=300).join()
    core.now += 0.25
    core.tell(ev.TimeCame())
    told = [control.members for control in core.said(1) if isinstance(control, Introduce)]
    assert told[0][-1] == Introduced(300, 1, "p300", ("p300:1",), True)


def test_who_was_introduced_is_dialled_and_forgotten_if_nobody_hears_it() -> None:
    core = Core()
    peer = Peer(core, 1).join()
    peer.send(Introduce((Introduced(300, 1, "p300", ("p300:1",), True),)))
    assert core.cluster.members.state(300) == "dialling"
    assert do.Dial("p300:1") in core.tell(ev.TimeCame())
    for _ in range(13):
        core.now += 0.25
        core.tell(ev.BytesCame(200))
        core.tell(ev.TimeCame())
    assert core.cluster.members.state(300) == "forgotten"
    assert do.Forgotten(300) in core.effects
    assert do.Died(300) not in core.effects


def test_a_member_that_has_moved_is_dialled_where_it_is_now() -> None:
    core = Core()
    peer = Peer(core, 1, node=200).join()
    Peer(core, 2, node=300, boot=1).join()
    core.tell(ev.LinkLost(2, ""))
    peer.send(Introduce((Introduced(300, 2, "p300", ("moved:1",), True),)))
    core.now += 1.0
    assert do.Dial("moved:1") in core.tell(ev.TimeCame())


def test_those_who_have_forgotten_each_other_find_each_other_without_a_seed() -> None:
    world = cluster_of(3, keeps=False)
    world.run(2.0)
    world.nodes["n0"].stop(is_sudden=False)
    world.block("n1", "n2")
    world.block("n2", "n1")
    world.run(10.0)
    assert world.nodes["n1"].states() == {}
    world.heal()
    world.run(5.0)
    assert world.nodes["n1"].states() == {"n2": "live"}


def test_a_seed_by_another_name_is_not_dialled_again_when_it_is_known_who_is_there() -> None:
    world = World()
    world.seeds = ("alias:1", "n1:7000")
    node, other = world.add("n0"), world.add("n1")
    world.nodes["alias"] = node
    node.id, other.id = 1, 2  # the link that n0 dials stays
    node.start()
    other.start()
    world.run(60.0)
    assert other.states() == {"n0": "live"}
    assert [effect for effect in other.effects if isinstance(effect, do.Dial)] == [do.Dial("alias:1")]


def test_a_clock_that_runs_away_is_told_and_not_followed() -> None:
    core = Core()
    Peer(core, 1).join()
    ahead = int((WALL_S + 100) * 1000) << 16
    beat = frames.beat(Beat(ahead, 1, 0, 0, False, b""))
    core.tell(ev.FrameReceived(1, frames.BEAT, beat[2:]))
    assert any("60 s ahead" in sentence for sentence in core.told())
    assert core.cluster.clock.tick(core.now) < ahead
