"""A broker core with clients that are nothing but bytes: no sockets, no clock, all in one thread."""

from collections.abc import Callable, Iterator
from typing import Any

from braidmq.broker.access import BuiltInGate, Gate
from braidmq.broker.broker import Broker
from braidmq.limits import Limits
from braidmq.store import MemoryStore, Store
from braidmq.store.decoding import Decoder
from braidmq.store.encoding import Encoder
from braidmq.store.records import Record
from braidmq.store.state import State
from braidmq.timing.stopwatch import Stopwatch
from braidmq.wire import (
    V5,
    Connack,
    Connect,
    FrameReader,
    Packet,
    Publish,
    Suback,
    Subscribe,
    Subscription,
    decode,
    encode,
)

BEGINNING_S = 1000.0


class TickingStopwatch(Stopwatch):
    """Each look at it takes as long as the test says."""

    def __init__(self, tick_s: float) -> None:
        self.tick_s = tick_s
        self.passed_s = 0.0

    def read_s(self) -> float:
        self.passed_s += self.tick_s
        return self.passed_s


class SlowStore:
    """A store that keeps what it is given when the test says so."""

    is_failing = False
    pages = None

    def __init__(self) -> None:
        self.journal = Encoder(0.0)
        self.turns: list[tuple[bytes, Callable[[], None]]] = []
        self.kept: list[Record] = []
        self._decoder = Decoder(0.0)

    def load(self) -> State:
        return State()

    def checkpoint_from(self, living: Callable[[], Iterator[list[Record]]]) -> None:
        pass

    def commit(self, turn: bytes, kept: Callable[[], None]) -> None:
        self.turns.append((turn, kept))

    def keep_all(self) -> None:
        while self.turns:
            self.keep_one()

    def keep_one(self) -> None:
        turn, kept = self.turns.pop(0)
        self.kept += self._decoder.decode(turn)
        kept()

    def close(self) -> None:
        self.turns.clear()


class Client:
    """The other end of a connection, and the connection's shell."""

    def __init__(self, world: "World", version: int) -> None:
        self.world = world
        self.version = version
        self.is_closed = False
        self.is_paused = False
        self._reader = FrameReader(1 << 28)
        self.connection = world.broker.open(self, "a test", world.now)

    # The connection's shell
    def close(self) -> None:
        self.is_closed = True

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def defer(self, action: Callable[[], None]) -> None:
        self.world.deferred.append(action)

    # The client
    def send(self, *packets: Packet) -> None:
        self.send_bytes(b"".join(encode(packet, self.version) for packet in packets))

    def send_bytes(self, data: bytes) -> None:
        self.connection.receive(data, self.world.now)
        self.world.run_deferred()
        self.world.broker.hub.end_turn()

    def read_bytes(self) -> bytes:
        data = self.connection.output.take()
        self.connection.output_drained()
        return data

    def read(self) -> list[Packet]:
        return self._decoded(self.read_bytes())

    def unread(self) -> list[Packet]:
        """What was written and is lost on the way: the connection doesn't learn that it was taken."""
        return self._decoded(self.connection.output.take())

    def _decoded(self, data: bytes) -> list[Packet]:
        self._reader.feed(data)
        return [decode(first, body, self.version) for first, body in self._reader.frames()]

    def expect(self, kind: type) -> Any:
        """The next packets must be exactly one of `kind`."""
        packets = self.read()
        assert [type(packet) for packet in packets] == [kind], packets
        return packets[0]

    def subscribe(self, *filters: str | Subscription, qos: int = 2, packet_id: int = 1) -> None:
        wanted = tuple(f if isinstance(f, Subscription) else Subscription(f, qos) for f in filters)
        self.send(Subscribe(packet_id, wanted))
        assert any(isinstance(packet, Suback) for packet in self.read())

    def payloads(self) -> list[bytes]:
        return [packet.payload for packet in self.read() if isinstance(packet, Publish)]

    def vanish(self) -> None:
        """The network connection is gone, without a word."""
        self.connection.lost("cut by the test")
        self.world.broker.hub.end_turn()


class World:
    """A broker and its clients, at a time that the test sets."""

    def __init__(
        self,
        store: Store | None = None,
        gate: Gate | None = None,
        stopwatch: Stopwatch | None = None,
        **limits: int,
    ) -> None:
        self.now = BEGINNING_S
        self.store = store or MemoryStore()
        self._next_id = 0
        self.deferred: list[Callable[[], None]] = []
        self.broker = Broker(
            Limits(**limits), self.store, gate or BuiltInGate(), self._make_id, stopwatch=stopwatch
        )
        self.pass_time(0)

    def _make_id(self) -> str:
        self._next_id += 1
        return f"made-{self._next_id}"

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.broker.advance(self.now)
        self.broker.hub.end_turn()

    def run_deferred(self) -> None:
        while self.deferred:
            self.deferred.pop(0)()

    def open(self, version: int = V5) -> Client:
        """A network connection on which nothing was said yet."""
        return Client(self, version)

    def connect(self, client_id: str = "", version: int = V5, **fields: Any) -> Client:
        """A client that is connected."""
        client = self.open(version)
        client.send(Connect(client_id, version=version, **fields))
        if self.broker.hub.promises.are_held:
            return client
        answer = client.read()[0]
        assert isinstance(answer, Connack), answer
        assert answer.reason == 0, answer
        return client

    def resume(self, client_id: str, version: int = V5, **fields: Any) -> tuple[Client, list[Packet]]:
        """A client that connects again; what it is sent after the CONNACK."""
        client = self.open(version)
        client.send(Connect(client_id, clean_start=False, version=version, **fields))
        answer, *rest = client.read()
        assert isinstance(answer, Connack), answer
        assert answer.session_present, answer
        return client, rest

    def check(self) -> None:
        """Assert the invariants of everything."""
        for session in self.broker.sessions.values():
            session.check()
        for group in self.broker.groups:
            group.check()
        self.broker.router.trie.check()
