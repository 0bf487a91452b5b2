"""The frames of a link that the cluster reads and writes: F4 to F8. Integers are little-endian.

A frame is MQTT's: first byte, remaining length, body. Messages (30, F1, F2, F3) are the broker's business.

| byte | frame | body |
|---|---|---|
| F4 | INTEREST | number u32, stream u8, last u8, a piece of an announcement |
| F5 | SEEN | number u32 |
| F6 | BEAT | hlc u64, sent_us u32, echo_us u32, connections u32, flow u8, heard node u64 ... |
| F7 | CONTROL | msgpack of one `Control`: an array of its name and its fields |
| F8 | PART | transfer varint, last u8, a piece of a transfer |
"""

from collections.abc import Iterable
from struct import Struct, error
from typing import Any, Final, Generic, NamedTuple, TypeVar, Union

import msgspec

from braidmq.errors import BraidError, ProtocolError
from braidmq.limits import KIB
from braidmq.wire.fields import read_varint, write_varint

INTEREST: Final = 0xF4
SEEN: Final = 0xF5
BEAT: Final = 0xF6
CONTROL: Final = 0xF7
PART: Final = 0xF8

UNPROVEN_BYTES_MAX: Final = 4 * KIB  # of a frame before the proof
CONTROL_BYTES_MAX: Final = 64 * KIB
PIECE_BYTES_MAX: Final = 64 * KIB  # of an announcement or a transfer

T = TypeVar("T")


class FrameError(BraidError):
    """A peer has sent what it must not: its link ends."""


class Control(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Base of all that is told in a CONTROL frame. A newer node may add fields at the end."""


def framed(first: int, body: bytes) -> bytes:
    return bytes((first,)) + write_varint(len(body)) + body


# -- CONTROL ----------------------------------------------------------------------------------------------


def control(what: Control) -> bytes:
    body = msgspec.msgpack.encode(what)
    if len(body) > CONTROL_BYTES_MAX:
        raise ValueError(f"{type(what).__name__} of {len(body)} bytes is too large for a control frame")
    return framed(CONTROL, body)


class Controls(Generic[T]):
    """Reads CONTROL frames of the given kinds; any other, and any that isn't well formed, is a FrameError."""

    def __init__(self, kinds: Iterable[type[T]]) -> None:
        union: Any = Union[tuple(kinds)]  # noqa: UP007
        self._decoder: msgspec.msgpack.Decoder[T] = msgspec.msgpack.Decoder(union)

    def read(self, body: bytes) -> T:
        if len(body) > CONTROL_BYTES_MAX:
            raise FrameError(f"a control frame of {len(body)} bytes is over {CONTROL_BYTES_MAX}")
        try:
            return self._decoder.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as fault:
            raise FrameError(f"a control frame makes no sense: {fault}") from None


# -- BEAT -------------------------------------------------------------------------------------------------

_BEAT: Final = Struct("<QIIIB")
_NODE: Final = Struct("<Q")
_HEARD_MAX: Final = 4096  # nodes; far above what peers_max may be
US_MASK: Final = 0xFFFF_FFFF


class Beat(NamedTuple):
    hlc: int
    sent_us: int  # by the sender's clock; comes back as echo_us
    echo_us: int  # what the receiver sent last, plus how long it has lain here; 0: nothing yet
    connections: int  # of clients
    is_held: bool  # QoS 0 should wait
    heard: bytes  # `packed` nodes that the sender has heard of late; looked into only by `hears`


def beat(what: Beat) -> bytes:
    head = _BEAT.pack(what.hlc, what.sent_us, what.echo_us, min(what.connections, US_MASK), what.is_held)
    return framed(BEAT, head + what.heard)


def read_beat(body: bytes) -> Beat:
    count, rest = divmod(len(body) - _BEAT.size, _NODE.size)
    if count < 0 or rest or count > _HEARD_MAX:
        raise FrameError(f"a beat of {len(body)} bytes makes no sense")
    hlc, sent_us, echo_us, connections, flow = _BEAT.unpack_from(body)
    return Beat(hlc, sent_us, echo_us, connections, bool(flow & 1), body[_BEAT.size :])


def packed(nodes: Iterable[int]) -> bytes:
    return b"".join(map(_NODE.pack, nodes))


def hears(heard: bytes, node: int) -> bool:
    return (node,) in _NODE.iter_unpack(heard)


# -- INTEREST, SEEN, PART ---------------------------------------------------------------------------------

_INTEREST: Final = Struct("<IBB")
_SEEN: Final = Struct("<I")


class Interest(NamedTuple):
    number: int
    stream: int
    is_last: bool
    piece: bytes


class Piece(NamedTuple):
    transfer: int
    is_last: bool
    piece: bytes


def interest(what: Interest) -> bytes:
    return framed(INTEREST, _INTEREST.pack(what.number, what.stream, what.is_last) + what.piece)


def read_interest(body: bytes) -> Interest:
    if not _INTEREST.size <= len(body) <= _INTEREST.size + PIECE_BYTES_MAX:
        raise FrameError(f"an announcement of {len(body)} bytes makes no sense")
    number, stream, last = _INTEREST.unpack_from(body)
    return Interest(number, stream, bool(last), body[_INTEREST.size :])


def seen(number: int) -> bytes:
    return framed(SEEN, _SEEN.pack(number))


def read_seen(body: bytes) -> int:
    try:
        return int(_SEEN.unpack(body)[0])
    except error:
        raise FrameError(f"SEEN has 4 bytes, not {len(body)}") from None


def part(what: Piece) -> bytes:
    return framed(PART, write_varint(what.transfer) + bytes((what.is_last,)) + what.piece)


def read_part(body: bytes) -> Piece:
    try:
        transfer, start = read_varint(body, 0)
    except ProtocolError as fault:
        raise FrameError(fault.detail) from None
    if not start < len(body) <= start + 1 + PIECE_BYTES_MAX:
        raise FrameError(f"a part of {len(body)} bytes makes no sense")
    return Piece(transfer, bool(body[start]), body[start + 1 :])
