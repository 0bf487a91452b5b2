"""Brokers that share their sessions, with stores, links and streams that are nothing but lists.

One seed is one run. Links keep the order of what they carry, delay it, and lose it when they are cut. A store
keeps a turn after a while; a crash loses what it has not kept. Streams are as reliable as those of the real
cluster: an entry leaves when the store has it, comes once and in order. Every message is sent to every node,
wanted or not.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from math import inf
from random import Random
from typing import Any

from braidmq.broker.access import BuiltInGate
from braidmq.broker.broker import Broker
from braidmq.broker.restoring import restore
from braidmq.cluster.claims import Claims
from braidmq.cluster.clock import HybridClock
from braidmq.cluster.effects import Enter, SendControl, SendFrame
from braidmq.cluster.frames import Controls, control
from braidmq.cluster.members import State as MemberState
from braidmq.cluster.moving import Moves
from braidmq.clustered.sessions import Sessions
from braidmq.limits import Limits
from braidmq.messages.message import Message
from braidmq.store.decoding import Decoder
from braidmq.store.encoding import Encoder
from braidmq.store.records import Record
from braidmq.store.state import State
from braidmq.wire import (
    V5,
    Connack,
    Connect,
    FrameReader,
    Packet,
    Properties,
    Puback,
    Publish,
    Subscribe,
    Will,
    decode,
    encode,
)
from braidmq.wire import Subscription as Wish

FAILURE_S = 3.0
WALL_OFFSET_S = 1_700_000_000.0
PUBLISHED = 0  # the kind of an entry that is a message


@dataclass
class Entry:
    sequence: int
    kind: int
    head: bytes
    message: Message | None


class Disk:
    """What survives a crash."""

    def __init__(self) -> None:
        self.files: list[list[bytes]] = []  # turns, of each life
        self.streams: dict[int, list[Entry]] = {}
        self.positions: dict[int, int] = {}

    def state(self) -> State:
        state = State()
        for turns in self.files:
            decoder = Decoder(WALL_OFFSET_S)
            for turn in turns:
                state.apply(decoder.decode(turn))
        return state


class EnsembleStore:
    """Keeps a turn, with what it has put into streams, after a while."""

    is_failing = False
    pages = None

    def __init__(self, node: "Node") -> None:
        self.node = node
        self.journal = Encoder(WALL_OFFSET_S)
        node.disk.files.append([])

    def load(self) -> State:
        return State()

    def checkpoint_from(self, living: Callable[[], Iterator[list[Record]]]) -> None:
        pass

    def commit(self, turn: bytes, kept: Callable[[], None]) -> None:
        node = self.node
        changes, node.changes = node.changes, []
        file = node.disk.files[-1]

        def keep() -> None:
            file.append(turn)
            for change in changes:
                change()
            kept()

        node.soon(keep, node.ensemble.rng.uniform(0, node.ensemble.store_s))

    def close(self) -> None:
        pass


@dataclass
class Info:
    is_new_boot: bool
    was_absent: bool


@dataclass
class Me:
    node: int


class Table:
    """Answers what `Members` would."""

    def __init__(self, node: "Node") -> None:
        self.me = Me(node.id)
        self._node = node

    def remembered(self) -> list[int]:
        return [other.id for other in self._node.ensemble.nodes if other is not self._node]

    def linked(self) -> list[int]:
        return [peer for peer in self.remembered() if self.is_linked(peer)]

    def is_linked(self, peer: int) -> bool:
        return peer in self._node.links

    def state(self, peer: int) -> MemberState:
        if self.is_linked(peer):
            return MemberState.LIVE
        if peer in self._node.dead:
            return MemberState.DEAD
        return MemberState.UNREACHABLE if peer in self._node.unreachable else MemberState.SUSPECT

    def info(self, peer: int) -> Info:
        return Info(
            self._node.boots.get(peer) != self._node.ensemble.nodes[peer - 1].boot, peer in self._node.dead
        )


class Node:
    def __init__(self, ensemble: "Ensemble", number: int) -> None:
        self.ensemble, self.id, self.boot = ensemble, number, 0
        self.disk = Disk()
        self.is_up = False
        self.start()

    # ---- its life ------------------------------------------------------------------------------------

    def start(self) -> None:
        self.boot += 1
        self.is_up = True
        self.links: dict[int, int] = {}  # peer -> number of the link
        self.dead: set[int] = set()
        self.unreachable: set[int] = set()
        self.boots: dict[int, int] = {}
        self.changes: list[Callable[[], None]] = []
        self.events: deque[object] = deque()
        self.is_at_work = False
        self.wakes_at_s = inf
        self.positions = dict(self.disk.positions)
        self.sequences = dict.fromkeys(range(1, self.ensemble.size + 1), self.boot << 40)
        self.deferred: list[Callable[[], None]] = []
        state = self.disk.state()
        self.broker = Broker(Limits(), EnsembleStore(self), BuiltInGate(), lambda: "made")
        restore(self.broker, state, self.ensemble.now)
        self.table: Any = Table(self)
        self.sessions = self.ensemble.make_sessions(self)
        self.moves = self.ensemble.make_moves(self)
        self.claims = Claims(self.table, HybridClock(WALL_OFFSET_S), self.sessions, self.moves)
        self.parts = (self.claims, self.moves)
        self.controls: Controls[Any] = Controls([kind for part in self.parts for kind in part.controls])
        self.turn(lambda: self.sessions.connect(self.tell, self.enter))

    def crash(self) -> None:
        self.is_up = False
        for peer in list(self.links):
            self.ensemble.cut(self.id, peer)

    def soon(self, action: Callable[[], None], after_s: float) -> None:
        """A turn of this life, later."""
        boot = self.boot
        self.ensemble.at(after_s, lambda: self.turn(action) if self.is_up and boot == self.boot else None)

    def turn(self, action: Callable[[], object]) -> None:
        now = self.ensemble.now
        self.broker.turn(now)
        action()
        while self.deferred:
            self.deferred.pop(0)()
        self.end_turn()

    def end_turn(self) -> None:
        for part in self.parts:
            self.obey(part.turn_ended(self.ensemble.now))
        if self.changes:
            self.broker.hub.promises.when_turn_kept(lambda: None)
        self.broker.hub.end_turn()
        due_s = min(self.broker.timers.next_at_s, *(part.next_at_s for part in self.parts))
        if due_s < self.wakes_at_s:
            self.wakes_at_s = due_s
            self.soon(lambda: self.wake(due_s), max(0.0, due_s - self.ensemble.now))

    def wake(self, at_s: float) -> None:
        if at_s != self.wakes_at_s:
            return
        self.wakes_at_s = inf
        self.broker.advance(self.ensemble.now)
        for part in self.parts:
            self.obey(part.time_came(self.ensemble.now))

    # ---- events and effects --------------------------------------------------------------------------

    def tell(self, event: object) -> None:
        self.events.append(event)
        self.work()

    def obey(self, effects: Any) -> None:
        self.events.append(list(effects))
        self.work()

    def work(self) -> None:
        if self.is_at_work:
            return
        self.is_at_work = True
        while self.events:
            event = self.events.popleft()
            effects = event if isinstance(event, list) else self.handled(event)
            for effect in effects:
                self.carry_out(effect)
        self.is_at_work = False

    def handled(self, event: object) -> list[object]:
        return [
            effect
            for part in self.parts
            if isinstance(event, part.events)
            for effect in part.handle(event, self.ensemble.now)  # type: ignore[arg-type]
        ]

    def carry_out(self, effect: object) -> None:
        if isinstance(effect, SendControl):
            self.ensemble.send(self, effect.peer, control(effect.control))
        elif isinstance(effect, SendFrame):
            self.ensemble.send(self, effect.peer, effect.frame)
        elif isinstance(effect, Enter):
            self.enter(effect)
        else:
            self.sessions.hands[type(effect)](effect)

    def told(self, what: str, peer: int) -> None:
        for part in self.parts:
            self.obey(getattr(part, what)(peer, self.ensemble.now))

    # ---- links and streams ---------------------------------------------------------------------------

    def enter(self, effect: Enter) -> None:
        self.sequences[effect.peer] += 1
        entry = Entry(self.sequences[effect.peer], effect.kind, effect.head, effect.message)
        self.changes.append(lambda: self.stream(effect.peer, entry))

    def stream(self, peer: int, entry: Entry) -> None:
        """The store has the entry: it may leave."""
        self.disk.streams.setdefault(peer, []).append(entry)
        self.ensemble.send(self, peer, entry)

    def received(self, peer: int, what: bytes | Entry) -> None:
        if isinstance(what, Entry):
            self.entered(peer, what)
            return
        reader = FrameReader(1 << 20)
        reader.feed(what)
        for first, body in reader.frames():
            for part in self.parts:
                if first in part.frames:
                    self.obey(part.framed(peer, first, body, self.ensemble.now))
            if first == 0xF7:
                said = self.controls.read(body)
                for part in self.parts:
                    if isinstance(said, part.controls):
                        self.obey(part.received(peer, said, self.ensemble.now))

    def entered(self, peer: int, entry: Entry) -> None:
        if entry.sequence <= self.positions.get(peer, 0):
            return
        self.positions[peer] = entry.sequence
        self.changes.append(lambda: self.disk.positions.update({peer: entry.sequence}))
        if entry.kind != PUBLISHED:
            message = copied(entry.message, peer)
            self.sessions.entries[entry.kind](Me(peer), entry.head, message, b"")
        else:
            self.broker.publishing.publish_anyway(copied(entry.message, peer))

    def publish(self, topic: str, payload: bytes, acknowledged: Callable[[], None], qos: int = 1) -> None:
        def now() -> None:
            message = Message(topic.encode(), payload, qos, publisher="p")
            self.broker.publishing.publish(message)
            for peer in self.table.remembered():
                self.enter(Enter(peer, PUBLISHED, b"", message, b""))
            self.broker.hub.promises.when_turn_kept(acknowledged)

        self.turn(now)


def copied(message: Message | None, origin: int) -> Any:
    """As it is read from a link."""
    if message is None:
        return None
    copy = Message(message.topic, message.payload, message.qos, publisher=message.publisher)
    copy.origin = origin
    return copy


class Client:
    """A client that is nothing but bytes, and the shell of its connection."""

    def __init__(
        self, node: Node, client_id: str, clean_start: bool = False, will: Will | None = None
    ) -> None:
        self.node = node
        self.is_closed = False
        self._reader = FrameReader(1 << 28)
        self.packets: list[Packet] = []
        self.connection = node.broker.open(self, "a test", node.ensemble.now)
        wishes = Properties(session_expiry_s=1000, receive_maximum=3)
        self.send(Connect(client_id, clean_start, will=will, properties=wishes))

    def close(self) -> None:
        self.is_closed = True

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def defer(self, action: Callable[[], None]) -> None:
        self.node.deferred.append(action)

    def send(self, *packets: Packet) -> None:
        data = b"".join(encode(packet, V5) for packet in packets)
        self.node.turn(lambda: self.connection.receive(data, self.node.ensemble.now))

    def read(self) -> list[Packet]:
        """What has come since the last time."""
        self._reader.feed(self.connection.output.take())
        self.connection.output_drained()
        found = [decode(first, body, V5) for first, body in self._reader.frames()]
        self.packets += found
        return found

    @property
    def connack(self) -> Connack | None:
        self.read()
        return next((packet for packet in self.packets if isinstance(packet, Connack)), None)

    def subscribe(self, *filters: str, qos: int = 1) -> None:
        self.send(Subscribe(1, tuple(Wish(filter, qos) for filter in filters)))

    def vanish(self) -> None:
        if self.node.is_up and not self.is_closed:
            self.node.turn(lambda: self.connection.lost("cut by the test"))

    def receive_all(self) -> list[bytes]:
        """Take what waits, and acknowledge it; in order, without what is sent again."""
        got: list[bytes] = []
        for _ in range(1000):
            self.node.ensemble.run(0.5)
            self.read()
            published = [packet for packet in self.packets if isinstance(packet, Publish)]
            self.packets.clear()
            got += [packet.payload for packet in published]
            if not published:
                break
            self.send(*(Puback(packet.packet_id) for packet in published))
        return got


class Ensemble:
    def __init__(
        self,
        size: int,
        seed: int = 0,
        make_sessions: Callable[[Node], Sessions] = lambda node: Sessions(
            node.broker, node.id, HybridClock(WALL_OFFSET_S)
        ),
        make_moves: Callable[[Node], Moves] = lambda node: Moves(node.table, node.sessions),
        delay_s: float = 0.03,
        store_s: float = 0.005,
    ) -> None:
        self.rng = Random(seed)
        self.size, self.now = size, 1000.0
        self.delay_s, self.store_s = delay_s, store_s
        self.make_sessions, self.make_moves = make_sessions, make_moves
        self._heap: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = count()
        self._arrives_s: dict[tuple[int, int], float] = {}  # the last one of a link, in one direction
        self.nodes: list[Node] = []
        self.nodes = [Node(self, number) for number in range(1, size + 1)]
        self.link_all()
        self.run(0.5)

    def at(self, after_s: float, action: Callable[[], object]) -> None:
        heappush(self._heap, (self.now + after_s, next(self._numbers), action))

    def run(self, seconds: float) -> None:
        until_s = self.now + seconds
        while self._heap and self._heap[0][0] <= until_s:
            self.now, _, action = heappop(self._heap)
            action()
        self.now = until_s

    # ---- links ---------------------------------------------------------------------------------------

    def link_all(self) -> None:
        for one in self.nodes:
            for other in self.nodes:
                if one.id < other.id:
                    self.link(one.id, other.id)

    def link(self, one: int, other: int) -> None:
        ends = self.nodes[one - 1], self.nodes[other - 1]
        if other in ends[0].links or not all(end.is_up for end in ends):
            return
        number = next(self._numbers)
        for end, peer in (ends, ends[::-1]):
            end.links[peer.id] = number
        for end, peer in (ends, ends[::-1]):
            end.turn(lambda end=end, peer=peer: end.told("linked", peer.id))
            end.boots[peer.id] = peer.boot
            end.dead.discard(peer.id)
            end.unreachable.discard(peer.id)
        for end, peer in (ends, ends[::-1]):
            kept = peer.positions.get(end.id, 0)
            for entry in end.disk.streams.get(peer.id, []):
                if entry.sequence > kept:
                    self.send(end, peer.id, entry)

    def cut(self, one: int, other: int) -> None:
        for end, peer in ((one, other), (other, one)):
            node = self.nodes[end - 1]
            if node.links.pop(peer, None) is not None and node.is_up:
                node.turn(lambda node=node, peer=peer: node.told("unlinked", peer))
                node.soon(lambda node=node, peer=peer: self._give_up(node, peer), FAILURE_S)

    def _give_up(self, node: Node, peer: int) -> None:
        """Nobody vouches for who is down."""
        if peer in node.links:
            return
        if self.nodes[peer - 1].is_up:
            node.unreachable.add(peer)
        elif peer not in node.dead:
            node.dead.add(peer)
            node.told("died", peer)

    def send(self, node: Node, peer: int, what: bytes | Entry) -> None:
        link = node.links.get(peer)
        if link is None:
            return
        at_s = max(
            self._arrives_s.get((node.id, peer), 0.0), self.now + self.rng.uniform(0.001, self.delay_s)
        )
        self._arrives_s[node.id, peer] = at_s
        self.at(at_s - self.now, lambda: self._deliver(node.id, peer, link, what))

    def _deliver(self, sender: int, peer: int, link: int, what: bytes | Entry) -> None:
        node = self.nodes[peer - 1]
        if node.links.get(sender) == link:
            node.turn(lambda: node.received(sender, what))

    # ---- clients -------------------------------------------------------------------------------------

    def connect(self, node: int, client_id: str, **wishes: Any) -> Client:
        return Client(self.nodes[node - 1], client_id, **wishes)

    def homes(self, client_id: str) -> list[int]:
        """The nodes that have a session of that name."""
        return [node.id for node in self.nodes if node.is_up and client_id in node.broker.sessions]
