"""Whose CONNECT it is, from its first bytes: for who passes a connection on before anybody has read it."""

from typing import Final, NamedTuple

from braidmq.errors import ProtocolError
from braidmq.wire.fields import read_varint
from braidmq.wire.kinds import V5, PacketType

FIXED_HEADER_BYTES_MAX: Final = 5
_FLAGS_AND_KEEP_ALIVE_BYTES: Final = 3


class Peeked(NamedTuple):
    """What the first bytes of a connection tell. Whatever is no CONNECT, or a broken one, has nobody's id."""

    client_id: bytes = b""
    bytes_needed: int = 0  # how many must be there to know more; 0: all is known


class _TooShortError(Exception):
    def __init__(self, needed: int) -> None:
        self.needed = needed


def peek_client_id(data: bytes) -> Peeked:
    """The client id of the CONNECT that `data` begins with."""
    try:
        return Peeked(_client_id(data))
    except _TooShortError as short:
        return Peeked(bytes_needed=short.needed)
    except ProtocolError:
        return Peeked()


def _client_id(data: bytes) -> bytes:
    if data and data[0] != PacketType.CONNECT << 4:
        return b""
    body_bytes, offset = _varint(data, 1, FIXED_HEADER_BYTES_MAX)
    end = offset + body_bytes
    name_bytes = _u16(data, offset, end)
    offset += 2 + name_bytes
    _reach(data, offset + 1, end)
    version = data[offset]
    offset += 1 + _FLAGS_AND_KEEP_ALIVE_BYTES
    if version == V5:
        properties_bytes, offset = _varint(data, offset, end)
        offset += properties_bytes
    id_bytes = _u16(data, offset, end)
    _reach(data, offset + 2 + id_bytes, end)
    return data[offset + 2 : offset + 2 + id_bytes]


def _reach(data: bytes, offset: int, end: int) -> None:
    """There must be bytes up to `offset`, which must not be behind the packet's end."""
    if offset > end:
        raise ProtocolError(0, "the CONNECT is shorter than it says")
    if offset > len(data):
        raise _TooShortError(offset)


def _u16(data: bytes, offset: int, end: int) -> int:
    _reach(data, offset + 2, end)
    return data[offset] << 8 | data[offset + 1]


def _varint(data: bytes, offset: int, end: int) -> tuple[int, int]:
    try:
        return read_varint(data[:end], offset)
    except ProtocolError:
        if len(data) >= min(end, offset + FIXED_HEADER_BYTES_MAX - 1):
            raise
        raise _TooShortError(len(data) + 1) from None
