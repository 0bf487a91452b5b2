"""Properties of MQTT 5: the values, and the one table that says which packet may carry which.

Everything about a property (identifier, type, limits, owners, repetition) is one row of PROPERTY_TABLE; the
decoder and the encoder are loops over it. Cost: linear in the bytes of the block.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from braidmq.errors import ProtocolError
from braidmq.wire import fields
from braidmq.wire.caps import GENEROUS, Caps
from braidmq.wire.kinds import WILL_OWNER, PacketType
from braidmq.wire.reasons import ReasonCode, malformed, violation


class Properties(msgspec.Struct, frozen=True, gc=False, repr_omit_defaults=True):
    """All properties of one packet; None or () means absent."""

    payload_format: int | None = None
    message_expiry_s: int | None = None
    content_type: str | None = None
    response_topic: str | None = None
    correlation_data: bytes | None = None
    subscription_identifiers: tuple[int, ...] = ()
    session_expiry_s: int | None = None
    assigned_client_id: str | None = None
    server_keep_alive_s: int | None = None
    authentication_method: str | None = None
    authentication_data: bytes | None = None
    request_problem_information: bool | None = None
    will_delay_s: int | None = None
    request_response_information: bool | None = None
    response_information: str | None = None
    server_reference: str | None = None
    reason_string: str | None = None
    receive_maximum: int | None = None
    topic_alias_maximum: int | None = None
    topic_alias: int | None = None
    maximum_qos: int | None = None
    retain_available: bool | None = None
    user_properties: tuple[tuple[str, str], ...] = ()
    maximum_packet_size_bytes: int | None = None
    wildcard_subscription_available: bool | None = None
    subscription_identifiers_available: bool | None = None
    shared_subscription_available: bool | None = None


NO_PROPERTIES: Final = Properties()


class PropertyType(NamedTuple):
    """How values of a type are read, written, and checked in both directions."""

    read: Callable[[bytes, int], tuple[Any, int]]
    write: Callable[[Any], bytes]
    check: Callable[[Any], None] | None = None


def _refuse_above_1(value: int) -> None:
    if value > 1:
        raise violation(f"a property that is 0 or 1 has the value {value}")


def _refuse_zero(value: int) -> None:
    if value == 0:
        raise violation("a property that must not be 0 is 0")


def _refuse_alias_zero(value: int) -> None:
    if value == 0:
        raise ProtocolError(ReasonCode.TOPIC_ALIAS_INVALID, "topic alias 0 is not allowed")  # [MQTT-3.3.2-8]


def _refuse_wildcards(topic: str) -> None:
    if not topic or "+" in topic or "#" in topic:
        raise violation("a response topic is empty or has a wildcard")  # [MQTT-3.3.2-14] [MQTT-4.7.3-1]


def _read_boolean(body: bytes, offset: int) -> tuple[bool, int]:
    value, offset = fields.read_byte(body, offset)
    _refuse_above_1(value)
    return value == 1, offset


_BIT = PropertyType(fields.read_byte, fields.write_byte, _refuse_above_1)
_BOOLEAN = PropertyType(_read_boolean, fields.write_byte, _refuse_above_1)
_U16 = PropertyType(fields.read_u16, fields.write_u16)
_U16_NOT_ZERO = PropertyType(fields.read_u16, fields.write_u16, _refuse_zero)
_U32 = PropertyType(fields.read_u32, fields.write_u32)
_U32_NOT_ZERO = PropertyType(fields.read_u32, fields.write_u32, _refuse_zero)
_VARINT_NOT_ZERO = PropertyType(fields.read_varint, fields.write_varint, _refuse_zero)
_STRING = PropertyType(fields.read_string, fields.write_string)
_BINARY = PropertyType(fields.read_binary, fields.write_binary)
_STRING_PAIR = PropertyType(fields.read_string_pair, fields.write_string_pair)
_ALIAS = PropertyType(fields.read_u16, fields.write_u16, _refuse_alias_zero)
_TOPIC = PropertyType(fields.read_string, fields.write_string, _refuse_wildcards)


class PropertyRow(NamedTuple):
    """All that MQTT says about one property."""

    identifier: int
    field: str
    type: PropertyType
    owners: frozenset[int]
    repeatable_in: frozenset[int] = frozenset()


def _owners(*kinds: int) -> frozenset[int]:
    return frozenset(kinds)


_P = PacketType
_PUBLISH = _owners(_P.PUBLISH)
_MESSAGE = _owners(_P.PUBLISH, WILL_OWNER)
_CONNACK = _owners(_P.CONNACK)
_CONNECT = _owners(_P.CONNECT)
_HANDSHAKE = _owners(_P.CONNECT, _P.CONNACK)
_AUTHENTICATION = _owners(_P.CONNECT, _P.CONNACK, _P.AUTH)
_ANSWERS = _owners(
    _P.CONNACK, _P.PUBACK, _P.PUBREC, _P.PUBREL, _P.PUBCOMP, _P.SUBACK, _P.UNSUBACK, _P.DISCONNECT, _P.AUTH
)
_EVERYWHERE = _ANSWERS | _owners(_P.CONNECT, _P.PUBLISH, WILL_OWNER, _P.SUBSCRIBE, _P.UNSUBSCRIBE)

PROPERTY_TABLE: Final = (
    PropertyRow(0x01, "payload_format", _BIT, _MESSAGE),
    PropertyRow(0x02, "message_expiry_s", _U32, _MESSAGE),
    PropertyRow(0x03, "content_type", _STRING, _MESSAGE),
    PropertyRow(0x08, "response_topic", _TOPIC, _MESSAGE),
    PropertyRow(0x09, "correlation_data", _BINARY, _MESSAGE),
    PropertyRow(0x0B, "subscription_identifiers", _VARINT_NOT_ZERO, _PUBLISH | {_P.SUBSCRIBE}, _PUBLISH),
    PropertyRow(0x11, "session_expiry_s", _U32, _HANDSHAKE | {_P.DISCONNECT}),
    PropertyRow(0x12, "assigned_client_id", _STRING, _CONNACK),
    PropertyRow(0x13, "server_keep_alive_s", _U16, _CONNACK),
    PropertyRow(0x15, "authentication_method", _STRING, _AUTHENTICATION),
    PropertyRow(0x16, "authentication_data", _BINARY, _AUTHENTICATION),
    PropertyRow(0x17, "request_problem_information", _BOOLEAN, _CONNECT),
    PropertyRow(0x18, "will_delay_s", _U32, _owners(WILL_OWNER)),
    PropertyRow(0x19, "request_response_information", _BOOLEAN, _CONNECT),
    PropertyRow(0x1A, "response_information", _STRING, _CONNACK),
    PropertyRow(0x1C, "server_reference", _STRING, _CONNACK | {_P.DISCONNECT}),
    PropertyRow(0x1F, "reason_string", _STRING, _ANSWERS),
    PropertyRow(0x21, "receive_maximum", _U16_NOT_ZERO, _HANDSHAKE),
    PropertyRow(0x22, "topic_alias_maximum", _U16, _HANDSHAKE),
    PropertyRow(0x23, "topic_alias", _ALIAS, _PUBLISH),
    PropertyRow(0x24, "maximum_qos", _BIT, _CONNACK),
    PropertyRow(0x25, "retain_available", _BOOLEAN, _CONNACK),
    PropertyRow(0x26, "user_properties", _STRING_PAIR, _EVERYWHERE, _EVERYWHERE),
    PropertyRow(0x27, "maximum_packet_size_bytes", _U32_NOT_ZERO, _HANDSHAKE),
    PropertyRow(0x28, "wildcard_subscription_available", _BOOLEAN, _CONNACK),
    PropertyRow(0x29, "subscription_identifiers_available", _BOOLEAN, _CONNACK),
    PropertyRow(0x2A, "shared_subscription_available", _BOOLEAN, _CONNACK),
)


class _Readable(NamedTuple):
    """A row as the decoder of one owner's blocks needs it; unpacking it is quicker than looking things up."""

    field: str
    read: Callable[[bytes, int], tuple[Any, int]]
    check: Callable[[Any], None] | None
    repeatable: bool


