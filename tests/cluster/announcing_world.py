"""Nodes that announce their interest over links that break, without sockets: one seed, one history."""

import random
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from braidmq.cluster import frames
from braidmq.cluster.announcing import (
    Announcing,
    AwaitSeen,
    FilterAppeared,
    FilterVanished,
    InterestAt,
    SendInterest,
    SessionAppeared,
    SessionVanished,
)
from braidmq.cluster.effects import RoutesChanged, SendControl, SendFrame
from braidmq.cluster.ledger import Seen
from braidmq.cluster.routing import BloomRouting, Mode, make_routing
from braidmq.topics import matches
from tests.topics.bloom.strategies import random_filter, random_topic

SEED = 3
TOPICS = 40


@dataclass
class Node:
    id: int
    part: Announcing
    boot: int = 1
    wanted: set[bytes] = field(default_factory=set)
    sessions: set[str] = field(default_factory=set)
    routes: dict[bytes, set[int]] = field(default_factory=dict)
    """The cache of the broker: cleared only when the part says so."""
    awaited: dict[int, bytes] = field(default_factory=dict)
    revoked: set[int] = field(default_factory=set)
    """Tokens of subscriptions that have ended since."""
    seen: list[Seen] = field(default_factory=list)

    def peers_for(self, topic: bytes) -> set[int]:
        if topic not in self.routes:
            self.routes[topic] = {hop.peer for hop in self.part.hops(topic)}
        return self.routes[topic]


