"""What the routing modes of a cluster cost, counted: `python -m bench.cluster_routing` (`--seed`).

No sockets and no clock: nodes that have announced their subscriptions to each other are asked where messages
go. So the numbers are the same on every machine. docs/experiments/cluster.md has them.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import cyclopts
from rich.console import Console
from rich.table import Table

from braidmq.cluster.hops import Routing
from braidmq.cluster.relaying import RecentNumbers
from braidmq.cluster.routing import BloomRouting, FullRouting, Mode, make_routing
from braidmq.sim.bloom.workloads import HierarchySubscriptions
from braidmq.topics import FilterTrie
from braidmq.wire import V5, Publish, encode

NODES: Final = 8
SUBSCRIPTIONS: Final = 10_000
PUBLISHED: Final = 20_000
PAYLOAD: Final = bytes(100)
MODES: Final[tuple[Mode, ...]] = ("bloom", "full", "flood", "tree")
# Around the frames of a relayed message: first byte, length, flags, and its origin and number.
RELAYED_BYTES: Final = 1 + 2 + 1 + 8 + 8
SEEN_BYTES: Final = 6


class Net:
    """Nodes that have told each other what they want."""

    def __init__(self, mode: Mode, wanted: Sequence[Sequence[bytes]], *, in_ring: bool = False) -> None:
        """Neighbours, for flooding, are all others, or those beside a node in a ring."""
        count = len(wanted)

        def routing(node: int) -> Routing:
            near = {(node + 1) % count, (node - 1) % count} if in_ring else set(range(count))
            return make_routing(mode, me=node, seed=17, is_neighbour=near.__contains__)

        self.routings = [routing(node) for node in range(count)]
        self.announced_bytes = 0
        for node, filters in enumerate(wanted):
            for filter in filters:
                self.routings[node].wanted(filter)
            self._announce(node)

    def _announce(self, node: int) -> None:
        owner = self.routings[node]
        owner.announcement()
        while owner.advance():
            pass
        owner.announcement()
        snapshot = owner.snapshot()
        for peer, routing in enumerate(self.routings):
            if peer != node:
                routing.joined(node)
                if routing.announces:
                    routing.receive(node, snapshot)
                    self.announced_bytes += len(snapshot) + SEEN_BYTES

    def publish(self, origin: int, topic: bytes, frame_bytes: int) -> tuple[int, int]:
        """How many messages go from broker to broker, and how many bytes."""
        routing = self.routings[origin]
        if not routing.relays:
            count = len(routing.hops(topic))
            return count, count * frame_bytes
        count = 0
        windows = [RecentNumbers() for _ in self.routings]
        windows[origin].is_new(1)
        under_way = [(origin, hop.peer) for hop in routing.hops(topic)]
        while under_way:
            sender, node = under_way.pop()
            count += 1
            if windows[node].is_new(1):
                under_way += [(node, hop.peer) for hop in self.routings[node].onward(topic, sender)]
        return count, count * (frame_bytes + RELAYED_BYTES)


def frame_bytes(topic: bytes) -> int:
    return len(encode(Publish(topic.decode(), PAYLOAD, 0), V5))


# -- what goes between brokers -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TrafficRow:
    mode: str
    interested: int
    messages: float
    bytes: float


def traffic(seed: int, interested: int) -> list[TrafficRow]:
    """Topics that so many nodes want, each published once at a node that is none of them."""
    rng = random.Random(f"{seed} traffic {interested}")
    wanted: list[list[bytes]] = [[] for _ in range(NODES)]
    published = []
    for number in range(SUBSCRIPTIONS):
        topic = b"site/%d/room/%d/value" % (number % 100, number)
        publisher, *wanting = rng.sample(range(NODES), interested + 1)
        for node in wanting:
            wanted[node].append(topic)
        published.append((publisher, topic))
    rows = []
    nets: dict[str, Net] = {mode: Net(mode, wanted) for mode in MODES}
    nets["flood in a ring"] = Net("flood", wanted, in_ring=True)
    for mode, net in nets.items():
        sent = [net.publish(node, topic, frame_bytes(topic)) for node, topic in published]
        messages, size = (sum(column) / len(published) for column in zip(*sent, strict=True))
        rows.append(TrafficRow(mode, interested, messages, size))
    return rows


# -- what goes where nobody wants it -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class UnwantedRow:
    mode: Mode
    workload: str
    forwards: int
    unwanted: int
    asked: int
    announced_bytes: int

    @property
    def share(self) -> float:
        """Of the times that a peer did not want a topic."""
        return self.unwanted / self.asked


def unwanted(seed: int, name: str, plus_anywhere: float) -> list[UnwantedRow]:
    """Subscriptions in site/building/floor/room/device/metric; topics of which a half is surely wanted."""
    rng = random.Random(f"{seed} unwanted {name}")
    source = HierarchySubscriptions(plus_anywhere)
    drawn = [[source.draw(rng) for _ in range(SUBSCRIPTIONS)] for _ in range(NODES)]
    wanted = [sorted({subscription.filter for subscription in one}) for one in drawn]
    tries = [trie_of(filters) for filters in wanted]
    published = []
    for number in range(PUBLISHED):
        topic = source.topic(rng) if number % 2 else rng.choice(rng.choice(drawn)).topic
        published.append((rng.randrange(NODES), topic))
    rows = []
    for mode in ("bloom", "full"):
        net = Net(mode, wanted)
        forwards = wrong = asked = 0
        for node, topic in published:
            interested = {peer for peer, trie in enumerate(tries) if peer != node and trie.match(topic)}
            found = {hop.peer for hop in net.routings[node].hops(topic)}
            assert found >= interested, "a message would be lost"
            forwards += len(found)
            wrong += len(found - interested)
            asked += NODES - 1 - len(interested)
        announced_bytes = net.announced_bytes // (NODES * (NODES - 1))
        rows.append(UnwantedRow(mode, name, forwards, wrong, asked, announced_bytes))
    return rows


def trie_of(filters: Sequence[bytes]) -> FilterTrie:
    trie = FilterTrie()
    for filter in filters:
        trie.set(filter, True)
    return trie


# -- what it takes to remember -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MemoryRow:
    peers: int
    subscriptions: int
    bloom_bytes: float
    full_bytes: float


def memory(seed: int, peers: int, subscriptions: int) -> MemoryRow:
    """At one node, for each subscription of each peer."""
    rng = random.Random(f"{seed} memory {peers}")
    source = HierarchySubscriptions()
    bloom, full = BloomRouting(17), FullRouting()
    held = 0
    for peer in range(peers):
        filters = {source.draw(rng).filter for _ in range(subscriptions)}
        held += len(filters)
        for here, there in ((bloom, BloomRouting(17)), (full, FullRouting())):
            for filter in filters:
                there.wanted(filter)
            there.announcement()
            while there.advance():
                pass
            there.announcement()
            here.joined(peer)
            here.receive(peer, there.snapshot())
    while bloom.advance():
        pass
    return MemoryRow(peers, subscriptions, bloom.memory_bytes / held, full.memory_bytes / held)


# -- tables --------------------------------------------------------------------------------------------------


def show(console: Console, title: str, heading: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    table = Table(title=title, title_justify="left")
    for name in heading:
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*(f"{cell:.2f}" if isinstance(cell, float) else f"{cell}" for cell in row))
    console.print(table)


def main(seed: int = 1) -> None:
    """Count and print; every table comes from the seed alone."""
    console = Console()
    rows = [row for interested in (1, 3) for row in traffic(seed, interested)]
    show(console, f"{NODES} nodes, {len(PAYLOAD)} bytes a message: between brokers, for each one published",
         ("interested", "mode", "messages", "bytes"),
         [(row.interested, row.mode, row.messages, row.bytes) for row in rows])
    found = [*unwanted(seed, "+ from level 3 on", 0.0), *unwanted(seed, "+ anywhere", 1.0)]
    show(console, f"{NODES} nodes with {SUBSCRIPTIONS} subscriptions each, {PUBLISHED} messages",
         ("workload", "mode", "forwards", "unwanted", "of those not wanted, %", "bytes to announce all"),
         [(row.workload, row.mode, row.forwards, row.unwanted, f"{100 * row.share:.4f}", row.announced_bytes)
          for row in found])
    kept = [memory(seed, peers, subscriptions) for peers, subscriptions in SIZES]
    show(console, "Memory at one node, bytes for each subscription of a peer",
         ("peers", "subscriptions each", "bloom", "full"),
         [(row.peers, row.subscriptions, row.bloom_bytes, row.full_bytes) for row in kept])


SIZES: Final = (
    *((7, subscriptions) for subscriptions in (7_500, 8_000, 10_000, 14_000)),
    (2, 50_000), (15, 6_600), (16, 6_600), (64, 1_500), (64, 10_000),
)

if __name__ == "__main__":
    run: Callable[..., object] = main
    cyclopts.run(run)
