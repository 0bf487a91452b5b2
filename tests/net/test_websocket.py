"""WebSocket frames that cost more than they hold: pings whose pongs nobody reads, and empty frames."""

import asyncio
import tracemalloc
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from braidmq.net import websocket
from braidmq.net.websocket import FRAMES_A_TURN_MAX, WAITING_BYTES_MAX, WebSocketProtocol

REQUEST = (
    b"GET /mqtt HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Protocol: mqtt\r\n\r\n"
)
MASK = bytes(4)
EMPTY = b"\x82\x80" + MASK
PING = b"\x89\xfd" + MASK + bytes(125)


class Transport:
    """A client that reads nothing while `is_read` is off."""

    def __init__(self) -> None:
        self.is_read = True
        self.is_reading = True
        self.waiting_bytes = 0

    def write(self, data: bytes) -> None:
        if not self.is_read:
            self.waiting_bytes += len(data)

    def get_write_buffer_size(self) -> int:
        return self.waiting_bytes

    def pause_reading(self) -> None:
        assert self.is_reading
        self.is_reading = False

    def resume_reading(self) -> None:
        assert not self.is_reading
        self.is_reading = True


class Link:
    """What the frames are for; it counts what it gets."""

    def __init__(self) -> None:
        self.received_bytes = 0

    def get_buffer(self, hint: int) -> memoryview:
        return memoryview(bytearray(64))

    def buffer_updated(self, count: int) -> None:
        self.received_bytes += count

    def resume_writing(self) -> None:
        """Nothing of ours waits."""

    def lost(self, error: Exception | None) -> None:
        """It is over."""


@pytest.fixture
async def connected(monkeypatch: pytest.MonkeyPatch) -> tuple[WebSocketProtocol, Transport, Link]:
    monkeypatch.setattr(websocket, "introduce", lambda *_: None)
    limits = SimpleNamespace(connect_bytes_max=10_000_000, packet_bytes_max=1_000_000)
    turn: Any = SimpleNamespace(broker=SimpleNamespace(limits=limits))
    link: Any = Link()
    protocol, transport = WebSocketProtocol(turn, link, None, None), Transport()
    protocol.connection_made(transport)
    protocol.data_received(REQUEST)
    return protocol, transport, link


async def turns_until(condition: Callable[[], bool]) -> int:
    turns = 0
    while not condition():
        await asyncio.sleep(0)
        turns += 1
    return turns


async def test_pongs_that_nobody_reads_stop_the_reading(
    connected: tuple[WebSocketProtocol, Transport, Link],
) -> None:
    protocol, transport, link = connected
    transport.is_read = False
    pings = 0
    while transport.is_reading:
        protocol.data_received(PING * 100)
        pings += 100
        await turns_until(lambda: not protocol._is_resting)
    assert transport.waiting_bytes <= WAITING_BYTES_MAX + 2 * websocket.SLICE_BYTES
    transport.is_read, transport.waiting_bytes = True, 0
    protocol.resume_writing()
    await turns_until(lambda: transport.is_reading)
    protocol.data_received(b"\x82\x83" + MASK + b"abc")
    assert link.received_bytes == 3


async def test_frames_with_nothing_in_them_are_looked_at_in_several_turns(
    connected: tuple[WebSocketProtocol, Transport, Link],
) -> None:
    protocol, transport, link = connected
    frames = 20_000
    protocol.data_received(EMPTY * frames + b"\x82\x81" + MASK + b"x")
    assert not transport.is_reading
    assert link.received_bytes == 0
    frames_a_turn = FRAMES_A_TURN_MAX + websocket.SLICE_BYTES // len(EMPTY)
    assert await turns_until(lambda: link.received_bytes == 1) >= frames // frames_a_turn - 1
    assert transport.is_reading


async def test_half_a_frame_is_not_kept_when_the_connection_is_over(
    connected: tuple[WebSocketProtocol, Transport, Link],
) -> None:
    protocol, _, _ = connected
    tracemalloc.start()
    try:
        protocol.data_received(b"\x82\xff" + (900_000).to_bytes(8, "big") + MASK + bytes(800_000))
        assert tracemalloc.get_traced_memory()[0] > 700_000
        protocol.connection_lost(None)
        assert tracemalloc.get_traced_memory()[0] < 100_000
    finally:
        tracemalloc.stop()
