"""Nodes with retained messages that heal what partitions, losses and deletions have made different."""

import random
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import reduce
from hashlib import blake2b
from operator import xor

from braidmq.cluster import frames
from braidmq.cluster.clock import HybridClock, milliseconds
from braidmq.cluster.effects import Enter, SendControl
from braidmq.cluster.retained import BUCKETS, Healing
from braidmq.messages.message import Message
from tests.broker.world import World as BrokerWorld

EPOCH_S = 1_700_000_000.0


@dataclass(frozen=True)
class Entry:
    """Stands for a message."""

    topic: bytes
    payload: bytes
    stamp: tuple[int, int]


def topic_hash(topic: bytes) -> int:
    return int.from_bytes(blake2b(topic, digest_size=8).digest(), "little")


def entry_hash(entry: Entry) -> int:
    stamped = entry.topic + b"%d %d" % entry.stamp
    return int.from_bytes(blake2b(stamped, digest_size=8).digest(), "little")


class Shelf:
    """The plainest thing that retains."""

    def __init__(self) -> None:
        self.buckets: list[dict[int, Entry]] = [{} for _ in range(BUCKETS)]
        self.swept_before_ms = 0

    @property
    def entries(self) -> list[Entry]:
        return [entry for bucket in self.buckets for entry in bucket.values()]

    def keep(self, entry: Entry) -> None:
        key = topic_hash(entry.topic)
        bucket = self.buckets[key % BUCKETS]
        former = bucket.get(key)
        if former is not None and former.stamp >= entry.stamp:
            return
        bucket.pop(key, None)
        if entry.payload or milliseconds(entry.stamp[0]) >= self.swept_before_ms:
            bucket[key] = entry

    def digests(self) -> list[int]:
        return [reduce(xor, map(entry_hash, bucket.values()), 0) for bucket in self.buckets]

    def stamps(self, bucket: int) -> Iterable[tuple[int, int, int]]:
        return [(key, *entry.stamp) for key, entry in self.buckets[bucket].items()]

    def message(self, topic: int) -> Entry | None:
        return self.buckets[topic % BUCKETS].get(topic)

    def drop(self, topic: int) -> None:
        self.buckets[topic % BUCKETS].pop(topic, None)

    def sweep(self, before_ms: int) -> None:
        self.swept_before_ms = before_ms
        for entry in self.entries:
            if not entry.payload and milliseconds(entry.stamp[0]) < before_ms:
                self.drop(topic_hash(entry.topic))

    def living(self) -> dict[bytes, bytes]:
        return {entry.topic: entry.payload for entry in self.entries if entry.payload}


class BrokersShelf(Shelf):
    """The real one."""

    def __init__(self) -> None:
        self.retained = BrokerWorld().broker.retained
        self.compared = self.retained.share(b"a key", 1, lambda hlc: None)
        self.digests = self.compared.digests  # type: ignore[method-assign]
        self.stamps = self.compared.stamps  # type: ignore[method-assign]
        self.message = self.compared.message  # type: ignore[method-assign,assignment]
        self.drop = self.compared.drop  # type: ignore[method-assign]
        self.sweep = self.compared.sweep  # type: ignore[method-assign]

    def keep(self, entry: Entry) -> None:
        message = Message(entry.topic, entry.payload, 1, True)
        message.stamp = entry.stamp
        self.retained.keep_from_peer(message)

    def living(self) -> dict[bytes, bytes]:
        return {topic: message.payload for topic, message in self.retained.all()}


@dataclass
class Node:
    id: int
    clock: HybridClock
    shelf: Shelf
    part: Healing
    effects_at_a_time_max: int = 0


@dataclass
class Pipe:
    controls: deque[bytes] = field(default_factory=deque)
    entries: deque[Entry] = field(default_factory=deque)
    """The reliable stream: it outlives the link."""


