"""How often a whole search is wrong, and what that costs in bytes.

A single filter is a matter of luck (few, much shared keys decide), so the promise is about the mean of many.
"""

import random
from statistics import fmean

import pytest

from braidmq.sim.bloom.workloads import HierarchySubscriptions, RandomSubscriptions, random_topics
from braidmq.topics import FilterTrie
from braidmq.topics.bloom import LocalInterest, PrefixFilter
from braidmq.topics.bloom.hashing import end_key, hash_key, path_key

BUILDS = 40
# Both fill a power of two of blocks to 22 bits a key.
SUBSCRIPTIONS = {"hierarchy": 6_000, "random": 2_050}
HIERARCHY = HierarchySubscriptions()


class World:
    """A broker's subscriptions, and topics that none of them matches."""

    def __init__(self, workload: str, seed: int, **settings: float) -> None:
        self.rng = random.Random(seed)
        self.topics = random_topics(self.rng, 6)
        self.hierarchical = workload == "hierarchy"
        source = RandomSubscriptions(6, 0.5, wildcard_only=False)
        drawn = [
            HIERARCHY.draw(self.rng) if self.hierarchical else source.draw(self.rng, self.topics)
            for _ in range(SUBSCRIPTIONS[workload])
        ]
        self.truth = FilterTrie()
        self.owner = LocalInterest(seed=self.rng.getrandbits(64), **settings)  # type: ignore[arg-type]
        for subscription in drawn:
            self.truth.set(subscription.filter, True)
            self.owner.subscribe(subscription.filter)
        self.owner.flush()

    def wrong_share(self, filter: PrefixFilter, asked: int) -> float:
        wrong = count = 0
        while count < asked:
            topic = HIERARCHY.topic(self.rng) if self.hierarchical else b"/".join(next(self.topics))
            if not self.truth.match(topic):
                count += 1
                wrong += filter.may_match(topic)
        return wrong / asked


@pytest.mark.parametrize("workload", ["hierarchy", "random"])
def test_the_mean_end_to_end_rate(workload: str) -> None:
    shares, bits_per_key, bytes_each = [], [], []
    for seed in range(BUILDS):
        world = World(workload, seed)
        shares.append(world.wrong_share(world.owner.filter, 500))
        bits_per_key.append(world.owner.filter.nbytes * 8 / world.owner.keys)
        bytes_each.append(len(world.owner.snapshot()) / SUBSCRIPTIONS[workload])
    assert fmean(bits_per_key) == pytest.approx(22.3, abs=0.5)
    assert fmean(shares) <= 1e-3
    if workload == "hierarchy":
        assert fmean(bytes_each) <= 11.0


def test_testing_the_ends_is_worth_its_bytes() -> None:
    """Few bits a key, so that accidents are common: naming them removes most of the wrong answers."""
    named, unnamed = [], []
    for seed in range(8):
        world = World("hierarchy", seed, bits_per_key=11, hashes=6)
        named.append(world.wrong_share(world.owner.filter, 800))
        bare = PrefixFilter(world.owner.filter.blocks, world.owner.filter.hashes, world.owner.filter.seed)
        bare.bits = world.owner.filter.bits
        bare.plus_depths = world.owner.filter.plus_depths
        bare.hash_depths = world.owner.filter.hash_depths
        bare.end_depths = world.owner.filter.end_depths
        unnamed.append(world.wrong_share(bare, 800))
        assert len(world.owner.filter.known_false) * 8 < world.owner.filter.nbytes / 10
    assert fmean(named) < fmean(unnamed) / 3


def test_no_filter_of_wildcards_alone_matches_by_accident() -> None:
    """`+/+/#` and its like are asked for by every topic: an accident there would match everything."""
    accidents = 0
    for seed in range(100):
        owner = LocalInterest(seed=seed, bits_per_key=4, hashes=3)
        for number in range(200):
            owner.subscribe(b"+/+/%d/x" % number)
        owner.flush()
        for depth in range(1, 5):
            path = path_key([b"+"] * depth, seed)
            for key in filter(owner.filter.has_key, (hash_key(path), end_key(path))):
                accidents += 1
                assert key in owner.filter.known_false
        assert not owner.filter.may_match(b"a/b")
    assert accidents > 10
