"""MQTT bytes and the values they stand for, in versions 3.1, 3.1.1 and 5.0. Knows no broker and no socket."""

from braidmq.wire.caps import Caps
from braidmq.wire.decoding import decode
from braidmq.wire.decoding_connect import connect_answer_version
from braidmq.wire.encoding import encode
from braidmq.wire.frames import FrameReader
from braidmq.wire.kinds import V5, V31, V311, WILL_OWNER, PacketType
from braidmq.wire.packets import (
    Acknowledgement,
    Auth,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Subscription,
    Unsuback,
    Unsubscribe,
    Will,
)
from braidmq.wire.properties import NO_PROPERTIES, Properties, decode_properties, encode_properties
from braidmq.wire.reasons import ReasonCode, connack_return_code, nearest_fault, unexpected

__all__ = [
    "NO_PROPERTIES",
    "V5",
    "V31",
    "V311",
    "WILL_OWNER",
    "Acknowledgement",
    "Auth",
    "Caps",
    "Connack",
    "Connect",
    "Disconnect",
    "FrameReader",
    "Packet",
    "PacketType",
    "Pingreq",
    "Pingresp",
    "Properties",
    "Puback",
    "Pubcomp",
    "Publish",
    "Pubrec",
    "Pubrel",
    "ReasonCode",
    "Suback",
    "Subscribe",
    "Subscription",
    "Unsuback",
    "Unsubscribe",
    "Will",
    "connack_return_code",
    "connect_answer_version",
    "decode",
    "decode_properties",
    "encode",
    "encode_properties",
    "nearest_fault",
    "unexpected",
]