class World:
    def __init__(
        self,
        nodes: int,
        seed: int,
        tombstone_s: float = 86_400.0,
        skew_s: float = 30.0,
        shelf: type[Shelf] = Shelf,
    ) -> None:
        self.rng = random.Random(seed)
        self.shelf = shelf
        self.now = 1000.0
        self.tombstone_s = tombstone_s
        self.controls = frames.Controls(Healing.controls)
        self.nodes = {id: self.node(id, self.rng.uniform(-skew_s, skew_s)) for id in range(1, nodes + 1)}
        self.pipes = {(one, other): Pipe() for one in self.nodes for other in self.nodes if one != other}
        self.linked: set[tuple[int, int]] = set()  # the smaller id first
        self.published: dict[bytes, Entry] = {}  # the newest of each topic, wherever

    def node(self, id: int, skew_s: float) -> Node:
        clock, shelf = HybridClock(EPOCH_S + skew_s), self.shelf()
        return Node(id, clock, shelf, Healing(id, shelf, clock, self.tombstone_s, self.now))  # type: ignore[arg-type]

    def publish(self, node: int, topic: bytes, payload: bytes, reaching: float = 1.0) -> None:
        """With a probability `reaching` a peer gets it by its stream, now or later."""
        here = self.nodes[node]
        entry = Entry(topic, payload, (here.clock.tick(self.now), node))
        here.shelf.keep(entry)
        if topic not in self.published or self.published[topic].stamp < entry.stamp:
            self.published[topic] = entry
        for peer in self.nodes:
            if peer != node and self.rng.random() < reaching:
                self.pipes[node, peer].entries.append(entry)

    def link(self, one: int, other: int) -> None:
        pair = (min(one, other), max(one, other))
        if pair not in self.linked:
            self.linked.add(pair)
            for here, there in (pair, pair[::-1]):
                self.carry_out(here, self.nodes[here].part.linked(there, self.now))

    def cut(self, one: int, other: int) -> None:
        pair = (min(one, other), max(one, other))
        if pair in self.linked:
            self.linked.remove(pair)
            for here, there in (pair, pair[::-1]):
                self.pipes[here, there].controls.clear()
                self.carry_out(here, self.nodes[here].part.unlinked(there, self.now))

    def cut_all(self) -> None:
        for pair in sorted(self.linked):
            self.cut(*pair)

    def link_all(self) -> None:
        for one in self.nodes:
            for other in self.nodes:
                if one < other:
                    self.link(one, other)

    def carry_out(self, node: int, effects: Iterable[object]) -> None:
        count = 0
        for effect in effects:
            count += 1
            if isinstance(effect, SendControl):
                self.pipes[node, effect.peer].controls.append(frames.control(effect.control))
            elif isinstance(effect, Enter):
                assert effect.route == b"\0\0", "only to be retained"
                self.pipes[node, effect.peer].entries.append(effect.message)  # type: ignore[arg-type]
        here = self.nodes[node]
        here.effects_at_a_time_max = max(here.effects_at_a_time_max, count)

    def deliver(self, sender: int, receiver: int, most: int = 1_000_000) -> None:
        if (min(sender, receiver), max(sender, receiver)) not in self.linked:
            return
        pipe, node = self.pipes[sender, receiver], self.nodes[receiver]
        for _ in range(min(most, len(pipe.entries))):
            entry = pipe.entries.popleft()
            node.clock.seen(entry.stamp[0], self.now)
            node.shelf.keep(entry)
        for _ in range(min(most, len(pipe.controls))):
            frame = pipe.controls.popleft()
            body = frame[2 if frame[1] < 0x80 else 3 if frame[2] < 0x80 else 4 :]
            self.carry_out(receiver, node.part.received(sender, self.controls.read(body), self.now))

    def pass_time(self, seconds: float) -> None:
        """In one step, as after a sleep."""
        self.now += seconds
        for id, node in self.nodes.items():
            if node.part.next_at_s <= self.now:
                self.carry_out(id, node.part.time_came(self.now))

    def run(self, seconds: float, step_s: float = 0.05) -> None:
        end_s = self.now + seconds
        while self.now < end_s:
            self.pass_time(step_s)
            for sender, receiver in self.pipes:
                self.deliver(sender, receiver)

    def step(self) -> None:
        rng = self.rng
        one, other = rng.sample(sorted(self.nodes), 2)
        match rng.choices(range(5), (10, 20, 3, 3, 6))[0]:
            case 0:
                payload = b"" if rng.random() < 0.3 else b"%d" % rng.randrange(1000)
                self.publish(one, b"t/%d" % rng.randrange(60), payload, reaching=0.7)
            case 1:
                self.deliver(one, other, rng.randint(1, 5))
            case 2:
                self.link(one, other)
            case 3:
                self.cut(one, other)
            case 4:
                self.pass_time(rng.choice((0.001, 0.1, 3.0, 300.0)))
