"""How the rows are written: bytes are spelt out by hand, and only lengths are counted for the reader.

Nothing here uses the codec, so that a row can't be wrong in the same way as the code it judges.
"""

from typing import NamedTuple

from braidmq.wire import V5, V31, V311, Packet, PacketType, ReasonCode

V3_BOTH = (V31, V311)
ALL = (V31, V311, V5)

MALFORMED = ReasonCode.MALFORMED_PACKET
VIOLATION = ReasonCode.PROTOCOL_ERROR
BAD_TOPIC = ReasonCode.TOPIC_NAME_INVALID
BAD_ALIAS = ReasonCode.TOPIC_ALIAS_INVALID
BAD_VERSION = ReasonCode.UNSUPPORTED_PROTOCOL_VERSION

Part = str | bytes


class GoodPacket(NamedTuple):
    """Bytes that decode to a packet; canonical if the packet encodes to just these bytes."""

    name: str
    version: int
    data: bytes
    packet: Packet
    canonical: bool = True


class BadPacket(NamedTuple):
    """Bytes that no packet has, the reason to answer them with, and the rules they break."""

    name: str
    version: int
    data: bytes
    reason: ReasonCode
    rules: str = ""


def raw(*parts: Part) -> bytes:
    """Bytes as they are, and strings as hexadecimal digits."""
    return b"".join(bytes.fromhex(part) if isinstance(part, str) else part for part in parts)


def text(value: str | bytes) -> bytes:
    """A string field: two bytes of length, then UTF-8 (or whatever bytes a bad one has)."""
    data = value.encode() if isinstance(value, str) else value
    return bytes(divmod(len(data), 256)) + data


binary = text


def block(*parts: Part) -> bytes:
    """Properties with their length in front; rows keep them below 128 bytes."""
    data = raw(*parts)
    assert len(data) < 0x80
    return bytes((len(data),)) + data


def frame(first_byte: int, *parts: Part) -> bytes:
    """A whole packet; the remaining length is counted here, one or two bytes of it."""
    body = raw(*parts)
    assert len(body) < 0x4000
    length = (len(body),) if len(body) < 0x80 else (len(body) & 0x7F | 0x80, len(body) >> 7)
    return bytes((first_byte, *length)) + body


def split(data: bytes) -> tuple[int, bytes]:
    """First byte and body of a row's frame, without using the reader under test."""
    return data[0], data[2:] if data[1] < 0x80 else data[3:]


def kind_of(data: bytes) -> PacketType:
    return PacketType(data[0] >> 4)


def good_in(versions: tuple[int, ...], name: str, data: bytes, packet: Packet) -> list[GoodPacket]:
    return [GoodPacket(name, version, data, packet) for version in versions]


def bad_in(
    versions: tuple[int, ...], name: str, reason: ReasonCode, rules: str, data: bytes
) -> list[BadPacket]:
    return [BadPacket(name, version, data, reason, rules) for version in versions]
