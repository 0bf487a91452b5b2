"""The extended PINGREQ of the thesis (figure 33): a PINGREQ with properties and a payload.

    C0 | remaining length | property length, User Properties | payload: the rest, no length in front of it

MQTT itself gives PINGREQ no body, and some brokers close the connection over one. So it is sent only to a
broker that answered the CONNECT's User Property `status-ping`=`1` with the same, and a broker refuses it
from a client that didn't ask: both decisions are the caller's. The answer is an ordinary PINGRESP. Cost:
linear in the bytes.
"""

from typing import Final

import msgspec

from braidmq.errors import ProtocolError
from braidmq.wire import fields
from braidmq.wire.reasons import ReasonCode
from braidmq.wire.status import STATUS_BYTES_MAX

PINGREQ_FIRST_BYTE: Final = 0xC0
USER_PROPERTY: Final = 0x26
BODY_BYTES_MAX: Final = STATUS_BYTES_MAX + 1024  # a full status, and as much about it

# How the two sides agree, by User Properties: a client asks in CONNECT, the broker's CONNACK repeats what it
# takes.
STATUS_PING_PROPERTY: Final = "status-ping"
STATUS_BY_PING: Final = "1"  # in extended PINGREQs
STATUS_BY_PUBLISH: Final = "publish"  # in PUBLISH packets at QoS 0 to STATUS_TOPIC_PREFIX + client id
STATUS_INTERVAL_PROPERTY: Final = "status-interval"  # CONNACK: ms between the reports that the broker wants
STATUS_EVENTS_PROPERTY: Final = "status-events"  # CONNECT: "1", reports also at once when the queue changes
ACK_MODE_PROPERTY: Final = "ack-mode"  # CONNECT: how the client acknowledges
ACK_WHEN_PROCESSED: Final = "processed"
STATUS_TOPIC_PREFIX: Final = "$load/"


class ExtendedPingreq(msgspec.Struct, frozen=True, gc=False):
    payload: bytes = b""
    user_properties: tuple[tuple[str, str], ...] = ()


def encode_pingreq(pingreq: ExtendedPingreq) -> bytes:
    """The whole packet."""
    block = b"".join(
        fields.write_byte(USER_PROPERTY) + fields.write_string_pair(pair) for pair in pingreq.user_properties
    )
    body = fields.write_varint(len(block)) + block + pingreq.payload
    if len(body) > BODY_BYTES_MAX:
        raise ProtocolError(ReasonCode.PACKET_TOO_LARGE, f"a PINGREQ of {len(body)} bytes")
    return bytes((PINGREQ_FIRST_BYTE,)) + fields.write_varint(len(body)) + body


def decode_pingreq_body(body: bytes) -> ExtendedPingreq:
    """`body`: what follows the remaining length, at least one byte."""
    if len(body) > BODY_BYTES_MAX:
        raise ProtocolError(ReasonCode.PACKET_TOO_LARGE, f"a PINGREQ of {len(body)} bytes")
    length, start = fields.read_varint(body, 0)
    end = start + length
    if end > len(body):
        raise fields.truncated()
    block, offset, pairs = body[:end], start, []
    while offset < end:
        identifier, offset = fields.read_byte(block, offset)
        if identifier != USER_PROPERTY:
            detail = f"property 0x{identifier:02X} has no place in a PINGREQ"
            raise ProtocolError(ReasonCode.MALFORMED_PACKET, detail)
        pair, offset = fields.read_string_pair(block, offset)
        pairs.append(pair)
    return ExtendedPingreq(body[end:], tuple(pairs))