class World:
    def __init__(self, nodes: int, seed: int, mode: Mode = "bloom", wait_ms: int = 200) -> None:
        self.rng = random.Random(seed)
        self.mode: Mode = mode
        self.wait_ms = wait_ms
        self.now = 100.0
        self.controls = frames.Controls((InterestAt, SendInterest))
        self.pipes: dict[tuple[int, int], deque[bytes]] = {}
        """From, to: there while the sender takes the link for open."""
        self.tokens = 0
        self.nodes = {node: Node(node, self.part(node, 1, nodes)) for node in range(nodes)}
        self.topics = [random_topic(self.rng).replace(b"$SYS", b"s") for _ in range(TOPICS)]

    def part(self, node: int, boot: int, nodes: int) -> Announcing:
        routing = make_routing(self.mode, me=node, seed=SEED, is_neighbour=lambda peer: True)
        remembered = [peer for peer in range(nodes) if peer != node]
        sessions = BloomRouting(SEED)
        return Announcing(routing, sessions, boot=boot, wait_ms=self.wait_ms, remembered=remembered)

    # -- what is done ----------------------------------------------------------------------------------------

    def carry_out(self, node: Node, effects: Iterable[object]) -> None:
        for effect in effects:
            match effect:
                case SendFrame(peer, frame) if (node.id, peer) in self.pipes:
                    self.pipes[node.id, peer].append(frame)
                case SendControl(peer, control) if (node.id, peer) in self.pipes:
                    self.pipes[node.id, peer].append(frames.control(control))
                case RoutesChanged():
                    node.routes.clear()
                case Seen():
                    self.check_seen(node, effect)

    def deliver(self, sender: int, receiver: int) -> None:
        """One frame of a link, if there is one."""
        pipe = self.pipes.get((sender, receiver))
        if not pipe or (receiver, sender) not in self.pipes:
            return
        frame = pipe.popleft()
        node = self.nodes[receiver]
        body = frame[len(frame) - _length(frame) :]
        if frame[0] == frames.CONTROL:
            self.carry_out(node, node.part.received(sender, self.controls.read(body), self.now))
        else:
            self.carry_out(node, node.part.framed(sender, frame[0], body, self.now))

    def link(self, one: int, other: int) -> None:
        if (one, other) not in self.pipes and (other, one) not in self.pipes:
            for here, there in ((one, other), (other, one)):
                self.pipes[here, there] = deque()
            for here, there in ((one, other), (other, one)):
                self.carry_out(self.nodes[here], self.nodes[here].part.linked(there, self.now))

    def cut(self, one: int, other: int) -> None:
        """One end notices, and what was under way is lost; the other end notices later."""
        if (one, other) in self.pipes:
            del self.pipes[one, other]
            if (other, one) in self.pipes:
                self.pipes[other, one].clear()
            self.carry_out(self.nodes[one], self.nodes[one].part.unlinked(other, self.now))

    def cut_both(self, one: int, other: int) -> None:
        self.cut(one, other)
        self.cut(other, one)

    def restart(self, node: int) -> None:
        for peer in self.nodes:
            if peer != node:
                self.cut_both(node, peer)
        former = self.nodes[node]
        part = self.part(node, former.boot + 1, len(self.nodes))
        self.nodes[node] = Node(node, part, former.boot + 1)
        for filter in list(former.wanted)[: len(former.wanted) // 2]:
            self.subscribe(node, filter)

    def subscribe(self, node: int, filter: bytes) -> int:
        here = self.nodes[node]
        if filter not in here.wanted:
            here.wanted.add(filter)
            self.carry_out(here, here.part.handle(FilterAppeared(filter), self.now))
        self.tokens += 1
        here.awaited[self.tokens] = filter
        self.carry_out(here, here.part.handle(AwaitSeen(self.tokens), self.now))
        return self.tokens

    def unsubscribe(self, node: int, filter: bytes) -> None:
        here = self.nodes[node]
        here.wanted.remove(filter)
        here.revoked.update(token for token, awaited in here.awaited.items() if awaited == filter)
        self.carry_out(here, here.part.handle(FilterVanished(filter), self.now))

    def turn_ended(self, node: int) -> None:
        self.carry_out(self.nodes[node], self.nodes[node].part.turn_ended(self.now))

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        for node in self.nodes.values():
            if node.part.next_at_s <= self.now:
                self.carry_out(node, node.part.time_came(self.now))

    def step(self) -> None:
        """Something happens."""
        rng = self.rng
        one, other = rng.sample(sorted(self.nodes), 2)
        here = self.nodes[one]
        match rng.choices(range(8), (20, 8, 20, 60, 8, 2, 4, 1))[0]:
            case 0:
                self.subscribe(one, random_filter(rng).replace(b"$SYS", b"s"))
            case 1 if here.wanted:
                self.unsubscribe(one, rng.choice(sorted(here.wanted)))
            case 2:
                self.turn_ended(one)
            case 3:
                for _ in range(rng.randint(1, 3)):
                    self.deliver(one, other)
            case 4:
                self.link(one, other)
            case 5:
                self.cut(one, other)
            case 6:
                self.pass_time(rng.choice((0.001, 0.004, 0.03, 0.3)))
            case 7:
                self.restart(one)
        for topic in rng.sample(self.topics, 3):
            here.peers_for(topic)

    def announce_session(self, node: int, client_id: str, is_there: bool) -> None:
        here = self.nodes[node]
        event = SessionAppeared(client_id) if is_there else SessionVanished(client_id)
        (here.sessions.add if is_there else here.sessions.discard)(client_id)
        self.carry_out(here, here.part.handle(event, self.now))

    def heal(self) -> None:
        """All links stand, and everything that is under way arrives."""
        for one in self.nodes:
            for other in range(one):
                if not ((one, other) in self.pipes and (other, one) in self.pipes):
                    self.cut_both(one, other)
                    self.link(one, other)
        self.settle()

    def settle(self) -> None:
        for _ in range(12):
            for node in self.nodes:
                self.turn_ended(node)
            while any(
                pipe for (sender, receiver), pipe in self.pipes.items() if (receiver, sender) in self.pipes
            ):
                for sender, receiver in list(self.pipes):
                    self.deliver(sender, receiver)
            self.pass_time(0.25)

    # -- what must hold --------------------------------------------------------------------------------------

    def check_seen(self, node: Node, seen: Seen) -> None:
        """What is published after the answer at any linked peer comes here."""
        node.seen.append(seen)
        filter = node.awaited.pop(seen.token)
        if seen.is_late or seen.token in node.revoked or not self.wait_ms:
            return
        for peer in self.nodes.values():
            if peer is not node and (node.id, peer.id) in self.pipes and (peer.id, node.id) in self.pipes:
                for topic in self.topics:
                    if matches(filter, topic):
                        assert node.id in peer.peers_for(topic), (filter, topic)

    def check_index(self) -> None:
        """Everybody knows exactly what everybody announces."""
        for here in self.nodes.values():
            assert not here.awaited
            for there in self.nodes.values():
                if here is not there:
                    assert here.part.routing.in_step(there.id)
            for topic in self.topics:
                expected = {
                    peer.id
                    for peer in self.nodes.values()
                    if peer is not here and any(matches(filter, topic) for filter in peer.wanted)
                }
                found = here.peers_for(topic)
                assert found >= expected
                if self.mode == "full":
                    assert found == expected
                else:
                    self.check_bits(here)

    def check_bits(self, here: Node) -> None:
        for there in self.nodes.values():
            if there is not here:
                mine, theirs = here.part.routing, there.part.routing
                assert isinstance(mine, BloomRouting)
                assert isinstance(theirs, BloomRouting)
                assert mine.index.bits(there.id) == theirs.local.filter.bits


def _length(frame: bytes) -> int:
    """MQTT's remaining length."""
    length = shift = 0
    for byte in frame[1:5]:
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    return length
