"""Draining, leaving, forgetting, and what is remembered over restarts."""

from braidmq.cluster import effects as do
from braidmq.cluster import events as ev
from tests.cluster.pair import Core, Peer
from tests.cluster.world import Node, World, cluster_of


def running(nodes: int = 3, **settings: object) -> tuple[World, list[Node]]:
    world = cluster_of(nodes, **settings)
    world.run(2.0)
    return world, list(world.nodes.values())


def test_everybody_sees_who_drains_and_newcomers_too() -> None:
    world, (first, second, third) = running()
    third.tell(ev.Drain())
    world.run(0.1)
    assert first.states() == {"n1": "live", "n2": "draining"}
    assert first.cluster.members.is_linked(third.id)
    second.stop(is_sudden=False)
    second.start()
    world.run(1.0)
    assert second.states() == {"n0": "live", "n2": "draining"}
    third.tell(ev.Undrain())
    world.run(0.1)
    assert first.states() == {"n1": "live", "n2": "live"}


def test_a_client_is_sent_to_the_node_with_the_fewest_connections() -> None:
    world, (first, second, third) = running()
    second.broker.clients, third.broker.clients = 5, 3
    world.run(0.5)
    assert getattr(first.cluster.members.elsewhere(), "client_address", "") == "n2:1883"
    third.tell(ev.Drain())
    world.run(0.1)
    assert getattr(first.cluster.members.elsewhere(), "name", "") == "n1"
    second.stop(is_sudden=False)
    world.run(0.1)
    assert first.cluster.members.elsewhere() is None


def test_who_leaves_is_forgotten_at_once_and_not_dialled_back_in() -> None:
    world, (first, second, third) = running()
    third.tell(ev.Leave())
    world.run(0.1)
    for node in (first, second):
        assert len(node.states()) == 1
        assert do.Forgotten(third.id) in node.effects
        assert do.Died(third.id) not in node.effects
        assert node.cluster.members.state(third.id) == "left"
        assert [entry.node for entry in node.remembered if entry.node == third.id] == []
    world.run(70.0)
    assert len(first.states()) == len(second.states()) == 1


def test_who_was_away_while_another_left_is_told_when_it_asks() -> None:
    world, (first, second, third) = running()
    world.block("n1", "n2")
    world.block("n2", "n1")
    world.run(2.0)
    third.tell(ev.Leave())
    world.heal()
    world.run(5.0)
    assert second.states() == {"n0": "live"}
    assert second.cluster.members.state(third.id) == "left"
    assert first.states() == {"n1": "live"}


def test_who_left_may_come_back_as_one_that_is_new() -> None:
    world, (first, _, third) = running()
    third.tell(ev.Leave())
    world.run(1.0)
    third.stop(is_sudden=False)
    third.start()
    world.run(2.0)
    assert first.states() == {"n1": "live", "n2": "live"}
    assert [effect for effect in first.effects if isinstance(effect, do.Linked)][-1].is_new_boot


def test_only_the_dead_are_forgotten() -> None:
    world, (first, _, third) = running()
    first.tell(ev.Forget(third.id))
    assert first.cluster.members.is_linked(third.id)
    assert "only the dead" in first.told[-1].sentence
    third.stop(is_sudden=False)
    world.run(1.0)
    first.tell(ev.Forget(third.id))
    assert first.cluster.members.state(third.id) == "suspect"


def test_a_forgotten_node_is_forgotten_everywhere_and_refused_when_it_comes_back() -> None:
    world, (first, second, third) = running()
    third.stop(is_sudden=False)
    world.run(5.0)
    first.tell(ev.Forget(third.id))
    world.run(0.1)
    assert len(first.states()) == len(second.states()) == 1
    assert do.Forgotten(third.id) in second.effects
    second.stop(is_sudden=False)  # also over a restart
    second.start()
    world.run(1.0)
    third.start()
    world.run(3.0)
    assert first.states() == {"n1": "live"}
    assert second.states() == {"n0": "live"}
    assert any("empty the data directory" in told.sentence for told in third.told)


def test_who_was_away_when_a_node_was_forgotten_learns_it_from_a_welcome() -> None:
    world, (first, second, third) = running()
    third.stop(is_sudden=False)
    world.run(5.0)
    second.stop(is_sudden=False)
    first.tell(ev.Forget(third.id))
    second.start()
    world.run(1.0)
    assert second.states() == {"n0": "live"}


def test_the_dead_are_forgotten_when_their_time_is_over_also_over_a_restart() -> None:
    world, (first, second, third) = running(keep_for_dead_s=30.0)
    third.stop(is_sudden=False)
    world.run(20.0)
    assert first.states() == {"n1": "live", "n2": "dead"}
    second.stop(is_sudden=False)
    second.start()
    world.run(1.0)
    assert second.states() == {"n0": "live", "n2": "dead"}
    world.run(14.0)
    for node in (first, second):
        assert "n2" not in node.states()
        assert do.Forgotten(third.id) in node.effects
    third.start()  # nobody has said that it must not come back
    world.run(2.0)
    assert first.states() == {"n1": "live", "n2": "live"}


def test_what_is_remembered_is_told_only_when_it_changes() -> None:
    world, (first, *_) = running()
    before = len([effect for effect in first.effects if isinstance(effect, do.MembersChanged)])
    world.run(60.0)
    assert len([effect for effect in first.effects if isinstance(effect, do.MembersChanged)]) == before
    assert {entry.name for entry in first.remembered} == {"n1", "n2"}


def test_beats_tell_load_and_round_trip_times() -> None:
    world, (first, second, _) = running()
    second.broker.clients = 7
    world.run(1.0)
    member = first.cluster.members.info(second.id)
    assert member is not None
    assert member.connections == 7
    assert member.rtt_s is not None
    assert 0.002 <= member.rtt_s <= 0.04
    assert abs(member.clock_offset_s) < 0.1


def test_a_clock_that_is_off_is_known() -> None:
    world = World()
    world.seeds = ("n0:7000",)
    first, second = world.add("n0"), world.add("n1", skew_s=30.0)
    first.start()
    second.start()
    world.run(1.0)
    member = first.cluster.members.info(second.id)
    assert member is not None
    assert 29.9 < member.clock_offset_s < 30.1


def test_flow_is_asked_for_and_told() -> None:
    world, (first, second, _) = running()
    first.tell(ev.FlowChanged(second.id, True))
    world.run(0.1)
    first.tell(ev.FlowChanged(second.id, False))
    world.run(1.0)
    held = [effect for effect in second.effects if isinstance(effect, do.Hold)]
    assert held == [do.Hold(first.id, True), do.Hold(first.id, False)]


def test_bytes_that_the_core_does_not_see_keep_a_link_alive() -> None:
    core = Core()
    peer = Peer(core, 1).join()
    for _ in range(40):
        core.now += 0.25
        core.tell(ev.BytesCame(200))
        core.tell(ev.TimeCame())
    assert peer.is_linked
    for _ in range(6):
        core.now += 0.25
        core.tell(ev.TimeCame())
    assert core.goodbye(1) == "silent"
