"""Overlay nodes as brokers run them: joining, publishing, leaving, failing, message by message."""

from random import Random

import pytest

from braidmq.overlay import rendezvous
from braidmq.overlay.keys import Kind
from braidmq.overlay.messages import Status, Unsub
from braidmq.overlay.settings import OverlaySettings, Reading
from braidmq.overlay.table import Side
from braidmq.overlay.turn import Send, Turn, VirtualNode
from braidmq.sim.overlay import checkers
from braidmq.sim.overlay.world import OverlayWorld
from braidmq.sim.world.network import Conditions

TOPIC = "plant/line"


def grown(order: list[str], settings: OverlaySettings | None = None, seed: int = 1) -> OverlayWorld:
    """Brokers that join one by one: `p` publishes the topic, the others subscribe to it."""
    world = OverlayWorld(seed, settings or OverlaySettings(), Conditions((0.005, 0.02)))
    rng = Random(seed)
    world.start("seed", [])
    world.subscribe("seed", "a")
    world.run_for(0.5)
    for name in order:
        world.start(name, ["seed"])
        world.subscribe(name, rng.choice("bcxyz"))
        world.run_for(0.02)
        (world.advertise if name == "p" else world.subscribe)(name, TOPIC)
        world.run_for(0.02)
    world.run_for(8.0)
    assert checkers.list_is_sorted(world) == []
    return world


def names(count: int) -> list[str]:
    return [f"b{number}" for number in range(count)]


def hops(world: OverlayWorld, times: int = 1) -> list[int]:
    for _ in range(times):
        publication = world.publish("p", TOPIC)
        world.run_for(6.0)
    assert checkers.delivered_exactly_once(world) == []
    return [one for ones in publication.hops.values() for one in ones]


@pytest.mark.parametrize("place", ["first", "middle", "last"])
def test_few_subscribers_are_one_hop_away_whoever_came_first(place: str) -> None:
    order = names(40)
    order.insert({"first": 0, "middle": 20, "last": 40}[place], "p")
    assert hops(grown(order), times=3) == [1] * 40


def test_many_subscribers_are_reached_by_a_tree() -> None:
    found = hops(grown([*names(60), "p"], OverlaySettings(entries_max=16)), times=3)
    assert len(found) == 60
    assert 1.2 < sum(found) / len(found) < 2.5


def test_a_bounded_fan_out_is_kept_to() -> None:
    world = grown([*names(30), "p"], OverlaySettings(fan_out_max=3))
    before = world.messages["Pub"]
    hops(world)
    assert world.messages["Pub"] - before == 30
    (publisher,) = [node for node in world.overlays["p"].virtual_nodes if node.kind is Kind.PUBLISHER]
    assert len(publisher.branching) <= 3


def test_plain_tables_become_those_of_a_skip_graph() -> None:
    world = grown([*names(40), "p"], OverlaySettings(reading=Reading.NOBODY, near_count=1))
    world.run_for(40.0)
    assert checkers.levels_are_linked(world) == []
    found = hops(world)
    assert len(found) == 40
    assert sum(found) / len(found) > 2


def test_a_fifth_of_all_brokers_crash_unnoticed_and_nobody_misses_the_next_publication() -> None:
    world = grown([*names(60), "p"], OverlaySettings(entries_max=24))
    for name in Random(3).sample(names(60), 12):
        world.crash(name)
    publication = world.publish("p", TOPIC)
    world.run_for(20.0)
    assert len(publication.expected) == 48
    assert checkers.delivered_exactly_once(world) == []


def test_who_dies_after_the_hop_was_acknowledged_takes_nobody_along() -> None:
    """Crash delegates the moment they have acknowledged: the range is served by others all the same."""
    world = grown([*names(60), "p"], OverlaySettings(entries_max=16))
    publication = world.publish("p", TOPIC)
    world.clock.run_until(world.clock.now + 0.021)
    middle_men = [life[0] for life, found in publication.hops.items() if found == [1]][:4]
    for name in middle_men:
        world.crash(name)
    world.run_for(20.0)
    assert middle_men
    assert checkers.delivered_exactly_once(world) == []
    assert len(publication.expected) == 60 - len(middle_men)


def subscribers(world: OverlayWorld) -> list[VirtualNode]:
    """In the order of the list."""
    nodes = [node for overlay in world.overlays.values() for node in overlay.virtual_nodes]
    found = [node for node in nodes if node.topic == TOPIC and node.kind is Kind.SUBSCRIBER]
    return sorted(found, key=lambda node: node.peer.key)


def make_known_to_alone(world: OverlayWorld, newcomer: VirtualNode, others: list[VirtualNode]) -> None:
    for overlay in world.overlays.values():
        for node in overlay.virtual_nodes:
            if node not in others:
                node.table.remove(newcomer.peer.key)


def test_a_newcomer_is_reached_from_its_right_if_nobody_on_its_left_knows_anybody_there() -> None:
    world = grown([*names(10), "p"])
    left, newcomer, right = subscribers(world)[3:6]
    make_known_to_alone(world, newcomer, [right])
    for peer in left.table.near(Side.RIGHT, 100):
        left.table.remove(peer.key)
    assert len(hops(world)) == 10


