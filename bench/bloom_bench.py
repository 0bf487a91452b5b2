"""Interest filters: search time, many peers at once, size against wrong answers, and what the owner pays.

    python bench/bloom_bench.py [--quick] [--out bench/results/bloom.json]

Times are CPU time of the thread, the best of several rounds, the call from Python and the loop around it
included. Workloads are those of braidmq.sim.bloom: H is a hierarchy of shared levels, R the paper's random
topics. Half of the published topics have a subscription.
"""

import json
import platform
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Annotated

import cyclopts
from rich.console import Console
from rich.table import Table

from braidmq.sim.bloom.workloads import (
    HierarchySubscriptions,
    RandomSubscriptions,
    Subscription,
    random_topics,
)
from braidmq.topics import FilterTrie
from braidmq.topics.bloom import InterestIndex, LocalInterest, PrefixFilter
from braidmq.topics.bloom.prefix import search_each

SEED = 20_240_815
ROUNDS = 9
PUBLISHED = 20_000
PEERS = 64


@dataclass(frozen=True, slots=True)
class Goal:
    """A promise, what was measured, and whether it is kept."""

    text: str
    measured: float
    limit: float

    @property
    def kept(self) -> bool:
        return self.measured <= self.limit


@dataclass(frozen=True, slots=True)
class SearchRow:
    """One workload at one size: the filter beside the exact trie."""

    workload: str
    subscriptions: int
    filter_ns: float
    trie_ns: float
    filter_bytes: float
    trie_bytes: float
    text_bytes: float
    keys: float
    bits_per_key: float


@dataclass(frozen=True, slots=True)
class PeersRow:
    """One search for many peers against one search a peer."""

    peers: int
    subscriptions: int
    calls_ns: float
    loop_ns: float
    index_ns: float
    index_megabytes: float


@dataclass(frozen=True, slots=True)
class RateRow:
    """Bytes a subscription against wrong answers, over many filters."""

    workload: str
    subscriptions: int
    filters: int
    bytes_each: float
    wrong_mean: float
    wrong_max: float
    known_false: float


@dataclass(frozen=True, slots=True)
class OwnerRow:
    """What the owner pays."""

    workload: str
    subscriptions: int
    subscribe_us: float
    flush_one_us: float
    rebuild_ms: float
    snapshot_bytes: int
    delta_bytes: dict[str, float]


class Workload:
    """Subscriptions and topics, by seed."""

    def __init__(self, name: str, seed: int) -> None:
        self.name = name
        self.rng = random.Random(seed)
        self._topics = random_topics(self.rng, 6)
        self._hierarchy = HierarchySubscriptions()
        self._random = RandomSubscriptions(6, 0.5, wildcard_only=False)

    def subscriptions(self, count: int) -> list[Subscription]:
        return [self.subscription() for _ in range(count)]

    def subscription(self) -> Subscription:
        if self.name == "H":
            return self._hierarchy.draw(self.rng)
        return self._random.draw(self.rng, self._topics)

    def topic(self) -> bytes:
        return self._hierarchy.topic(self.rng) if self.name == "H" else b"/".join(next(self._topics))

    def published(self, subscriptions: Sequence[Subscription], count: int) -> list[bytes]:
        topics = [
            self.topic() if number % 2 else self.rng.choice(subscriptions).topic for number in range(count)
        ]
        # Copies that lie side by side: a broker finds its topics in its read buffer, not all over memory.
        return [bytes(bytearray(topic)) for topic in topics]


def best_ns(action: Callable[[], object], times: int, rounds: int = ROUNDS) -> float:
    """Nanoseconds for one of `times`, in the best round."""
    best = float("inf")
    for _ in range(rounds):
        start = time.thread_time_ns()
        action()
        best = min(best, time.thread_time_ns() - start)
    return best / times


def ask_all(ask: Callable[[bytes], object], topics: Sequence[bytes]) -> None:
    for topic in topics:
        ask(topic)


def owner_of(subscriptions: Sequence[Subscription], seed: int = SEED) -> LocalInterest:
    owner = LocalInterest(seed=seed)
    for subscription in subscriptions:
        owner.subscribe(subscription.filter)
    owner.flush()
    return owner


def trie_of(subscriptions: Sequence[Subscription]) -> FilterTrie:
    trie = FilterTrie()
    for subscription in subscriptions:
        trie.set(subscription.filter, True)
    return trie


