"""Delegation: parts are disjoint, nothing is left out, every live node is reached exactly once."""

from collections import Counter
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from braidmq.overlay.keys import KeyRange, Kind, key_of, range_of
from braidmq.overlay.ranges import delegate, far_side, is_blind
from braidmq.overlay.table import Peer, RoutingTable, Shape, Side


def network(rng: Random, size: int, shape: Shape, entries_max: int = 30) -> dict[bytes, RoutingTable]:
    """Nodes of three topics whose tables were offered everybody in random order."""
    peers = [
        Peer(key_of(topic, rng.choice(list(Kind)), pid), "b", 0)
        for pid in range(size)
        for topic in rng.sample("amz", 1)
    ]
    tables = {one.key: RoutingTable(one, entries_max, 1, shape) for one in peers}
    for table in tables.values():
        for one in rng.sample(peers, len(peers)):
            table.add(one)
    return tables


def reached(tables: dict[bytes, RoutingTable], start: bytes, keys: KeyRange, most: int = 0) -> Counter[bytes]:
    """How often each node of the range is given a part, from `start` on."""
    found: Counter[bytes] = Counter()
    work = [(start, keys, 0)]
    while work:
        key, part, hops = work.pop()
        assert hops < 64
        if key in part:
            found[key] += 1
        work += [(child.key, its, hops + 1) for child, its in delegate(tables[key], part, most)]
    return found


@settings(max_examples=60)
@given(st.integers(0, 10**9), st.integers(1, 90), st.sampled_from(list(Shape)), st.sampled_from([0, 0, 2, 5]))
def test_every_node_of_a_range_is_reached_exactly_once(seed: int, size: int, shape: Shape, most: int) -> None:
    rng = Random(seed)
    tables = network(rng, size, shape)
    order = sorted(tables)
    for _ in range(4):
        start = rng.choice(order)
        ends = sorted((rng.choice(order), rng.choice(order)))
        for keys in (KeyRange(*ends), range_of(rng.choice("amz"), rng.choice(list(Kind)))):
            assert reached(tables, start, keys, most) == Counter(key for key in order if key in keys)


@settings(max_examples=40)
@given(st.integers(0, 10**9), st.integers(2, 80), st.sampled_from([0, 3]))
def test_parts_are_disjoint_and_cover_the_range_but_the_owner(seed: int, size: int, most: int) -> None:
    rng = Random(seed)
    tables = network(rng, size, Shape.FLEXIBLE, 12)
    order = sorted(tables)
    for _ in range(5):
        table = tables[rng.choice(order)]
        keys = KeyRange(*sorted((rng.choice(order), rng.choice(order))))
        parts = delegate(table, keys, most)
        covered = Counter(key for _, part in parts for key in order if key in part)
        assert covered == Counter(key for key in order if key in keys and key != table.owner.key)


def test_a_hole_is_given_to_its_neighbour_or_to_the_nearest_beyond() -> None:
    peers = [Peer(key_of("m", Kind.SUBSCRIBER, pid), "b", 0) for pid in range(6)]
    table = RoutingTable(peers[0], 9)
    table.add(peers[3])
    keys = KeyRange(peers[1].key, peers[5].key)
    assert delegate(table, keys, holes=Side) == [(peers[3], keys)]
    assert delegate(table, KeyRange(peers[1].key, peers[3].key), holes=Side)[0][0] == peers[3]
    mirrored = RoutingTable(peers[5], 9)
    mirrored.add(peers[2])
    keys = KeyRange(peers[1].key, peers[5].key)
    assert delegate(mirrored, keys, holes=Side) == [(peers[2], keys)]
    assert delegate(mirrored, KeyRange(peers[3].key, peers[5].key), holes=Side)[0][0] == peers[2]


def test_who_knows_nobody_on_a_side_cannot_tell_who_is_there() -> None:
    peers = [Peer(key_of("m", Kind.SUBSCRIBER, pid), "b", 0) for pid in range(6)]
    table = RoutingTable(peers[3], 9)
    left, right = KeyRange(peers[1].key, peers[3].key), KeyRange(peers[3].key, peers[5].key)
    table.add(peers[0])
    assert (is_blind(table, left), is_blind(table, right)) == (False, True)
    assert (far_side(table, left), far_side(table, KeyRange(peers[4].key, peers[5].key))) == (peers[0], None)
    table.add(peers[5])
    assert not is_blind(table, right)
    assert far_side(table, KeyRange(peers[4].key, peers[5].key)) == peers[5]