def test_a_hole_is_nobodys_until_the_node_beyond_it_has_answered() -> None:
    world = grown([*names(10), "p"])
    world.network.conditions = Conditions((0.01, 0.01))
    left, dead, newcomer, right = subscribers(world)[3:7]
    make_known_to_alone(world, newcomer, [right])
    world.crash(dead.peer.address)
    for name in ("p", left.peer.address):
        world._carry_out(name, world.overlays[name].delivery_failed(dead.peer, world.clock.now))
    assert len(hops(world)) == 9  # published while the left one asks the right one who is near
    assert not left.holes


def test_the_real_end_of_the_list_costs_no_message() -> None:
    world = grown([*names(10), "p"])
    for name in [*names(10), "p"]:
        for topic in "xyz":
            world.unsubscribe(name, topic)
    world.run_for(10.0)
    assert subscribers(world)[-1].table.neighbour(Side.RIGHT) is None
    hops(world)  # the publisher finds out that those it knew beyond are gone
    before = world.messages["Pub"]
    assert len(hops(world)) == 10
    assert world.messages["Pub"] - before == 10


def test_leaving_is_told_to_the_publishers_and_nothing_comes_afterwards() -> None:
    world = grown([*names(10), "p"])
    world.unsubscribe("b3", TOPIC)
    world.run_for(3.0)
    assert world.messages[Unsub.__name__] >= 1
    (publisher,) = [node for node in world.overlays["p"].virtual_nodes if node.kind is Kind.PUBLISHER]
    assert "b3" not in {peer.address for peer in publisher.table if peer.key in publisher.range}
    assert len(hops(world)) == 9
    assert checkers.list_is_sorted(world) == []


def test_publishers_learn_when_subscribers_come_and_go() -> None:
    world = grown(["p", "b0", "b1", "b2"])
    for name in ("q", "r"):
        world.start(name, ["seed"])
        world.advertise(name, TOPIC)
    world.run_for(5.0)
    for name in ("b0", "b1", "b2"):
        world.unsubscribe(name, TOPIC)
    world.run_for(5.0)
    assert checkers.presence_is_known(world) == []
    before = world.messages["Pub"]
    for name in "pqr":
        world.publish(name, TOPIC)
    world.run_for(3.0)
    assert world.messages["Pub"] == before
    assert sum(overlay.counters.get("no subscriber", 0) for overlay in world.overlays.values()) == 3
    world.subscribe("b1", TOPIC)
    world.run_for(3.0)
    publications = [world.publish(name, TOPIC) for name in "pqr"]
    world.run_for(3.0)
    assert [list(publication.hops) for publication in publications] == [[("b1", 1)]] * 3


def test_presence_is_told_to_the_left_alone_since_who_joins_on_the_right_waits_for_it() -> None:
    world = grown(["p", "b0", "b1"])
    for name in ("q", "r"):
        world.start(name, ["seed"])
        world.advertise(name, TOPIC)
    world.run_for(5.0)
    nodes = [(node, name) for name, overlay in world.overlays.items() for node in overlay.virtual_nodes]
    last, name = max(
        ((node, name) for node, name in nodes if node.kind is Kind.PUBLISHER), key=lambda one: one[0].peer.key
    )
    last.holes.add(Side.RIGHT)
    turn = Turn(world.overlays[name]._shared, world.clock.now)
    rendezvous.announce(turn, last)
    asked = [effect.to.key for effect in turn.effects if isinstance(effect, Send)]
    assert len(asked) == 2
    assert max(asked) < last.peer.key


def test_publications_wait_for_the_publisher_to_join_but_not_without_end() -> None:
    world = grown(["b0"], OverlaySettings(waiting_max=2))
    world.start("p", ["seed"])
    publications = [world.publish("p", TOPIC) for _ in range(3)]
    world.run_for(3.0)
    assert [len(publication.hops) for publication in publications] == [1, 1, 0]
    assert world.overlays["p"].counters["too many wait"] == 1


def test_messages_of_a_publisher_come_in_order_though_they_overtake_each_other() -> None:
    world = grown([*names(8), "p"])
    world.network.conditions = Conditions((0.001, 0.04))
    arrived: dict[str, list[bytes]] = {}
    record = world._delivered

    def noting(name: str, effect) -> None:  # type: ignore[no-untyped-def]
        arrived.setdefault(name, []).append(effect.payload)
        record(name, effect)

    world._delivered = noting  # type: ignore[method-assign]
    sent = [world.publish("p", TOPIC).payload for _ in range(30) if world.run_for(0.005) is None]
    world.run_for(3.0)
    assert arrived == dict.fromkeys(names(8), sent)


def test_a_silent_publisher_leaves() -> None:
    world = grown(["b0", "p"], OverlaySettings(publisher_idle_s=20.0, period_s=10.0))
    world.run_for(40.0)
    assert not world.overlays["p"].has_joined(TOPIC, Kind.PUBLISHER)
    assert all(node.status is Status.LINKED for node in world.overlays["p"].virtual_nodes)
    assert checkers.list_is_sorted(world) == []


def test_a_link_that_reports_failure_saves_the_waiting() -> None:
    world = grown([*names(5), "p"])
    overlay = world.overlays["p"]
    (publisher,) = [node for node in overlay.virtual_nodes if node.kind is Kind.PUBLISHER]
    victim = next(peer for peer in publisher.table if peer.address == "b2" and peer.key in publisher.range)
    world.crash("b2")
    publication = world.publish("p", TOPIC)
    world._carry_out("p", overlay.delivery_failed(victim, world.clock.now))
    world.run_for(0.15)
    assert len(publication.hops) == 4
