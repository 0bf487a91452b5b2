"""CONNECT from bytes: the one packet whose layout depends on what it says about itself."""

from typing import Final

from braidmq.errors import ProtocolError
from braidmq.wire.caps import Caps
from braidmq.wire.fields import read_binary, read_byte, read_string, read_u16
from braidmq.wire.kinds import V5, V31, V311, WILL_OWNER, PacketType
from braidmq.wire.packets import Connect, Will
from braidmq.wire.properties import NO_PROPERTIES, decode_properties
from braidmq.wire.reasons import ReasonCode, malformed
from braidmq.wire.rules import check_topic_name

PROTOCOL_NAMES: Final = {V31: "MQIsdp", V311: "MQTT", V5: "MQTT"}

RESERVED: Final = 0x01
CLEAN_START: Final = 0x02
WILL: Final = 0x04
WILL_QOS_SHIFT: Final = 3
WILL_QOS: Final = 0x18
WILL_RETAIN: Final = 0x20
PASSWORD: Final = 0x40
USERNAME: Final = 0x80


def connect_answer_version(body: bytes) -> int:
    """The protocol level in which to answer a CONNECT that can't be decoded.

    Its own, if that much of it can be read and is known; else 3.1.1, which says how to refuse a level that is
    not spoken [3.1.1, MQTT-3.1.2-2] and whose answer the most clients can read.
    """
    try:
        name, offset = read_string(body, 0)
        level, _ = read_byte(body, offset)
    except ProtocolError:
        return V311
    if name == PROTOCOL_NAMES[V31]:
        return V31
    return V5 if name == PROTOCOL_NAMES[V5] and level == V5 else V311


def decode_connect(body: bytes, caps: Caps) -> tuple[Connect, int]:
    """The packet, and how many bytes of the body it used."""
    version, offset = _read_version(body)
    flags, offset = read_byte(body, offset)
    _check_flags(flags, version)
    keep_alive_s, offset = read_u16(body, offset)
    properties = NO_PROPERTIES
    if version == V5:
        properties, offset = decode_properties(body, offset, PacketType.CONNECT, caps)
    client_id, offset = read_string(body, offset)  # [MQTT-3.1.3-1] [MQTT-3.1.3-3] [MQTT-3.1.3-4]
    will = None
    if flags & WILL:  # [MQTT-3.1.2-9]
        will, offset = _read_will(body, offset, flags, version, caps)
    username = password = None
    if flags & USERNAME and not _missing(body, offset, version):  # [MQTT-3.1.2-17]
        username, offset = read_string(body, offset)  # [MQTT-3.1.3-12]
    if flags & PASSWORD and not _missing(body, offset, version):  # [MQTT-3.1.2-19]
        password, offset = read_binary(body, offset)
    clean = flags & CLEAN_START != 0
    return Connect(client_id, clean, keep_alive_s, version, will, username, password, properties), offset


def _read_version(body: bytes) -> tuple[int, int]:
    name, offset = read_string(body, 0)
    level, offset = read_byte(body, offset)
    if PROTOCOL_NAMES.get(level) != name:
        # [MQTT-3.1.2-1] [MQTT-3.1.2-2]
        raise ProtocolError(
            ReasonCode.UNSUPPORTED_PROTOCOL_VERSION, f"protocol {name!r} level {level} is not spoken here"
        )
    return level, offset


def _check_flags(flags: int, version: int) -> None:
    if flags & RESERVED:
        raise malformed("CONNECT has its reserved flag set")  # [MQTT-3.1.2-3]
    if flags & WILL_QOS == WILL_QOS:
        raise malformed("the will has QoS 3")  # [MQTT-3.1.2-12]
    if not flags & WILL and flags & (WILL_QOS | WILL_RETAIN):
        raise malformed("CONNECT has will flags and no will")  # [MQTT-3.1.2-11] [MQTT-3.1.2-13]
    if version != V5 and flags & PASSWORD and not flags & USERNAME:
        raise malformed("CONNECT has a password and no user name")  # 3.1.1 [MQTT-3.1.2-22]


def _missing(body: bytes, offset: int, version: int) -> bool:
    """MQTT 3.1 lets a client set the flags and leave the fields out: the remaining length decides."""
    return version == V31 and offset == len(body)


def _read_will(body: bytes, offset: int, flags: int, version: int, caps: Caps) -> tuple[Will, int]:
    properties = NO_PROPERTIES
    if version == V5:
        properties, offset = decode_properties(body, offset, WILL_OWNER, caps)
    topic, offset = read_string(body, offset)  # [MQTT-3.1.3-11]
    check_topic_name(topic, version)
    payload, offset = read_binary(body, offset)
    qos = (flags & WILL_QOS) >> WILL_QOS_SHIFT
    return Will(topic, payload, qos, flags & WILL_RETAIN != 0, properties), offset