_READABLE_BY: Final = {
    owner: {
        row.identifier: _Readable(row.field, row.type.read, row.type.check, owner in row.repeatable_in)
        for row in PROPERTY_TABLE
        if owner in row.owners
    }
    for owner in _EVERYWHERE
}


class _Writable(NamedTuple):
    """A row as the encoder needs it."""

    field: str
    prefix: bytes
    write: Callable[[Any], bytes]
    check: Callable[[Any], None] | None
    owners: frozenset[int]
    repeatable_in: frozenset[int]


def _writable(field: str) -> _Writable:
    row = next(row for row in PROPERTY_TABLE if row.field == field)
    prefix = bytes((row.identifier,))
    return _Writable(field, prefix, row.type.write, row.type.check, row.owners, row.repeatable_in)


_WRITABLE: Final = tuple(_writable(field) for field in Properties.__struct_fields__)


def decode_properties(body: bytes, offset: int, owner: int, caps: Caps = GENEROUS) -> tuple[Properties, int]:
    """Read a property block that starts with its length at `offset`; give it and the offset after it.

    `owner` is the packet type that carries the block, or WILL_OWNER for the will inside a CONNECT.
    """
    length, start = fields.read_varint(body, offset)
    if length == 0:
        return NO_PROPERTIES, start
    end = start + length
    if end > len(body):
        raise fields.truncated()
    return _decode_block(body[start:end], owner, caps), end


