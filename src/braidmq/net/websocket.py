"""MQTT in WebSocket frames: between the event loop and a Link, the frames are put on and taken off.

`websockets` does the protocol, without any I/O of its own; this module moves bytes. To its Link it is the
transport. MQTT packets needn't be aligned with frames [MQTT-6.0.0-2], so payloads are just bytes in a row.

While the connection does not want to read, or the client doesn't read what it is sent, what was read already
is kept, at most one read of the event loop and one message of `packet_bytes_max`, and no more is read. A
frame costs the same whether it holds a packet or nothing, so only so many are looked at in one turn.
"""

import asyncio
import logging
from collections import deque
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit

from websockets.datastructures import Headers
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from braidmq.net.accepted import introduce
from braidmq.net.stream import LINGER_S, TransportLink, Turn

PATH: Final = "/mqtt"
SUBPROTOCOL: Final = Subprotocol("mqtt")
# Names of the same thing that older clients offer.
SUBPROTOCOLS: Final = (SUBPROTOCOL, Subprotocol("mqttv3.1"))
DATA_OPCODES: Final = (Opcode.BINARY, Opcode.CONT)

HANDSHAKE_BYTES_MAX: Final = 256 * 1024  # the HTTP request, and what may come behind CONNECT in one read

SLICE_BYTES: Final = 4 * 1024  # what is looked at before the frames in it are counted
FRAMES_A_TURN_MAX: Final = 256  # some milliseconds of work
# What waits in the transport before nothing more is read: more than a Link hands over, which minds by itself.
WAITING_BYTES_MAX: Final = 128 * 1024

_silent = logging.getLogger("braidmq.websocket")
_silent.setLevel(logging.CRITICAL)


def origin_may_connect(headers: Headers, allowed: str | None) -> bool:
    """Whether a web page from where the browser says it is may connect. Programs don't say it.

    A page of anybody can open a WebSocket to any server that its reader can reach, this machine included, and
    the browser adds the reader's client certificate.
    """
    origins = headers.get_all("Origin")
    if not origins or allowed == "*":
        return True
    if len(origins) > 1:
        return False
    if allowed is not None:
        return origins[0] in allowed.split()
    hosts = headers.get_all("Host")
    return len(hosts) == 1 and _host_name(origins[0]) == _host_name(f"//{hosts[0]}") is not None


