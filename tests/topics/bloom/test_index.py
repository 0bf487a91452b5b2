"""One search for many peers: the same answer as one search a peer, while columns come, change and go."""

import random

import pytest

from braidmq.topics import matches
from braidmq.topics.bloom import InterestError, InterestIndex, LocalInterest, Outcome, PrefixFilter
from braidmq.topics.bloom.hashing import end_key, path_key
from braidmq.topics.bloom.prefix import search_each
from tests.topics.bloom.strategies import random_filter, random_topic

SEED = 17


class Peers:
    """Owners of very different sizes and an index over all of them."""

    def __init__(self, seed: int, **settings: int) -> None:
        self.rng = random.Random(seed)
        self.index = InterestIndex(seed=SEED, **settings)
        self.owners: dict[str, LocalInterest] = {}
        self.held: dict[str, list[bytes]] = {}

    def add(self, name: str, filters: int) -> None:
        self.owners[name] = LocalInterest(seed=SEED)
        self.held[name] = []
        self.change(name, filters, 1.0)

    def change(self, name: str, count: int, growing: float) -> None:
        held = self.held[name]
        for _ in range(count):
            if held and self.rng.random() > growing:
                self.owners[name].unsubscribe(held.pop(self.rng.randrange(len(held))))
            else:
                held.append(self.filter())
                self.owners[name].subscribe(held[-1])
        message = self.owners[name].flush()
        if message is not None:
            assert self.index.receive(name, message) is Outcome.APPLIED

    def filter(self) -> bytes:
        return random_filter(self.rng) if self.rng.random() < 0.3 else b"d/%d/x" % self.rng.randrange(50_000)

    def topic(self) -> bytes:
        plain = [held[-1] for held in self.held.values() if held and held[-1].startswith(b"d/")]
        return self.rng.choice(plain) if plain and self.rng.random() < 0.5 else random_topic(self.rng)

    def drop(self, name: str) -> None:
        self.index.drop(name)
        del self.owners[name], self.held[name]

    def load_all(self) -> None:
        while self.index.advance():
            pass

    def check(self, topics: int) -> None:
        names = list(self.owners)
        filters = [self.owners[name].filter for name in names]
        for name, filter in zip(names, filters, strict=True):
            assert self.index.bits(name) == filter.bits, name
        for topic in (self.topic() for _ in range(topics)):
            one_by_one = {names[position] for position in search_each(filters, topic)}
            together = self.index.interested(topic)
            assert set(together) == one_by_one
            assert len(together) == len(one_by_one)


@pytest.mark.parametrize("peers", [1, 5, 64, 150])
def test_the_same_answers_as_one_search_a_peer(peers: int) -> None:
    world = Peers(peers)
    for number in range(peers):
        world.add(f"peer{number}", world.rng.choice([0, 1, 5, 30, 200]))
    world.load_all()
    world.check(400)
    assert world.index.width == (1 if peers <= 64 else 4)


def test_live_changes_of_every_kind() -> None:
    """Small columns repeat within the rows of large ones; the number of rows follows the largest."""
    world, heights = Peers(3), set()
    for step in range(120):
        choice = world.rng.random()
        if choice < 0.25 or not world.owners:
            world.add(f"peer{step}", world.rng.choice([1, 1, 3, 3, 20, 900]))
        elif choice < 0.5:
            world.drop(world.rng.choice(list(world.owners)))
        else:
            name = world.rng.choice(list(world.owners))
            world.change(name, world.rng.choice([1, 3, 40]), world.rng.choice([0.2, 0.8]))
        world.index.advance(world.rng.choice([64, 1024, 65_536]))
        world.check(15)
        heights.add(world.index.blocks)
    assert len(heights) >= 3
    for name in list(world.owners):
        world.drop(name)
    assert world.index.interested(b"a") == []
    assert world.index.blocks == 1


def test_no_false_negative() -> None:
    world = Peers(5)
    for number in range(40):
        world.add(f"peer{number}", 30)
    world.load_all()
    for _ in range(1500):
        topic = world.topic()
        wanted = {name for name, held in world.held.items() if any(matches(filter, topic) for filter in held)}
        assert wanted <= set(world.index.interested(topic))


def test_a_staged_filter_is_searched_as_it_is() -> None:
    world = Peers(6)
    world.add("small", 10)
    world.add("large", 30_000)
    world.check(100)
    world.change("large", 50, 0.5)
    world.check(100)
    assert world.index.advance(64)
    world.change("large", 50, 0.5)
    world.check(100)
    world.load_all()
    world.check(300)


def test_a_filter_too_large_for_the_rows_is_searched_by_itself() -> None:
    world = Peers(7, rows_bytes_max=4 * 512 * 8)
    world.add("large", 2_000)
    world.add("small", 10)
    world.load_all()
    assert world.index.blocks <= 4
    world.change("large", 20, 0.5)
    world.check(200)


def test_wider_rows_push_out_what_takes_too_much() -> None:
    world = Peers(14, rows_bytes_max=64 * 512 * 8)
    world.add("large", 700)
    for number in range(63):
        world.add(f"peer{number}", 3)
    world.load_all()
    assert (world.index.blocks, world.index.width) == (64, 1)
    world.add("one more", 3)
    world.load_all()
    assert world.index.width == 2
    assert world.index.nbytes <= 64 * 512 * 8
    world.check(200)
    world.change("large", 30, 0.5)
    world.check(200)


