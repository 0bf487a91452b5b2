"""Where messages go: never too few peers, and with `full` never one too many."""

import random
from collections import Counter

import pytest

from braidmq.cluster.hops import Change, Hop, Routing
from braidmq.cluster.relaying import WINDOW, FloodRouting, RecentNumbers, TreeRouting
from braidmq.cluster.routing import PEERS_FOR_ROWS, BloomRouting, FullRouting, Mode, make_routing
from braidmq.topics import matches
from braidmq.topics.bloom import InterestError, Outcome
from tests.topics.bloom.strategies import random_filter, random_topic

SEED = 23


class Net:
    """Nodes that tell each other what they want, by announcements that always arrive."""

    def __init__(self, mode: Mode, nodes: int, seed: int) -> None:
        self.rng = random.Random(seed)
        self.routings: dict[int, Routing] = {
            node: make_routing(mode, me=node, seed=SEED, is_neighbour=lambda peer: True)
            for node in range(nodes)
        }
        self.wanted: dict[int, set[bytes]] = {node: set() for node in self.routings}
        for node, routing in self.routings.items():
            for peer in self.routings:
                if peer != node:
                    routing.joined(peer)

    def change(self, node: int) -> None:
        filter = random_filter(self.rng)
        wanted, routing = self.wanted[node], self.routings[node]
        if wanted and self.rng.random() < 0.4:
            filter = self.rng.choice(sorted(wanted))
            wanted.remove(filter)
            routing.unwanted(filter)
        elif filter not in wanted:
            wanted.add(filter)
            routing.wanted(filter)

    def announce(self, node: int) -> None:
        announcement = self.routings[node].announcement()
        for peer, routing in self.routings.items():
            if peer != node and announcement is not None:
                assert routing.receive(node, announcement).outcome is not Outcome.SNAPSHOT_NEEDED

    def interested(self, node: int, topic: bytes) -> set[int]:
        return {
            peer
            for peer, wanted in self.wanted.items()
            if peer != node and any(matches(filter, topic) for filter in wanted)
        }


def peers_of(hops: tuple[Hop, ...]) -> set[int]:
    peers = {hop.peer for hop in hops}
    assert len(peers) == len(hops), "no peer twice"
    return peers


@pytest.mark.parametrize(("mode", "nodes"), [("full", 5), ("bloom", 5), ("bloom", PEERS_FOR_ROWS + 2)])
def test_hops_are_the_interested_peers(mode: Mode, nodes: int) -> None:
    net = Net(mode, nodes, seed=nodes)
    extra = asked = 0
    for node in net.routings:
        snapshot = net.routings[node].snapshot()  # so that the first announcement is a delta for all
        for peer, routing in net.routings.items():
            if peer != node:
                routing.receive(node, snapshot)
    for _ in range(12):
        for node, routing in net.routings.items():
            for _ in range(net.rng.randrange(6)):
                net.change(node)
            net.announce(node)
            while routing.advance():
                pass
        for _ in range(100):
            node, topic = net.rng.randrange(nodes), random_topic(net.rng)
            expected, found = net.interested(node, topic), peers_of(net.routings[node].hops(topic))
            assert found >= expected, topic
            asked += nodes - 1
            extra += len(found - expected)
    assert net.routings[0].onward(b"a", 1) == ()
    assert extra == 0 if mode == "full" else extra <= asked / 500


@pytest.mark.parametrize("mode", ["bloom", "full"])
def test_a_peer_that_is_not_known_or_out_of_step_gets_everything(mode: Mode) -> None:
    net = Net(mode, 2, seed=1)
    here, there = net.routings[0], net.routings[1]
    there.wanted(b"a/b")
    there.announcement()
    assert peers_of(here.hops(b"x")) == {1}
    receipt = here.receive(1, there.snapshot())
    assert receipt.outcome is Outcome.APPLIED
    assert receipt.change is Change.NARROWER
    assert here.hops(b"x") == ()
    there.wanted(b"c")
    there.announcement()  # is lost
    there.wanted(b"d")
    receipt = here.receive(1, there.announcement() or b"")
    assert receipt.outcome is Outcome.SNAPSHOT_NEEDED
    assert receipt.change is Change.WIDER
    assert peers_of(here.hops(b"x")) == {1}
    here.receive(1, there.snapshot())
    assert here.hops(b"x") == ()
    assert peers_of(here.hops(b"c")) == {1}
    assert here.compare(1, there.position).outcome is Outcome.STALE
    there.unwanted(b"c")
    receipt = here.receive(1, there.announcement() or b"")
    assert receipt.change is Change.NARROWER, "what only goes away forgets no routes"
    with pytest.raises(InterestError):
        here.receive(1, b"damaged and too long to be overlooked")
    assert peers_of(here.hops(b"x")) == {1}
    here.receive(1, there.snapshot())
    here.joined(1)
    assert here.in_step(1), "joining twice is joining once"
    here.restarted(1)
    assert peers_of(here.hops(b"x")) == {1}
    here.gone(1)
    assert here.hops(b"x") == ()
    here.joined(1)
    assert peers_of(here.hops(b"x")) == {1}


