"""Reason codes: their names, the packets that may carry each, and their shadows in MQTT 3.

MQTT 5 answers every fault with a reason code; MQTT 3 knows six CONNACK return codes and one SUBACK failure.
The project thinks in MQTT 5 reasons everywhere, and only this file translates.
"""

from enum import IntEnum

from braidmq.errors import ProtocolError
from braidmq.wire.kinds import PacketType


class ReasonCode(IntEnum):
    """Every reason code of MQTT 5. Three names share the value 0: success, normal disconnection, QoS 0."""

    SUCCESS = 0x00
    NORMAL_DISCONNECTION = 0x00
    GRANTED_QOS_0 = 0x00
    GRANTED_QOS_1 = 0x01
    GRANTED_QOS_2 = 0x02
    DISCONNECT_WITH_WILL_MESSAGE = 0x04
    NO_MATCHING_SUBSCRIBERS = 0x10
    NO_SUBSCRIPTION_EXISTED = 0x11
    CONTINUE_AUTHENTICATION = 0x18
    RE_AUTHENTICATE = 0x19
    UNSPECIFIED_ERROR = 0x80
    MALFORMED_PACKET = 0x81
    PROTOCOL_ERROR = 0x82
    IMPLEMENTATION_SPECIFIC_ERROR = 0x83
    UNSUPPORTED_PROTOCOL_VERSION = 0x84
    CLIENT_IDENTIFIER_NOT_VALID = 0x85
    BAD_USER_NAME_OR_PASSWORD = 0x86
    NOT_AUTHORIZED = 0x87
    SERVER_UNAVAILABLE = 0x88
    SERVER_BUSY = 0x89
    BANNED = 0x8A
    SERVER_SHUTTING_DOWN = 0x8B
    BAD_AUTHENTICATION_METHOD = 0x8C
    KEEP_ALIVE_TIMEOUT = 0x8D
    SESSION_TAKEN_OVER = 0x8E
    TOPIC_FILTER_INVALID = 0x8F
    TOPIC_NAME_INVALID = 0x90
    PACKET_IDENTIFIER_IN_USE = 0x91
    PACKET_IDENTIFIER_NOT_FOUND = 0x92
    RECEIVE_MAXIMUM_EXCEEDED = 0x93
    TOPIC_ALIAS_INVALID = 0x94
    PACKET_TOO_LARGE = 0x95
    MESSAGE_RATE_TOO_HIGH = 0x96
    QUOTA_EXCEEDED = 0x97
    ADMINISTRATIVE_ACTION = 0x98
    PAYLOAD_FORMAT_INVALID = 0x99
    RETAIN_NOT_SUPPORTED = 0x9A
    QOS_NOT_SUPPORTED = 0x9B
    USE_ANOTHER_SERVER = 0x9C
    SERVER_MOVED = 0x9D
    SHARED_SUBSCRIPTIONS_NOT_SUPPORTED = 0x9E
    CONNECTION_RATE_EXCEEDED = 0x9F
    MAXIMUM_CONNECT_TIME = 0xA0
    SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED = 0xA1
    WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED = 0xA2


def malformed(detail: str) -> ProtocolError:
    """The bytes can't be read as the packet they claim to be."""
    return ProtocolError(ReasonCode.MALFORMED_PACKET, detail)


def violation(detail: str) -> ProtocolError:
    """The bytes can be read, and say something that MQTT doesn't allow."""
    return ProtocolError(ReasonCode.PROTOCOL_ERROR, detail)


def unexpected(kind: int) -> ProtocolError:
    """A packet of this type can't come from this side, or not now: it needn't be looked into."""
    if kind == 0:
        return malformed(f"packet type {kind} is reserved")
    return violation(f"{PacketType(kind).name} can't come here")


_CONNECT_ANSWERS = frozenset(
    {0x00, *range(0x80, 0x8B), 0x8C, 0x90, 0x95, 0x97, *range(0x99, 0x9E), 0x9F}
)
_PUBLISH_ANSWERS = frozenset({0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99})
_RELEASE_ANSWERS = frozenset({0x00, 0x92})

# MQTT 5 section 2.4, one row a packet type. 0x8C in DISCONNECT is there and missing in section 3.14.2.1; a
# failed re-authentication has no better reason, so the more generous table holds.
ALLOWED_REASONS: dict[int, frozenset[int]] = {
    PacketType.CONNACK: _CONNECT_ANSWERS,
    PacketType.PUBACK: _PUBLISH_ANSWERS,
    PacketType.PUBREC: _PUBLISH_ANSWERS,
    PacketType.PUBREL: _RELEASE_ANSWERS,
    PacketType.PUBCOMP: _RELEASE_ANSWERS,
    PacketType.SUBACK: frozenset({0, 1, 2, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2}),
    PacketType.UNSUBACK: frozenset({0x00, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91}),
    PacketType.DISCONNECT: frozenset(
        {0x00, 0x04, *range(0x80, 0x84), 0x87, 0x89, *range(0x8B, 0x91), *range(0x93, 0xA3)}
    ),
    PacketType.AUTH: frozenset({0x00, 0x18, 0x19}),
}