def _decode_block(block: bytes, owner: int, caps: Caps) -> Properties:
    readable = _READABLE_BY[owner]
    values: dict[str, Any] = {}
    offset = 0
    while offset < len(block):
        row = readable.get(block[offset])
        if row is None:
            raise malformed(f"property 0x{block[offset]:02X} has no place in this packet")
        field, read, check, repeatable = row
        if not repeatable and field in values:
            raise violation(f"property {field} is given twice")
        value, offset = read(block, offset + 1)
        if check is not None:
            check(value)
        if repeatable:
            given = values.setdefault(field, [])
            caps.check_properties(len(given))
            given.append(value)  # [MQTT-3.3.2-18]: in the order given
        else:
            values[field] = value
    return _finish(values)


def _finish(values: dict[str, Any]) -> Properties:
    if "authentication_data" in values and "authentication_method" not in values:
        raise violation("authentication data without an authentication method")
    for field in ("user_properties", "subscription_identifiers"):
        if field in values:
            given = values[field]
            values[field] = tuple(given) if isinstance(given, list) else (given,)
    return Properties(**values)


def encode_properties(properties: Properties, owner: int | None = None) -> bytes:
    """The block with its length in front. With an `owner`, refuses properties which it must not carry."""
    if properties is NO_PROPERTIES:
        return b"\0"  # [MQTT-2.2.2-1]
    if properties.authentication_data is not None and properties.authentication_method is None:
        raise violation("authentication data without an authentication method")
    parts: list[bytes] = []
    for row, value in zip(_WRITABLE, msgspec.structs.astuple(properties), strict=True):
        if value is None or value == ():
            continue
        field, prefix, write, check, owners, repeatable_in = row
        if owner is not None and owner not in owners:
            raise violation(f"property {field} has no place in this packet")
        values = value if repeatable_in else (value,)
        if len(values) > 1 and owner is not None and owner not in repeatable_in:
            raise violation(f"property {field} is given twice")
        for one in values:
            if check is not None:
                check(one)
            parts.append(prefix + write(one))
    block = b"".join(parts)
    return fields.write_varint(len(block)) + block