@pytest.mark.parametrize("mode", ["bloom", "full"])
def test_a_peer_that_died_keeps_its_filters(mode: Mode) -> None:
    net = Net(mode, 2, seed=1)
    net.routings[1].wanted(b"a/b")
    net.routings[1].announcement()
    net.routings[0].receive(1, net.routings[1].snapshot())
    net.routings[0].died(1)
    assert peers_of(net.routings[0].hops(b"a/b")) == {1}
    assert net.routings[0].hops(b"x") == ()


def test_text_of_a_peer_is_checked() -> None:
    here, there = FullRouting(), FullRouting()
    here.joined(1)
    for wrong in (b"a/#/b", b"a+", b"\xff", b"$share/g"):
        there.wanted(wrong)
        there.announcement()
        with pytest.raises(InterestError):
            here.receive(1, there.snapshot())
        there.unwanted(wrong)


def test_appearing_and_vanishing_between_two_announcements_is_no_change() -> None:
    routing = FullRouting()
    routing.wanted(b"a")
    assert routing.announcement() is not None
    routing.unwanted(b"a")
    routing.wanted(b"a")
    routing.wanted(b"b")
    assert b"b" not in routing.snapshot(), "a snapshot is as of the last announcement"
    routing.unwanted(b"b")
    assert not routing.dirty
    assert routing.announcement() is None


def test_rows_are_for_many_peers_only() -> None:
    """Below 16 peers the rows would cost many times the filters (see PEERS_FOR_ROWS)."""
    owner = BloomRouting(SEED)
    for number in range(5000):
        owner.wanted(b"site/%d/temperature" % number)
    owner.announcement()
    here = BloomRouting(SEED)
    rows = []
    for peer in range(PEERS_FOR_ROWS):
        here.joined(peer)
        here.receive(peer, owner.snapshot())
        while here.advance():
            pass
        rows.append(here.index.nbytes)
    here.gone(0)
    assert max(rows[:-1]) == here.index.nbytes == 4096
    assert rows[-1] > 100 * 4096
    assert len(here.hops(b"site/7/temperature")) == PEERS_FOR_ROWS - 1
    assert here.hops(b"site/7/humidity") == ()


def spread(routings: dict[int, Routing], origin: int, number: int) -> Counter[int]:
    """How often each node takes a message, where each passes on what is new to it."""
    taken: Counter[int] = Counter()
    windows = {node: RecentNumbers() for node in routings}
    windows[origin].is_new(number)
    under_way = [(origin, hop.peer) for hop in routings[origin].hops(b"t")]
    while under_way:
        sender, node = under_way.pop(0)
        if windows[node].is_new(number):
            taken[node] += 1
            under_way += [(node, hop.peer) for hop in routings[node].onward(b"t", sender)]
    return taken


def connected(rng: random.Random, nodes: list[int]) -> set[tuple[int, int]]:
    """The edges, both ways, of a random graph that is in one piece."""
    edges = {(node, rng.choice(nodes[:position])) for position, node in enumerate(nodes) if position}
    edges |= {(rng.choice(nodes), rng.choice(nodes)) for _ in range(rng.randrange(2 * len(nodes)))}
    return edges | {(there, here) for here, there in edges}


@pytest.mark.parametrize("mode", ["flood", "tree"])
def test_every_node_takes_a_relayed_message_once(mode: str) -> None:
    rng = random.Random(5)
    for _ in range(40):
        nodes = rng.sample(range(1 << 62), rng.randint(1, 20))
        edges = connected(rng, nodes)
        routings: dict[int, Routing] = {}
        for node in nodes:
            near = {there for here, there in edges if here == node}
            routings[node] = FloodRouting(near.__contains__) if mode == "flood" else TreeRouting(node)
            for peer in nodes:
                if peer != node:
                    routings[node].joined(peer)
        gone = rng.choice(nodes)
        if mode == "tree" and len(nodes) > 1:  # the tree is another one without it
            for routing in routings.values():
                routing.died(gone)
            del routings[gone]
        origin = rng.choice(sorted(routings))
        assert routings[origin].relays
        assert spread(routings, origin, 7) == Counter(routings.keys() - {origin})


def test_a_tree_sends_one_copy_along_each_edge() -> None:
    routings = {node: TreeRouting(node) for node in range(8)}
    for node, routing in routings.items():
        for peer in routings.keys() - {node}:
            routing.joined(peer)
    edges = {frozenset((node, hop.peer)) for node, routing in routings.items() for hop in routing.hops(b"t")}
    assert len(edges) == len(routings) - 1


def test_numbers_are_new_once_within_the_window() -> None:
    recent = RecentNumbers()
    assert [recent.is_new(number) for number in (3, 1, 3, 2, 1, 0)] == [True, True, False, True, False, True]
    assert recent.is_new(WINDOW + 3)
    assert not recent.is_new(3), "too old to be known"
    assert recent.is_new(4)
    assert recent.is_new(1 << 63), "a new boot starts far ahead"
    assert not recent.is_new(1 << 63)