def check_reason(reason: int, kind: PacketType) -> int:
    """Give the reason back if a packet of this kind may carry it in MQTT 5."""
    if reason not in ALLOWED_REASONS[kind]:
        # [MQTT-3.2.2-8] [MQTT-3.4.2-1] [MQTT-3.5.2-1] [MQTT-3.6.2-1] [MQTT-3.7.2-1] [MQTT-3.9.3-2]
        # [MQTT-3.11.3-2] [MQTT-3.14.2-1] [MQTT-3.15.2-1]
        raise violation(f"{kind.name} must not carry reason 0x{reason:02X}")
    return reason


# What a CONNACK or DISCONNECT says where it has no such reason; anything else is an unspecified error.
_NEAREST_FAULT: dict[int, int] = {
    ReasonCode.UNSUPPORTED_PROTOCOL_VERSION: ReasonCode.PROTOCOL_ERROR,
    ReasonCode.CLIENT_IDENTIFIER_NOT_VALID: ReasonCode.PROTOCOL_ERROR,
    ReasonCode.BAD_USER_NAME_OR_PASSWORD: ReasonCode.NOT_AUTHORIZED,
    ReasonCode.BANNED: ReasonCode.NOT_AUTHORIZED,
    ReasonCode.ADMINISTRATIVE_ACTION: ReasonCode.NOT_AUTHORIZED,
    ReasonCode.SERVER_UNAVAILABLE: ReasonCode.SERVER_BUSY,
    ReasonCode.SERVER_SHUTTING_DOWN: ReasonCode.SERVER_UNAVAILABLE,
    ReasonCode.TOPIC_FILTER_INVALID: ReasonCode.PROTOCOL_ERROR,
    ReasonCode.PACKET_IDENTIFIER_IN_USE: ReasonCode.PROTOCOL_ERROR,
    ReasonCode.PACKET_IDENTIFIER_NOT_FOUND: ReasonCode.PROTOCOL_ERROR,
    ReasonCode.RECEIVE_MAXIMUM_EXCEEDED: ReasonCode.PROTOCOL_ERROR,
    ReasonCode.TOPIC_ALIAS_INVALID: ReasonCode.PROTOCOL_ERROR,
    ReasonCode.MESSAGE_RATE_TOO_HIGH: ReasonCode.QUOTA_EXCEEDED,
}


def nearest_fault(reason: int, kind: PacketType) -> int:
    """The fault nearest to `reason` that a packet of this kind may carry; what is no fault is unspecified."""
    if reason not in ALLOWED_REASONS[kind]:
        reason = _NEAREST_FAULT.get(reason, ReasonCode.UNSPECIFIED_ERROR)
    return reason if reason >= ReasonCode.UNSPECIFIED_ERROR else ReasonCode.UNSPECIFIED_ERROR


# Index = return code of a 3.1.1 CONNACK.
_REASON_OF_RETURN_CODE = (
    ReasonCode.SUCCESS,
    ReasonCode.UNSUPPORTED_PROTOCOL_VERSION,
    ReasonCode.CLIENT_IDENTIFIER_NOT_VALID,
    ReasonCode.SERVER_UNAVAILABLE,
    ReasonCode.BAD_USER_NAME_OR_PASSWORD,
    ReasonCode.NOT_AUTHORIZED,
)
_SERVER_UNAVAILABLE_CODE = 3
_RETURN_CODE_OF_REASON: dict[int, int] = {
    **{int(reason): code for code, reason in enumerate(_REASON_OF_RETURN_CODE)},
    ReasonCode.BANNED: 5,
    ReasonCode.BAD_AUTHENTICATION_METHOD: 5,
}


def connack_return_code(reason: int) -> int:
    """The MQTT 3 return code (0..5) nearest to a reason; 3, "server unavailable", where none is near.

    For a malformed CONNECT no return code applies: MQTT 3 wants the connection closed without a CONNACK, and
    that is the caller's to do.
    """
    return _RETURN_CODE_OF_REASON.get(reason, _SERVER_UNAVAILABLE_CODE)


def reason_of_return_code(code: int) -> ReasonCode:
    """The reason that a CONNACK of MQTT 3 means by its return code."""
    if code >= len(_REASON_OF_RETURN_CODE):
        raise violation(f"CONNACK return code {code} is reserved")
    return _REASON_OF_RETURN_CODE[code]