def measure_search(name: str, count: int) -> SearchRow:
    workload = Workload(name, SEED)
    subscriptions = workload.subscriptions(count)
    topics = workload.published(subscriptions, PUBLISHED)
    owner, trie = owner_of(subscriptions), trie_of(subscriptions)
    filter = owner.filter
    return SearchRow(
        name,
        count,
        best_ns(lambda: ask_all(filter.may_match, topics), len(topics)),
        best_ns(lambda: ask_all(trie.match, topics), len(topics)),
        filter.nbytes / count,
        trie.memory_bytes / count,
        fmean(len(subscription.filter) for subscription in subscriptions),
        owner.keys / count,
        filter.nbytes * 8 / owner.keys,
    )


def measure_peers(peers: int, count: int) -> PeersRow:
    workload = Workload("H", SEED)
    index, filters, all_subscriptions = InterestIndex(seed=SEED), list[PrefixFilter](), list[Subscription]()
    for peer in range(peers):
        subscriptions = workload.subscriptions(count)
        owner = owner_of(subscriptions)
        index.receive(peer, owner.snapshot())
        filters.append(owner.filter)
        all_subscriptions += subscriptions
    while index.advance():
        pass
    topics = workload.published(all_subscriptions, 1_000)
    asks = [filter.may_match for filter in filters]

    def call_each() -> None:
        for topic in topics:
            for ask in asks:
                ask(topic)

    def loop_each() -> None:
        for topic in topics:
            search_each(filters, topic)

    calls = loop = together = float("inf")
    for _ in range(ROUNDS):  # in turns, so that a busy machine is busy for all of them
        calls = min(calls, best_ns(call_each, len(topics), 1))
        loop = min(loop, best_ns(loop_each, len(topics), 1))
        together = min(together, best_ns(lambda: ask_all(index.interested, topics), len(topics), 5))
    return PeersRow(peers, count, calls, loop, together, index.nbytes / 1e6)


def measure_rate(name: str, count: int, filters: int, asked: int) -> RateRow:
    wrong, sizes, named = list[float](), list[float](), list[int]()
    for number in range(filters):
        workload = Workload(name, SEED + number)
        subscriptions = workload.subscriptions(count)
        owner, trie = owner_of(subscriptions, workload.rng.getrandbits(64)), trie_of(subscriptions)
        unmatched = (topic for topic in unlimited(workload.topic) if not trie.match(topic))
        wrong.append(sum(owner.filter.may_match(next(unmatched)) for _ in range(asked)) / asked)
        sizes.append(len(owner.snapshot()) / count)
        named.append(len(owner.filter.known_false))
    return RateRow(name, count, filters, fmean(sizes), fmean(wrong), max(wrong), fmean(named))


def unlimited(make: Callable[[], bytes]) -> Iterator[bytes]:
    while True:
        yield make()


def measure_owner(name: str, count: int) -> OwnerRow:
    workload = Workload(name, SEED)
    subscriptions = workload.subscriptions(count)
    start = time.thread_time_ns()
    owner = LocalInterest(seed=SEED)
    for subscription in subscriptions:
        owner.subscribe(subscription.filter)
    subscribe_us = (time.thread_time_ns() - start) / count / 1e3
    start = time.thread_time_ns()
    owner.flush()
    rebuild_ms = (time.thread_time_ns() - start) / 1e6
    snapshot_bytes = len(owner.snapshot())
    deltas = {str(batch): delta_bytes(owner, workload, batch) for batch in (1, 10, 100, 1000)}
    return OwnerRow(
        name, count, subscribe_us, one_flush_us(owner, workload), rebuild_ms, snapshot_bytes, deltas)


def one_flush_us(owner: LocalInterest, workload: Workload) -> float:
    filters = [workload.subscription().filter for _ in range(200)]

    def come_and_go() -> None:
        for filter in filters:
            owner.subscribe(filter)
            owner.flush()
        for filter in filters:
            owner.unsubscribe(filter)
            owner.flush()

    return best_ns(come_and_go, 2 * len(filters), 3) / 1e3


