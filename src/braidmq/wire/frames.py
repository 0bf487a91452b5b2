"""Cuts a stream of bytes into frames: first byte, remaining length, body.

Invariant: `_need_bytes` is never more than what the next step needs, so no byte is looked at again while a
frame is still incomplete. Every byte is copied twice (in and out), however the stream was cut; a huge packet
that comes byte by byte costs linear time. Memory is bounded by the packet limit plus what one feed() brought,
because a length over the limit is refused before its body has come.
"""

from collections.abc import Iterator
from typing import Final

from braidmq.errors import ProtocolError
from braidmq.wire.reasons import ReasonCode, malformed

_HEADER_BYTES_MIN: Final = 2
_LENGTH_BYTES_MAX: Final = 4


class FrameReader:
    """Takes bytes as they come, gives (first byte, body) of each packet that is complete.

    After a ProtocolError the stream has lost its meaning: every later frames() raises again.
    """

    __slots__ = ("_buffer", "_max_packet_bytes", "_need_bytes", "_start")

    def __init__(self, max_packet_bytes: int) -> None:
        self._max_packet_bytes = max_packet_bytes
        self._buffer = bytearray()
        self._start = 0  # of the first frame that was not given out
        self._need_bytes = _HEADER_BYTES_MIN  # from _start, before another look can find anything new

    def feed(self, data: bytes) -> None:
        """Take what the peer has sent."""
        self._drop_used()
        self._buffer += data

    def frames(self) -> Iterator[tuple[int, bytes]]:
        """Give out the complete frames, and keep the incomplete one for later."""
        while True:
            frame = self._next_frame()
            if frame is None:
                break
            yield frame

    __iter__ = frames

    def _next_frame(self) -> tuple[int, bytes] | None:
        available_bytes = len(self._buffer) - self._start
        while available_bytes >= self._need_bytes:
            body_start, end = self._measure()
            packet_bytes = end - self._start
            if body_start and available_bytes >= packet_bytes:
                return self._take(body_start, end)
            self._need_bytes = packet_bytes if body_start else self._need_bytes + 1
        self._drop_used()
        return None

    def _measure(self) -> tuple[int, int]:
        """Where the body of the next frame starts and ends; it starts at 0 if that can't be known yet."""
        position = self._start + 1
        length = self._buffer[position]
        if length >= 0x80:
            length, position = self._long_length(position)
            if position == 0:
                return 0, 0
        end = position + 1 + length
        if end - self._start > self._max_packet_bytes:
            detail = f"a packet of {end - self._start} bytes is over the limit of {self._max_packet_bytes}"
            raise ProtocolError(ReasonCode.PACKET_TOO_LARGE, detail)
        return position + 1, end

    def _long_length(self, position: int) -> tuple[int, int]:
        """A remaining length of several bytes and where its last one is; 0 if that has not come yet."""
        length = 0
        for index, byte in enumerate(self._buffer[position : position + _LENGTH_BYTES_MAX]):
            length |= (byte & 0x7F) << (7 * index)
            if byte == 0:
                raise malformed("the remaining length uses more bytes than it needs")  # [MQTT-1.5.5-1]
            if byte < 0x80:
                return length, position + index
            if index == _LENGTH_BYTES_MAX - 1:
                raise malformed("the remaining length is longer than 4 bytes")
        return 0, 0

    def _take(self, body_start: int, end: int) -> tuple[int, bytes]:
        first_byte = self._buffer[self._start]
        self._start = end
        self._need_bytes = _HEADER_BYTES_MIN
        with memoryview(self._buffer) as view:
            return first_byte, bytes(view[body_start:end])

    def _drop_used(self) -> None:
        if self._start:
            del self._buffer[: self._start]
            self._start = 0
