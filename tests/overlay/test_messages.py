"""Messages on the wire, and the same node behind them: in the simulator, replayed, and over TCP."""

import asyncio
import struct
from random import Random

import msgspec
import pytest

from braidmq.overlay import messages as m
from braidmq.overlay.keys import KeyRange, Kind, key_of, kind_of, range_of, topic_of, vector_of
from braidmq.overlay.node import Overlay
from braidmq.overlay.settings import OverlaySettings
from braidmq.overlay.table import Peer
from braidmq.overlay.turn import Deliver, Effect, Joined, Send
from braidmq.sim.overlay.world import OverlayWorld
from braidmq.sim.world.network import Conditions

ONE, OTHER = Peer(key_of("t", Kind.SUBSCRIBER, 1), "h:1", 7), Peer(key_of("t", Kind.PUBLISHER, 2), "h:2", 8)
KEYS = KeyRange(b"a", b"b")
EXAMPLES = [
    m.Rexp(ONE, OTHER, frozenset({1, 2}), 3, True),
    m.Eexp(ONE, OTHER, frozenset(), 3, KEYS),
    m.EexpWalk(ONE, OTHER, frozenset({5}), 3, b"x"),
    m.New(ONE),
    m.Pub(ONE, OTHER, KEYS, 1, 2, True, 9, b"payload", 1, 4),
    m.Unsub(ONE, OTHER, KEYS, 1, 2, False),
    m.Pres(ONE, OTHER, KEYS, 1, 2, False, True, 3),
    m.Ack(1, 2, False),
    m.Ack(1, 2, True, True),
    m.Search(ONE, OTHER, 1, 2),
    m.Found((ONE, OTHER)),
    m.Link(ONE, 1, m.Status.JOINING),
    m.Linked(ONE, 1, m.Status.LINKED, (OTHER,), None),
    m.Leave(ONE, 1, (OTHER,)),
    m.Gone(b"k", 2),
]


def test_every_message_survives_the_wire() -> None:
    assert {type(example) for example in EXAMPLES} == set(m.AnyMessage.__args__)
    for example in EXAMPLES:
        assert m.decode(m.encode(b"to", example)) == (b"to", example)


def test_what_is_no_message_is_refused() -> None:
    for data in (b"", b"\x92\xc4\x01a", msgspec.msgpack.encode((b"k", ["NEW", [1, 2]])), b"\xff" * 9):
        with pytest.raises((msgspec.DecodeError, msgspec.ValidationError)):
            m.decode(data)


def test_keys_of_a_topic_are_neighbours_publishers_first() -> None:
    keys = [key_of(topic, kind, pid) for topic in ("a", "a/b", "ab") for kind in Kind for pid in (0, 1 << 63)]
    assert keys == sorted(keys)
    for key in keys:
        assert key in range_of(topic_of(key), kind_of(key))
    assert vector_of(keys[0]) != vector_of(keys[1])


def test_a_node_does_the_same_in_the_simulator_and_behind_a_wire() -> None:
    """Everything one simulated node was told, encoded and told to a fresh one: the same effects in order."""
    world = OverlayWorld(5, OverlaySettings(entries_max=16), Conditions((0.005, 0.02)))
    told: list[tuple[str, tuple[object, ...], list[Effect]]] = []
    for number in range(25):
        name = f"b{number}"
        world.start(name, ["b0"] if number else [])
        if number == 3:
            seed = world.overlays[name]._shared.rng.getstate()
            spy(world.overlays[name], told)
        world.subscribe(name, "t")
        world.run_for(0.1)
    for _ in range(3):
        world.publish("b3", "t")
        world.run_for(5.0)
    rng = Random(0)
    rng.setstate(seed)
    fresh = Overlay(world._pids["b3"], "b3", 1, OverlaySettings(entries_max=16), rng)
    fresh.add_contacts(["b0"])
    for name, arguments, effects in told:
        if name == "receive":
            key, message = m.decode(m.encode(*arguments[:2]))  # type: ignore[arg-type]
            arguments = (key, message, arguments[2])
        assert getattr(fresh, name)(*arguments) == effects
    assert sum(isinstance(effect, Send) for *_, effects in told for effect in effects) > 100


def spy(overlay: Overlay, told: list[tuple[str, tuple[object, ...], list[Effect]]]) -> None:
    for name in ("receive", "tick", "subscribe", "publish"):
        original = getattr(overlay, name)

        def noting(*arguments: object, name: str = name, original=original) -> list[Effect]:  # type: ignore[no-untyped-def]
            effects = original(*arguments)
            told.append((name, arguments, effects))
            return effects

        setattr(overlay, name, noting)


class Shell:
    """A broker's link layer in a few lines: frames of a length and a body, one connection a broker."""

    def __init__(self, pid: int, settings: OverlaySettings) -> None:
        self.pid, self.settings = pid, settings
        self.links: dict[str, asyncio.StreamWriter] = {}
        self.delivered: list[Deliver] = []
        self.joined = asyncio.Event()
        self.tasks: set[asyncio.Task[None]] = set()

    async def start(self, contacts: list[str]) -> None:
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        host, port = self.server.sockets[0].getsockname()
        self.address = f"{host}:{port}"
        self.overlay = Overlay(self.pid, self.address, 1, self.settings, Random(self.pid))
        self.overlay.add_contacts(contacts)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                (length,) = struct.unpack(">I", await reader.readexactly(4))
                key, message = m.decode(await reader.readexactly(length))
                await self.do(self.overlay.receive(key, message, self.now()))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    async def do(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                data = m.encode(effect.to.key, effect.message)
                writer = self.links.get(effect.to.address)
                if writer is None:
                    _, writer = await asyncio.open_connection(*effect.to.address.split(":"))
                    self.links.setdefault(effect.to.address, writer)
                writer.write(struct.pack(">I", len(data)) + data)
            elif isinstance(effect, Deliver):
                self.delivered.append(effect)
            elif isinstance(effect, Joined):
                self.joined.set()

    async def tick(self) -> None:
        while True:
            await asyncio.sleep(0.02)
            await self.do(self.overlay.tick(self.now()))

    async def stop(self) -> None:
        self.server.close()
        for writer in self.links.values():
            writer.close()


async def test_the_same_node_runs_over_tcp() -> None:
    settings = OverlaySettings(entries_max=16)
    shells = [Shell(number + 1, settings) for number in range(12)]
    tickers = []
    for shell in shells:
        await shell.start([shells[0].address] if shell is not shells[0] else [])
        tickers.append(asyncio.create_task(shell.tick()))
        start = shell.overlay.advertise if shell is shells[0] else shell.overlay.subscribe
        await shell.do(start("t", shell.now()))
        await asyncio.wait_for(shell.joined.wait(), 30)
    for number in range(3):
        await shells[0].do(shells[0].overlay.publish("t", b"%d" % number, 1, shells[0].now()))
    async with asyncio.timeout(30):
        while any(len(shell.delivered) < 3 for shell in shells[1:]):
            await asyncio.sleep(0.02)
    for shell in shells[1:]:
        assert [one.payload for one in shell.delivered] == [b"0", b"1", b"2"]
    for ticker in tickers:
        ticker.cancel()
    await asyncio.gather(*tickers, return_exceptions=True)
    for shell in shells:
        await shell.stop()
