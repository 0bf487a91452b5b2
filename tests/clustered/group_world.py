"""Brokers that share groups, joined by ordered links that can be cut: entries survive that, frames don't."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from braidmq.broker.restoring import living, restore
from braidmq.cluster.effects import Enter, RoutesChanged, SendControl, SendFrame
from braidmq.cluster.groups import Groups, route_of
from braidmq.cluster.members import State as Standing
from braidmq.clustered.groups import GROUP_ENTRY, PUBLISHED, SharedGroups
from braidmq.config.groups import GroupsConfig
from braidmq.messages.message import Message
from braidmq.store.decoding import Decoder
from braidmq.store.encoding import Encoder
from braidmq.store.records import Record
from braidmq.store.state import State
from braidmq.wire import (
    Connack,
    Connect,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Subscription,
    Unsubscribe,
)
from tests.broker.world import Client, World

KEY = b"k" * 32
FILTER = "$share/crew/t/#"


class Ledger:
    """Numbers announcements, as `announcing` does."""

    def __init__(self) -> None:
        self.last: dict[int, int] = {}

    def __iter__(self) -> Any:
        return iter(list(self.last))

    def number(self, peer: int) -> int:
        self.last[peer] += 1
        return self.last[peer]

    greeting = number


class KeepingStore:
    """Keeps every turn at once, as records."""

    is_failing = False
    pages = None

    def __init__(self) -> None:
        self.journal = Encoder(0.0)
        self.kept: list[Record] = []
        self._decoder = Decoder(0.0)

    def load(self) -> State:
        return State()

    def checkpoint_from(self, living: Any) -> None:
        pass

    def commit(self, turn: bytes, kept: Callable[[], None]) -> None:
        self.kept += self._decoder.decode(turn)
        kept()

    def close(self) -> None:
        pass


class GroupNode(World):
    """A broker, its part of the cluster that knows groups, and what joins them."""

    def __init__(
        self, net: "Net", me: int, config: GroupsConfig, boot: int = 1, before: list[Record] | None = None
    ) -> None:
        self.keeping = KeepingStore() if net.is_durable else None
        super().__init__(self.keeping)
        if before is not None:
            self.restore(before, net.now)
        self.net = net
        self.boot = boot
        self.me = me
        self.now = net.now
        self.states: dict[int, Standing] = {}
        self.ledger = Ledger()
        self.part = Groups(me, KEY, self, self.ledger)
        self.broker.groups.configure(config)
        self.pass_time(0)
        self.groups = SharedGroups(
            self.broker, self.part, self.tell, self.enter, lambda: list(self.states), me=me, boot=boot
        )
        self.groups.start()

    def restore(self, records: list[Record], now: float) -> None:
        state = State()
        state.apply(records)
        self.broker.groups.orphans = {}
        restore(self.broker, state, now)
        assert self.keeping is not None
        self.keeping.kept = [record for part in living(self.broker) for record in part] + self.keeping.kept

    def state(self, peer: int) -> Standing:
        return self.states.get(peer, Standing.FORGOTTEN)

    def tell(self, event: object) -> None:
        self.obey(self.part.handle(event, self.now))

    def enter(self, effect: Enter) -> None:
        if effect.peer in self.states:
            self.net.enter(self.me, effect)

    def obey(self, effects: Any) -> None:
        for effect in effects:
            match effect:
                case SendControl(peer, control):
                    self.net.send(self.me, peer, control)
                case SendFrame() | RoutesChanged():
                    pass
                case _:
                    self.groups.hands[type(effect)](effect)

    def end_turn(self) -> None:
        self.broker.hub.end_turn()
        if self.part.dirty:
            self.obey(self.part.announce(self.ledger))
        self.obey(self.part.turn_ended(self.now))

    def pass_time_to(self, now: float) -> None:
        if now > self.now:
            self.now = now
            self.broker.advance(now)
            self.end_turn()

    def take(self, peer: int, what: Any) -> None:
        self.broker.turn(self.now)
        if not isinstance(what, Enter):
            self.obey(self.part.received(peer, what, self.now))
        elif what.kind == GROUP_ENTRY:
            self.groups.entered(peer, what.head, what.message and copied(what.message))
        else:
            assert what.kind == PUBLISHED
            assert what.message is not None
            for number in groups_of(what.route):
                self.broker.groups.deliver_to(number, copied(what.message), what.route[1])
        self.end_turn()

    def publish(self, topic: str, payload: bytes, qos: int, publisher: str = "somebody") -> None:
        message = Message(topic.encode(), payload, qos, publisher=publisher)
        self.broker.turn(self.now)
        self.broker.publishing.publish(message)
        for peer, numbers in self.part.hops(topic.encode()).items():
            self.enter(Enter(peer, PUBLISHED, b"", message, route_of(is_plain=False, groups=numbers)))
        self.end_turn()

    def dropped(self, why: str) -> int:
        return self.broker.hub.counters.by_name()[f"dropped_{why}"]

    def check(self) -> None:
        super().check()
        for proxy in self.broker.groups.proxies:
            proxy.check()
        assert self.broker.groups.far is not None
        self.broker.groups.far.check()


def copied(message: Message) -> Message:
    """As it comes out of a link: each store counts the messages that it has written by themselves."""
    return Message(message.topic, message.payload, message.qos, publisher=message.publisher)


def groups_of(route: bytes) -> list[int]:
    return [int.from_bytes(route[at : at + 8], "little") for at in range(3, len(route), 8)]


class Net:
    """Time passes when something arrives. `delay_s`: of a link, at most."""

    def __init__(
        self, count: int, seed: int = 0, delay_s: float = 0.005, config: Any = None, is_durable: bool = False
    ) -> None:
        self.now = 1000.0
        self.is_durable = is_durable
        self.rng = Random(seed)
        self.delay_s = delay_s
        self.config = config or GroupsConfig(policy="round_robin")
        self.links: dict[tuple[int, int], deque[tuple[float, Any]]] = {}  # what is under way
        self.streams: dict[tuple[int, int], deque[Enter]] = {}  # entries that have not arrived
        self.nodes: dict[int, GroupNode] = {}
        for me in range(1, count + 1):
            self.add(me)

    def add(self, me: int) -> GroupNode:
        node = GroupNode(self, me, self.config)
        for other in list(self.nodes):
            self.streams[me, other], self.streams[other, me] = deque(), deque()
        self.nodes[me] = node
        for other in list(self.nodes):
            if other != me:
                self.link(me, other)
        return node

    # ---- links

    def is_linked(self, one: int, other: int) -> bool:
        return (one, other) in self.links

    def link(self, one: int, other: int) -> None:
        if self.is_linked(one, other):
            return
        for me, peer in ((one, other), (other, one)):
            self.links[me, peer] = deque()
            self.nodes[me].states[peer] = Standing.LIVE
            self.nodes[me].ledger.last[peer] = 0
        for me, peer in ((one, other), (other, one)):
            again, self.streams[me, peer] = self.streams[me, peer], deque()
            for effect in again:
                self.enter(me, effect)
            node = self.nodes[me]
            node.broker.turn(node.now)
            node.obey(node.part.linked(peer, self.now))
            node.end_turn()

    def cut(self, one: int, other: int) -> None:
        if not self.is_linked(one, other):
            return
        for me, peer in ((one, other), (other, one)):
            del self.links[me, peer]
            node = self.nodes[me]
            node.states[peer] = Standing.SUSPECT
            del node.ledger.last[peer]
            node.obey(node.part.unlinked(peer, self.now))
            node.end_turn()

    def count_dead(self, me: int, peer: int) -> None:
        node = self.nodes[me]
        if not self.is_linked(me, peer) and node.states.get(peer) is Standing.SUSPECT:
            node.states[peer] = Standing.DEAD
            node.obey(node.part.died(peer, self.now))
            node.end_turn()

    def kill(self, me: int) -> None:
        """It is gone for good, and everybody knows."""
        for peer in [peer for peer in self.nodes if peer != me]:
            self.cut(me, peer)
        del self.nodes[me]
        for peer, node in self.nodes.items():
            self.count_dead(peer, me)
            del node.states[me]
            self.streams.pop((peer, me))
            self.streams.pop((me, peer))
            node.obey(node.part.forgotten(me, self.now))
            node.end_turn()

    def restart(self, me: int) -> GroupNode:
        """It is killed, and comes back with what its store has kept; nobody has counted it dead."""
        before = self.nodes[me]
        for peer in [peer for peer in self.nodes if peer != me]:
            self.cut(me, peer)
        assert before.keeping is not None
        node = GroupNode(self, me, self.config, before.boot + 1, before.keeping.kept)
        node.states = {peer: Standing.SUSPECT for peer in self.nodes if peer != me}
        self.nodes[me] = node
        node.end_turn()
        return node

    # ---- what is under way

    def enter(self, me: int, effect: Enter) -> None:
        self.streams[me, effect.peer].append(effect)
        self.send(me, effect.peer, effect)

    def send(self, me: int, peer: int, what: Any) -> None:
        link = self.links.get((me, peer))
        if link is not None:
            due_s = self.now + self.rng.random() * self.delay_s
            link.append((max(due_s, link[-1][0] if link else 0.0), what))

    def step(self) -> bool:
        """Let the next of what is under way arrive."""
        pending = [(link[0][0], way) for way, link in self.links.items() if link]
        if not pending:
            return False
        due_s, (source, target) = min(pending)
        _, what = self.links[source, target].popleft()
        self.pass_to(max(due_s, self.now))
        if (source, target) not in self.links:
            return True
        if isinstance(what, Enter):
            assert self.streams[source, target].popleft() is what
        self.nodes[target].take(source, what)
        return True

    def pass_to(self, now: float) -> None:
        self.now = now
        for node in list(self.nodes.values()):
            node.pass_time_to(now)

    def run(self) -> None:
        """Until nothing is under way."""
        while self.step():
            pass

    def check(self) -> None:
        for node in self.nodes.values():
            node.check()


@dataclass
class Worker:
    """A client that is a member of the group, wherever it connects."""

    name: str
    lasting: bool = True
    client: Client | None = None
    node: GroupNode | None = None
    got: list[bytes] = field(default_factory=list)  # payloads, but for repetitions
    done: list[bytes] = field(default_factory=list)  # what it has acknowledged
    open: dict[int, tuple[int, bytes]] = field(default_factory=dict)  # packet id -> (QoS, payload)
    released: set[int] = field(default_factory=set)

    def come(self, node: GroupNode, qos: int | None = None, filter: str = FILTER) -> "Worker":
        properties = Properties(session_expiry_s=3600) if self.lasting else Properties()
        self.client, self.node = node.open(), node
        self.client.send(Connect(self.name, clean_start=not self.lasting, properties=properties))
        if not self.lasting:
            self.open.clear()
        node.end_turn()
        if qos is not None:
            self.subscribe(qos, filter)
        self.read()
        return self

    def subscribe(self, qos: int, filter: str = FILTER) -> None:
        assert self.client is not None
        self.client.send(Subscribe(1, (Subscription(filter, qos),)))
        self.read()

    def read(self) -> None:
        if self.client is None or self.node is None:
            return
        for packet in self.client.read():
            if isinstance(packet, Publish):
                payload = bytes(packet.payload)
                if not packet.dup:
                    self.got.append(payload)
                if packet.qos:
                    self.open[packet.packet_id] = (packet.qos, payload)
                else:
                    self.done.append(payload)
            elif isinstance(packet, Pubrel):
                self.client.send(Pubcomp(packet.packet_id))
                self.open.pop(packet.packet_id, None)
                self.released.discard(packet.packet_id)
            else:
                assert isinstance(packet, Connack | Suback) or type(packet).__name__ == "Unsuback", packet
        self.node.end_turn()

    def answer(self, count: int = 1 << 30) -> int:
        """Acknowledge the oldest of what it has; how many it were."""
        self.read()
        answered = 0
        for packet_id, (qos, payload) in list(self.open.items()):
            if self.client is None or answered == count:
                break
            if packet_id in self.released:
                continue
            answered += 1
            self.done.append(payload)
            if qos == 1:
                del self.open[packet_id]
                self.client.send(Puback(packet_id))
            else:
                self.released.add(packet_id)
                self.client.send(Pubrec(packet_id))
        self.read()
        return answered

    def go(self) -> None:
        """Its connection is gone."""
        if self.client is not None and self.node is not None:
            self.read()
            self.client.vanish()
            self.node.end_turn()
            self.client = None
            self.open = {
                packet_id: self.open[packet_id] for packet_id in self.released
            }  # the rest comes again

    def lost_its_node(self, node: GroupNode) -> None:
        """Its node was restarted: its connection is gone, and its session unless it lasts."""
        self.node, self.client = node, None
        self.open = {packet_id: self.open[packet_id] for packet_id in self.released}

    def leave(self, filter: str = FILTER) -> None:
        assert self.client is not None
        assert self.node is not None
        self.client.send(Unsubscribe(2, (filter,)))
        self.read()
