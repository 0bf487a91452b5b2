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
        while len(self._buffer) - self._start >= self._need_bytes:
            header_bytes, length = self._header()
            total_bytes = header_bytes + length
            if header_bytes and len(self._buffer) - self._start >= total_bytes:
                return self._take(header_bytes, total_bytes)
            self._need_bytes = total_bytes if header_bytes else self._need_bytes + 1
        self._drop_used()
        return None

    def _header(self) -> tuple[int, int]:
        """Bytes of the fixed header and the remaining length; 0 bytes if the length is not complete yet."""
        length = 0
        first = self._start + 1
        for index, byte in enumerate(self._buffer[first : first + _LENGTH_BYTES_MAX]):
            length |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                if byte == 0 and index:
                    raise malformed("the remaining length uses more bytes than it needs")  # [MQTT-1.5.5-1]
                self._check_size(index + 2 + length)
                return index + 2, length
            if index == _LENGTH_BYTES_MAX - 1:
                raise malformed("the remaining length is longer than 4 bytes")
        return 0, 0

    def _check_size(self, packet_bytes: int) -> None:
        if packet_bytes > self._max_packet_bytes:
            detail = f"a packet of {packet_bytes} bytes is over the limit of {self._max_packet_bytes}"
            raise ProtocolError(ReasonCode.PACKET_TOO_LARGE, detail)

    def _take(self, header_bytes: int, total_bytes: int) -> tuple[int, bytes]:
        start = self._start
        self._start = start + total_bytes
        self._need_bytes = _HEADER_BYTES_MIN
        with memoryview(self._buffer) as view:
            return view[start], bytes(view[start + header_bytes : start + total_bytes])

    def _drop_used(self) -> None:
        if self._start:
            del self._buffer[: self._start]
            self._start = 0
