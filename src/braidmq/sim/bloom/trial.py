"""One run of the paper's simulation: a set of subscriptions, a published topic or some, and the questions
asked.

The filters are made so large that they don't lie (one wrong answer in 10^8 and fewer), as in the paper, whose
averages can't be had otherwise. Every answer is held against the exact trie.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from braidmq.sim.bloom.printed import PrintedPrefixes
from braidmq.sim.bloom.workloads import RandomSubscriptions, Subscription, random_topics
from braidmq.topics import matches
from braidmq.topics.bloom import (
    ExactTrie,
    InterestMethod,
    NaiveBloom,
    PatternBloom,
    PrefixBloom,
    QueryCounter,
)

BF, BFP, PREFIX, BROKER, PRINTED = "BF", "BFP", "prefix", "prefix as the broker asks", "prefix as printed"
METHODS = (BF, BFP, PREFIX, BROKER, PRINTED)

_RARE = 1e-10
_BITS_PER_KEY, _HASHES = 64, 14


class Mode(Enum):
    """What is subscribed to and published."""

    WITH_WILDCARD_ONLY = "with wildcard-only filters"
    WITHOUT_WILDCARD_ONLY = "without wildcard-only filters"
    NO_MATCH = "without a match"
    MATCH_EXISTS = "a match exists"


@dataclass(frozen=True, slots=True)
class Parameters:
    """The paper's table III, and the mode."""

    mode: Mode
    topics: int = 6000
    levels: int = 6
    wildcard_probability: float = 0.5
    first_wildcard_level: int = 0


@dataclass(frozen=True, slots=True)
class Task:
    """What a trial is a function of."""

    parameters: Parameters
    seed: int
    published: int = 1


@dataclass(frozen=True, slots=True)
class TrialResult:
    """Questions per published topic by method, and how it went."""

    queries: dict[str, float]
    published: int
    matched: int
    missed_as_printed: int
    """Topics that have a match which the printed algorithm doesn't find."""


class Contest:
    """One set of subscriptions, held by every method."""

    def __init__(self, subscriptions: list[bytes], levels: int) -> None:
        elements = 2 * len(subscriptions)
        self._naive = NaiveBloom(elements, _RARE)
        self._patterns = PatternBloom(elements, _RARE)
        keys = len(subscriptions) * (levels + 1)
        self._prefix = PrefixBloom(keys, bits_per_key=_BITS_PER_KEY, hashes=_HASHES)
        self._printed = PrintedPrefixes()
        self._truth = ExactTrie()
        for filter in subscriptions:
            for method in (self._naive, self._patterns, self._prefix, self._printed, self._truth):
                method.add(filter)

    def matches(self, topic: bytes) -> bool:
        return self._truth.may_match(topic)

    def publish(self, topic: bytes) -> tuple[dict[str, int], bool, bool]:
        """Questions by method, whether anything matches, and whether the printed algorithm sees that."""
        truth = self.matches(topic)
        printed_found, printed_queries = self._printed.search(topic)
        queries = {PRINTED: printed_queries}
        methods: dict[str, InterestMethod] = {
            BF: self._naive, BFP: self._patterns, PREFIX: self._prefix, BROKER: self._prefix}
        for name, method in methods.items():
            self._prefix.as_in_paper = name == PREFIX
            counter = QueryCounter()
            if method.may_match(topic, counter) != truth:
                raise AssertionError(f"{name} is wrong about {topic!r}")
            queries[name] = counter.queries
        return queries, truth, printed_found


def run_trial(task: Task) -> TrialResult:
    rng = random.Random(task.seed)
    parameters = task.parameters
    topics = random_topics(rng, parameters.levels)
    published = [b"/".join(next(topics)) for _ in range(task.published)]
    subscriptions = draw_subscriptions(rng, topics, parameters, published)
    if parameters.mode is Mode.MATCH_EXISTS:
        published = [rng.choice(subscriptions).topic for _ in range(task.published)]
    contest = Contest([subscription.filter for subscription in subscriptions], parameters.levels)
    return contend(contest, published)


def contend(contest: Contest, published: list[bytes]) -> TrialResult:
    """Publish every topic and average the questions."""
    total = dict.fromkeys(METHODS, 0)
    matched = missed = 0
    for topic in published:
        queries, truth, printed_found = contest.publish(topic)
        matched += truth
        missed += truth and not printed_found
        for name, count in queries.items():
            total[name] += count
    averages = {name: count / len(published) for name, count in total.items()}
    return TrialResult(averages, len(published), matched, missed)


def draw_subscriptions(
    rng: random.Random, topics: Iterator[list[bytes]], parameters: Parameters, published: list[bytes]
) -> list[Subscription]:
    source = RandomSubscriptions(
        parameters.levels,
        parameters.wildcard_probability,
        parameters.first_wildcard_level,
        wildcard_only=parameters.mode is Mode.WITH_WILDCARD_ONLY,
    )
    drawn: list[Subscription] = []
    while len(drawn) < parameters.topics:
        candidate = source.draw(rng, topics)
        if parameters.mode is Mode.NO_MATCH and any(matches(candidate.filter, topic) for topic in published):
            continue
        drawn.append(candidate)
    return drawn
