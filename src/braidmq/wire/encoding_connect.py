"""CONNECT to bytes; the mirror of decoding_connect."""

from braidmq.errors import ProtocolError
from braidmq.wire import decoding_connect as layout
from braidmq.wire.fields import write_binary, write_string, write_u16
from braidmq.wire.kinds import V5, WILL_OWNER, PacketType
from braidmq.wire.packets import Connect, Will
from braidmq.wire.properties import encode_properties
from braidmq.wire.reasons import ReasonCode, malformed
from braidmq.wire.rules import check_topic_name


def encode_connect(packet: Connect) -> bytes:
    """The body of a CONNECT in the version that it names."""
    version = packet.version
    name = layout.PROTOCOL_NAMES.get(version)
    if name is None:
        raise ProtocolError(ReasonCode.UNSUPPORTED_PROTOCOL_VERSION, f"no protocol has level {version}")
    parts = [write_string(name), bytes((version, _flags(packet))), write_u16(packet.keep_alive_s)]
    if version == V5:
        parts.append(encode_properties(packet.properties, PacketType.CONNECT))
    parts.append(write_string(packet.client_id))
    if packet.will is not None:
        _append_will(parts, packet.will, version)
    if packet.username is not None:
        parts.append(write_string(packet.username))
    if packet.password is not None:
        parts.append(write_binary(packet.password))
    return b"".join(parts)


def _flags(packet: Connect) -> int:
    flags = layout.CLEAN_START if packet.clean_start else 0
    if packet.will is not None:
        flags |= layout.WILL | _will_flags(packet.will)
    if packet.username is not None:
        flags |= layout.USERNAME
    if packet.password is not None:
        if packet.version != V5 and packet.username is None:
            raise malformed("CONNECT has a password and no user name")  # 3.1.1 [MQTT-3.1.2-22]
        flags |= layout.PASSWORD
    return flags


def _will_flags(will: Will) -> int:
    if not 0 <= will.qos <= 2:
        raise malformed(f"the will has QoS {will.qos}")  # [MQTT-3.1.2-12]
    return will.qos << layout.WILL_QOS_SHIFT | (layout.WILL_RETAIN if will.retain else 0)


def _append_will(parts: list[bytes], will: Will, version: int) -> None:
    check_topic_name(will.topic, version)
    if version == V5:
        parts.append(encode_properties(will.properties, WILL_OWNER))
    parts.append(write_string(will.topic))
    parts.append(write_binary(will.payload))