def test_a_peer_that_is_not_known_yet_gets_everything() -> None:
    world = Peers(8)
    world.add("known", 20)
    world.index.join("new")
    assert "new" in world.index.interested(b"no/body/asked/for/this")
    world.owners["new"], world.held["new"] = LocalInterest(seed=SEED), []
    world.change("new", 3, 1.0)
    world.load_all()
    world.check(100)


def test_a_gap_opens_one_column_and_a_snapshot_closes_it() -> None:
    world = Peers(9)
    world.add("steady", 50)
    world.add("gappy", 50)
    world.load_all()
    owner = world.owners["gappy"]
    owner.subscribe(b"$lost")
    owner.flush()
    owner.subscribe(b"$kept")
    message = owner.flush()
    assert message is not None
    assert world.index.receive("gappy", message) is Outcome.SNAPSHOT_NEEDED
    assert world.index.interested(b"$lost") == ["gappy"]
    assert "gappy" in world.index.interested(b"anything/else")
    assert world.index.receive("gappy", owner.snapshot()) is Outcome.APPLIED
    world.load_all()
    world.check(200)


def test_damage_is_refused_and_opens_the_column() -> None:
    world = Peers(10)
    world.add("peer", 50)
    world.load_all()
    with pytest.raises(InterestError, match="checksum"):
        world.index.receive("peer", bytes(40))
    assert world.index.interested(b"never/heard/of") == ["peer"]
    assert world.index.receive("peer", world.owners["peer"].snapshot()) is Outcome.APPLIED
    world.load_all()
    world.check(100)


def test_a_filter_of_another_cluster_is_refused() -> None:
    index = InterestIndex(seed=SEED)
    for stranger in (LocalInterest(seed=SEED + 1), LocalInterest(seed=SEED, hashes=7)):
        with pytest.raises(InterestError, match="another seed"):
            index.receive("stranger", stranger.snapshot())
        assert index.interested(b"x") == ["stranger"]


def test_known_false_keys_count_for_their_column_alone() -> None:
    world = Peers(11)
    for name in ("liar", "honest"):
        world.add(name, 0)
        world.owners[name].subscribe(b"a/b")
        world.change(name, 0, 1.0)
    world.load_all()
    slot = world.index.labels.index("liar")
    key = end_key(path_key([b"a", b"b"], SEED))
    world.index.replace_known_false({key: 1 << slot, key - 1: 3, key + 1: 3})
    assert world.index.interested(b"a/b") == ["honest"]


def test_known_false_keys_survive_a_wider_index() -> None:
    world = Peers(12)
    for number in range(64):
        world.add(f"peer{number}", 3)
    owner = LocalInterest(seed=SEED, bits_per_key=4, hashes=10)
    for number in range(2_000):
        owner.subscribe(b"s%d/%d/x" % (number % 50, number))
    message = owner.flush()
    assert message is not None
    assert owner.filter.known_false
    world.index.receive("accident-prone", message)
    world.load_all()
    world.owners["accident-prone"], world.held["accident-prone"] = owner, []
    for number in range(64, 70):
        world.add(f"peer{number}", 3)
    world.load_all()
    topics = [b"s%d/any/%d" % (number % 50, number) for number in range(400)]
    for topic in topics:
        assert ("accident-prone" in world.index.interested(topic)) == owner.filter.may_match(topic)


def test_an_adversarys_topic_gets_maybe_from_those_it_concerns() -> None:
    index = InterestIndex(seed=SEED)
    bushy, other = LocalInterest(seed=SEED), LocalInterest(seed=SEED)
    rng = random.Random(1)
    for _ in range(20_000):
        bushy.subscribe(b"/".join([rng.choice([b"+", b"x"]) for _ in range(13)] + [b"end"]))
    other.subscribe(b"y/z")
    for name, owner in (("bushy", bushy), ("other", other)):
        message = owner.flush()
        assert message is not None
        index.receive(name, message)
    while index.advance():
        pass
    assert index.interested(b"/".join([b"x"] * 13 + [b"stop"])) == ["bushy"]
    deep = b"/".join([b"y"] * 5000)
    assert index.interested(deep) == []


def test_a_dropped_peers_slot_is_free_again() -> None:
    world = Peers(13)
    for number in range(64):
        world.add(f"peer{number}", 2)
    for number in range(64):
        world.drop(f"peer{number}")
        world.add(f"again{number}", 2)
    world.load_all()
    assert world.index.width == 1
    world.check(100)


def test_wrong_use_is_refused() -> None:
    index = InterestIndex(seed=SEED)
    with pytest.raises(KeyError):
        index.drop("nobody")
    with pytest.raises(ValueError, match="None"):
        index.join(None)
    with pytest.raises(IndexError):
        index.set_unknown(64, True)
    slot = index.occupy("x")
    with pytest.raises(ValueError, match="one seed"):
        index.stage(slot, PrefixFilter(1, 10, SEED + 1))
    with pytest.raises(ValueError, match="don't fit"):
        index.write_positions(slot, 2, [0], True)
    with pytest.raises(ValueError, match="outside"):
        index.write_positions(slot, 1, [512], True)
    with pytest.raises(ValueError, match="can't have"):
        index.reshape(3, 1)


def test_there_is_an_end_to_the_number_of_peers() -> None:
    index = InterestIndex(seed=SEED)
    for number in range(1024):
        index.join(number)
    with pytest.raises(ValueError, match="at most 1024"):
        index.join("one too many")
    assert len(index.interested(b"x")) == 1024