def _host_name(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


class WebSocketProtocol(asyncio.Protocol):
    """One WebSocket connection; the Link's transport."""

    def __init__(self, turn: Turn, link: TransportLink, peer: str | None, origins: str | None) -> None:
        limits = turn.broker.limits
        self._origins = origins
        self._bytes_of_strangers_left = limits.connect_bytes_max + HANDSHAKE_BYTES_MAX
        self._link = link
        self._peer = peer
        self._frames = ServerProtocol(
            subprotocols=SUBPROTOCOLS, max_size=limits.packet_bytes_max, logger=_silent
        )
        self._loop = asyncio.get_running_loop()
        self._input: deque[memoryview] = deque()  # frames as they came
        self._unread: deque[memoryview] = deque()  # what was in them
        self._is_paused = False  # by the link
        self._is_resting = False  # it has made much work: the others come first
        self._is_stuffed = False  # the client does not read what it is sent
        self._is_at_work = False
        self._is_reading = True
        self._is_over = False
        self._is_answered = False  # by the broker: a stranger may send less

    # ---- called by the event loop --------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        introduce(self._link, self, transport, self._peer, -1)

    def data_received(self, data: bytes) -> None:
        if self._is_over:
            return
        if not self._is_answered:
            self._bytes_of_strangers_left -= len(data)
            if self._bytes_of_strangers_left < 0:
                self._shut()
                return
        self._input.append(memoryview(data))
        self._work()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        """The link asks how much is held."""

    def resume_writing(self) -> None:
        if self._is_over:
            return
        self._is_stuffed = False
        self._link.resume_writing()
        self._work()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_over = True
        self._input.clear()
        self._unread.clear()
        self._frames.receive_eof()  # half a frame would be kept for as long as this is part of a cycle
        self._link.lost(exc)

    # ---- frames --------------------------------------------------------------------------------------

    def _work(self) -> None:
        """Look at what was read, and give the link what is in it, for as long as all want to go on."""
        if self._is_at_work:
            return
        self._is_at_work = True
        try:
            frames = 0
            while self._may_go_on() and (self._unread or self._input):
                if self._unread:
                    self._deliver_part(self._unread.popleft())
                elif frames < FRAMES_A_TURN_MAX:
                    frames += self._look_at(self._next_slice())
                else:
                    self._is_resting = True
                    self._loop.call_soon(self._rested)
        finally:
            self._is_at_work = False
        self._read_or_not()

    def _may_go_on(self) -> bool:
        return not (self._is_paused or self._is_resting or self._is_stuffed or self._is_over)

    def _rested(self) -> None:
        self._is_resting = False
        self._work()

    def _read_or_not(self) -> None:
        if self._is_over or self._is_reading == self._may_go_on():
            return
        self._is_reading = not self._is_reading
        if self._is_reading:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _next_slice(self) -> memoryview:
        data = self._input.popleft()
        if len(data) > SLICE_BYTES:
            self._input.appendleft(data[SLICE_BYTES:])
        return data[:SLICE_BYTES]

    def _look_at(self, data: memoryview) -> int:
        """How many frames were in it."""
        self._frames.receive_data(bytes(data))
        events = self._frames.events_received()
        for event in events:
            if isinstance(event, Request):
                self._answer(event)
            elif isinstance(event, Frame):
                self._take(event)
        self._write_frames()
        return len(events)

    def _answer(self, request: Request) -> None:
        if request.path.partition("?")[0] != PATH:
            response = self._frames.reject(HTTPStatus.NOT_FOUND, f"MQTT is at {PATH}\n")
        elif not origin_may_connect(request.headers, self._origins):
            response = self._frames.reject(HTTPStatus.FORBIDDEN, "pages of this origin may not connect\n")
        else:
            response = self._frames.accept(request)  # [MQTT-6.0.0-4]
        self._frames.send_response(response)

    def _take(self, frame: Frame) -> None:
        if frame.opcode in DATA_OPCODES:
            if frame.data:
                self._unread.append(memoryview(frame.data))
        elif frame.opcode is Opcode.TEXT:  # [MQTT-6.0.0-1]
            self._unread.clear()
            self._frames.fail(CloseCode.UNSUPPORTED_DATA, "MQTT packets come in binary frames")

    def _write_frames(self) -> None:
        parts = self._frames.data_to_send()
        if data := b"".join(parts):
            self._transport.write(data)
            self._is_stuffed = self._transport.get_write_buffer_size() > WAITING_BYTES_MAX
        if b"" in parts:  # the library's sign for the end
            self._shut()

    def _shut(self) -> None:
        self._is_over = True
        self._transport.close()
        self._loop.call_later(LINGER_S, self._transport.abort)

    def _deliver_part(self, data: memoryview) -> None:
        buffer = self._link.get_buffer(-1)
        count = min(len(buffer), len(data))
        buffer[:count] = data[:count]
        if count < len(data):
            self._unread.appendleft(data[count:])
        self._link.buffer_updated(count)

    # ---- called by the link, as its transport --------------------------------------------------------

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        self._transport.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        size: int = self._transport.get_write_buffer_size()
        return size

    def write(self, data: bytes) -> None:
        if self._frames.state is State.OPEN:
            self._is_answered = True
            self._frames.send_binary(data)
            self._write_frames()

    def close(self) -> None:
        if self._is_over:
            return
        if self._frames.state is State.OPEN:
            self._frames.send_close(CloseCode.NORMAL_CLOSURE)
            self._write_frames()
        self._shut()

    def abort(self) -> None:
        self._transport.abort()

    def pause_reading(self) -> None:
        self._is_paused = True
        self._read_or_not()

    def resume_reading(self) -> None:
        self._is_paused = False
        self._loop.call_soon(self._work)
