"""A broker that questions filters for every PUBLISH it gets, as the paper did with its broker for figure 7.

python -m bench.probing_broker PORT --queries 100      100 questions to a Bloom filter of 10,000 elements
python -m bench.probing_broker PORT --method prefix    one search as that method does it, for 6,000 filters

The product has no such knob: an onlooker is told of every message before it is delivered, and this one takes
its time. With an onlooker every message takes the general way, also with 0 questions.
"""

import argparse
import random
from collections.abc import Callable
from itertools import islice
from typing import Any

from braidmq import node
from braidmq.broker.broker import Broker
from braidmq.broker.events import Event, Published
from braidmq.config import Config, Listener, StoreConfig
from braidmq.sim.bloom.workloads import RandomSubscriptions, random_topics
from braidmq.topics.bloom import ExactTrie, InterestMethod, NaiveBloom, PatternBloom, PrefixBloom
from braidmq.topics.bloom.classic import ClassicBloom

ELEMENTS = 10_000  # of the paper's filter,
ELEMENT_CHARACTERS = 100
RATE = 0.001
FILTERS = 6_000
LEVELS = 10  # where the methods differ most
WILDCARD_PROBABILITY = 0.2

METHODS: dict[str, Callable[[], InterestMethod]] = {
    "BF": lambda: NaiveBloom(FILTERS, RATE),
    "BFP": lambda: PatternBloom(FILTERS, RATE),
    "prefix": PrefixBloom,
    "trie": ExactTrie,
}


class Onlooker:
    """Does `work` for every message."""

    wants = frozenset({Published})

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work

    def observe(self, event: Event) -> None:
        self._work()


def questions(count: int, rng: random.Random) -> Callable[[], object]:
    """So many questions, each for another element that is not there."""
    bloom = ClassicBloom.sized(ELEMENTS, RATE)
    for _ in range(ELEMENTS):
        bloom.add(rng.randbytes(ELEMENT_CHARACTERS // 2).hex().encode())
    absent = [rng.randbytes(ELEMENT_CHARACTERS // 2).hex().encode() for _ in range(count)]
    return lambda: sum(element in bloom for element in absent)


def search(name: str, rng: random.Random) -> Callable[[], object]:
    """One search for a topic that nobody wants: the usual case between brokers, and the longest."""
    method = METHODS[name]()
    drawn = RandomSubscriptions(LEVELS, WILDCARD_PROBABILITY, wildcard_only=False)
    topics = random_topics(rng, LEVELS)
    for _ in range(FILTERS):
        method.add(drawn.draw(rng, topics).filter)
    published = [b"/".join(levels) for levels in islice(topics, 64)]
    following = iter(())

    def work() -> object:
        nonlocal following
        topic: Any = next(following, None)
        if topic is None:
            following = iter(published)
            topic = next(following)
        return method.may_match(topic)

    return work


def main() -> None:
    parser = argparse.ArgumentParser(description="A broker that questions filters for every PUBLISH.")
    parser.add_argument("port", type=int)
    kind = parser.add_mutually_exclusive_group(required=True)
    kind.add_argument("--queries", type=int)
    kind.add_argument("--method", choices=METHODS)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    rng = random.Random(given.seed)
    work = search(given.method, rng) if given.method else questions(given.queries, rng)
    make_plain = node.make_broker

    def make_probing(*parts: Any) -> Broker:
        broker = make_plain(*parts)
        broker.add_observer(Onlooker(work))
        return broker

    node.make_broker = make_probing
    node.run(Config(listeners=(Listener(port=given.port),), store=StoreConfig(in_memory=True)))


if __name__ == "__main__":
    main()