def delta_bytes(owner: LocalInterest, workload: Workload, batch: int) -> float:
    """Bytes a subscription on the wire when so many come at once; they leave again unmeasured."""
    sizes = []
    for _ in range(max(1, 100 // batch)):
        filters = [workload.subscription().filter for _ in range(batch)]
        for filter in filters:
            owner.subscribe(filter)
        sizes.append(len(owner.flush() or b"") / batch)
        for filter in filters:
            owner.unsubscribe(filter)
        owner.flush()
    return fmean(sizes)


def goals(searches: Sequence[SearchRow], peers: Sequence[PeersRow], rates: Sequence[RateRow]) -> list[Goal]:
    by_size = {(row.workload, row.subscriptions): row for row in searches}
    widest = peers[-1]
    found = [
        Goal("ns a search, H, 6,000 subscriptions", by_size["H", 6_000].filter_ns, 350),
        Goal("ns a search, H, 100,000 subscriptions", by_size["H", 100_000].filter_ns, 650),
        Goal("64 peers: one search ÷ 64 calls", widest.index_ns / widest.calls_ns, 1 / 15),
        Goal("64 peers: ns a search", widest.index_ns, 2_000),
    ]
    for row in rates:
        found.append(Goal(f"{row.workload} {row.subscriptions:,}: wrong answers, mean", row.wrong_mean, 1e-3))
        if row.workload == "H":
            found.append(Goal(f"H {row.subscriptions:,}: bytes a subscription", row.bytes_each, 11.0))
    return found


def show(console: Console, title: str, rows: Sequence[object], formats: dict[str, str]) -> None:
    table = Table(title=title, title_justify="left")
    for name in formats:
        table.add_column(name.replace("_", " "), justify="right")
    for row in rows:
        table.add_row(*(format(getattr(row, name), spec) for name, spec in formats.items()))
    console.print(table)


def main(
    *,
    quick: Annotated[bool, cyclopts.Parameter(negative=())] = False,
    out: Path | None = None,
) -> int:
    """Measure interest filters against their goals.

    Parameters
    ----------
    quick
        Fewer filters and peers: a first look.
    out
        File for the results as JSON.
    """
    console = Console()
    searches = [measure_search(name, count) for name in "HR" for count in (6_000, 100_000)]
    show(console, "Search: filter and exact trie", searches, {
        "workload": "", "subscriptions": ",", "filter_ns": ".0f", "trie_ns": ".0f", "filter_bytes": ".1f",
        "trie_bytes": ".0f", "text_bytes": ".0f", "keys": ".2f", "bits_per_key": ".1f"})
    peers = [measure_peers(count, 6_000) for count in ((4, PEERS) if quick else (1, 4, 16, PEERS))]
    show(console, "Many peers of 6,000 subscriptions (H): calls one by one, a loop in C, one search", peers, {
        "peers": "", "calls_ns": ",.0f", "loop_ns": ",.0f", "index_ns": ",.0f", "index_megabytes": ".1f"})
    rates = [
        measure_rate("H", 6_000, 4 if quick else 40, 2_000),
        measure_rate("H", 100_000, 1 if quick else 6, 10_000),
        measure_rate("R", 6_000, 4 if quick else 20, 2_000),
    ]
    show(console, "Size against wrong answers (of topics that nothing matches)", rates, {
        "workload": "", "subscriptions": ",", "filters": "", "bytes_each": ".2f", "wrong_mean": ".1e",
        "wrong_max": ".1e", "known_false": ".1f"})
    owners = [measure_owner("H", count) for count in (6_000, 100_000)]
    show(console, "The owner's side (delta: bytes a subscription by batch)", owners, {
        "workload": "", "subscriptions": ",", "subscribe_us": ".1f", "flush_one_us": ".1f",
        "rebuild_ms": ".0f", "snapshot_bytes": ","})
    for row in owners:
        console.print(f"{row.subscriptions:,}: delta bytes by batch {row.delta_bytes}")
    found = goals(searches, peers, rates)
    table = Table(title="Goals", title_justify="left")
    for heading in ("goal", "limit", "measured", "kept"):
        table.add_column(heading)
    for goal in found:
        table.add_row(goal.text, f"≤ {goal.limit:.4g}", f"{goal.measured:.4g}", "yes" if goal.kept else "NO")
    console.print(table)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(record(searches, peers, rates, owners, found), indent=1) + "\n")
    return 0 if all(goal.kept for goal in found) else 1


def record(
    searches: Sequence[SearchRow],
    peers: Sequence[PeersRow],
    rates: Sequence[RateRow],
    owners: Sequence[OwnerRow],
    found: Sequence[Goal],
) -> dict[str, object]:
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "seed": SEED,
        "search": [asdict(row) for row in searches],
        "peers": [asdict(row) for row in peers],
        "rates": [asdict(row) for row in rates],
        "owner": [asdict(row) for row in owners],
        "goals": [{**asdict(goal), "kept": goal.kept} for goal in found],
    }


if __name__ == "__main__":
    sys.exit(cyclopts.run(main))
