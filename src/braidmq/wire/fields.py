"""The data types of MQTT: integers, strings, binary data, in both directions.

A reader takes (body, offset) and gives (value, offset after it); running off the end is a malformed packet.
A writer takes a value and gives its bytes; what has no representation is refused with a ProtocolError too, so
that nothing we send would be refused by a peer. Each costs time linear in the bytes it touches.
"""

from typing import Final

from braidmq.errors import ProtocolError
from braidmq.wire.reasons import malformed, violation

U16_MAX: Final = 0xFFFF
U32_MAX: Final = 0xFFFF_FFFF
VARINT_MAX: Final = 0x0FFF_FFFF
_VARINT_BYTES_MAX: Final = 4


def truncated() -> ProtocolError:
    return malformed("the packet ends in the middle of a field")


def read_byte(body: bytes, offset: int) -> tuple[int, int]:
    try:
        return body[offset], offset + 1
    except IndexError:
        raise truncated() from None


def read_u16(body: bytes, offset: int) -> tuple[int, int]:
    try:
        return body[offset] << 8 | body[offset + 1], offset + 2
    except IndexError:
        raise truncated() from None


def read_u32(body: bytes, offset: int) -> tuple[int, int]:
    end = offset + 4
    if end > len(body):
        raise truncated()
    return int.from_bytes(body[offset:end], "big"), end


def read_varint(body: bytes, offset: int) -> tuple[int, int]:
    value = 0
    for index, byte in enumerate(body[offset : offset + _VARINT_BYTES_MAX]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            if byte == 0 and index:
                raise malformed("a variable byte integer uses more bytes than it needs")  # [MQTT-1.5.5-1]
            return value, offset + index + 1
    raise malformed("a variable byte integer has no end within 4 bytes")


def read_binary(body: bytes, offset: int) -> tuple[bytes, int]:
    start = offset + 2
    if start > len(body):
        raise truncated()
    end = start + (body[offset] << 8 | body[offset + 1])
    if end > len(body):
        raise truncated()
    return body[start:end], end


def read_string(body: bytes, offset: int) -> tuple[str, int]:
    raw, end = read_binary(body, offset)
    try:
        # Strict UTF-8: refuses surrogates, and keeps U+FEFF as a character.  # [MQTT-1.5.4-3]
        text = raw.decode()
    except UnicodeDecodeError:
        raise malformed("a string is not well-formed UTF-8") from None  # [MQTT-1.5.4-1]
    if "\0" in text:
        raise malformed("a string contains U+0000")  # [MQTT-1.5.4-2]
    return text, end


def read_string_pair(body: bytes, offset: int) -> tuple[tuple[str, str], int]:
    name, offset = read_string(body, offset)
    value, offset = read_string(body, offset)
    return (name, value), offset  # [MQTT-1.5.7-1]


def read_packet_id(body: bytes, offset: int) -> tuple[int, int]:
    packet_id, offset = read_u16(body, offset)
    if packet_id == 0:
        raise violation("packet identifier 0 is not allowed")  # [MQTT-2.2.1-3]
    return packet_id, offset


def write_byte(value: int) -> bytes:
    return _write_integer(value, 1, 0xFF)


def write_u16(value: int) -> bytes:
    return _write_integer(value, 2, U16_MAX)


def write_u32(value: int) -> bytes:
    return _write_integer(value, 4, U32_MAX)


def _write_integer(value: int, size_bytes: int, value_max: int) -> bytes:
    if not 0 <= value <= value_max:
        raise violation(f"{value} is not an integer of {size_bytes} bytes")
    return value.to_bytes(size_bytes, "big")


def write_varint(value: int) -> bytes:
    if 0 <= value < 0x80:
        return bytes((value,))
    if not 0 <= value <= VARINT_MAX:
        raise violation(f"{value} doesn't fit a variable byte integer")
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def write_binary(value: bytes) -> bytes:
    length = len(value)
    if length > U16_MAX:
        raise violation(f"{length} bytes don't fit a field of {U16_MAX}")
    return length.to_bytes(2, "big") + value


def write_string(value: str) -> bytes:
    if "\0" in value:
        raise malformed("a string contains U+0000")  # [MQTT-1.5.4-2]
    try:
        raw = value.encode()
    except UnicodeEncodeError:
        raise malformed("a string contains a surrogate") from None  # [MQTT-1.5.4-1]
    return write_binary(raw)


def write_string_pair(value: tuple[str, str]) -> bytes:
    return write_string(value[0]) + write_string(value[1])


def write_packet_id(packet_id: int) -> bytes:
    if not 0 < packet_id <= U16_MAX:
        raise violation(f"{packet_id} is not a packet identifier")  # [MQTT-2.2.1-3]
    return packet_id.to_bytes(2, "big")
