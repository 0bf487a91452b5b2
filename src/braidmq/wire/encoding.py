"""From packets to bytes: one encoder a packet type, found in a dict.

Invariant: what encode() gives, decode() takes and turns into an equal packet (in MQTT 3 without properties
and with the coarser answers of that version). What can't be written so is refused with a ProtocolError, whose
reason is the one that a peer would have answered with. Cost: linear in the packet.
"""

from collections.abc import Callable
from typing import Any, Final

from braidmq.errors import ProtocolError
from braidmq.wire import packets
from braidmq.wire.encoding_connect import encode_connect
from braidmq.wire.fields import VARINT_MAX, write_packet_id, write_string, write_varint
from braidmq.wire.kinds import V5, V31, PacketType
from braidmq.wire.properties import NO_PROPERTIES, Properties, encode_properties
from braidmq.wire.reasons import ReasonCode, check_reason, connack_return_code, malformed, violation
from braidmq.wire.rules import check_filter, check_options, check_topic_name

_FAILURE_V3: Final = 0x80
_FLAGS_OF_REQUEST: Final = 0x02


def encode(packet: packets.Packet, version: int) -> bytes:
    """The whole frame of a packet in a protocol level; MQTT 3 leaves out properties and most reasons.

    CONNECT carries its own version, so `version` is ignored for it. Raises ProtocolError for what has no
    representation.
    """
    first_byte, body = _ENCODERS[type(packet)](packet, version)
    if len(body) > VARINT_MAX:
        raise ProtocolError(ReasonCode.PACKET_TOO_LARGE, f"no packet can hold {len(body)} bytes")
    return bytes((first_byte,)) + write_varint(len(body)) + body


def _encode_connect(packet: packets.Connect, _version: int) -> tuple[int, bytes]:
    return PacketType.CONNECT << 4, encode_connect(packet)


def _encode_connack(packet: packets.Connack, version: int) -> tuple[int, bytes]:
    if packet.reason and packet.session_present:
        raise violation("a refusing CONNACK says that a session is present")  # [MQTT-3.2.2-6]
    reason = check_reason(packet.reason, PacketType.CONNACK)
    session_present = packet.session_present and version != V31
    if version != V5:
        return PacketType.CONNACK << 4, bytes((session_present, connack_return_code(reason)))
    properties = encode_properties(packet.properties, PacketType.CONNACK)
    return PacketType.CONNACK << 4, bytes((session_present, reason)) + properties


def _encode_publish(packet: packets.Publish, version: int) -> tuple[int, bytes]:
    first_byte = PacketType.PUBLISH << 4 | packet.dup << 3 | _checked_qos(packet) << 1 | packet.retain
    topic, properties = packet.topic, packet.properties
    if topic or version != V5 or properties.topic_alias is None:
        check_topic_name(topic, version)
    parts = [write_string(topic)]
    if packet.qos:
        parts.append(write_packet_id(packet.packet_id))
    if version == V5:
        parts.append(encode_properties(properties, PacketType.PUBLISH))
    parts.append(packet.payload)
    return first_byte, b"".join(parts)


def _checked_qos(packet: packets.Publish) -> int:
    if not 0 <= packet.qos <= 2:
        raise malformed(f"PUBLISH has QoS {packet.qos}")  # [MQTT-3.3.1-4]
    if packet.qos == 0 and packet.dup:
        raise malformed("PUBLISH has DUP at QoS 0")  # [MQTT-3.3.1-2]
    if packet.qos == 0 and packet.packet_id:
        raise violation("PUBLISH at QoS 0 has a packet identifier")  # [MQTT-2.2.1-2]
    return packet.qos


def _acknowledgement_encoder(
    kind: PacketType, flags: int = 0
) -> Callable[[packets.Acknowledgement, int], tuple[int, bytes]]:
    first_byte = kind << 4 | flags

    def encode_acknowledgement(packet: packets.Acknowledgement, version: int) -> tuple[int, bytes]:
        body = write_packet_id(packet.packet_id)
        if version == V5:
            body += _tail(packet.reason, packet.properties, kind)
        return first_byte, body

    return encode_acknowledgement


def _tail(reason: int, properties: Properties, kind: PacketType) -> bytes:
    """Reason and properties in the shortest form that MQTT 5 allows."""
    check_reason(reason, kind)
    block = encode_properties(properties, kind)
    if block != b"\0":
        return bytes((reason,)) + block
    return bytes((reason,)) if reason else b""


def _encode_subscribe(packet: packets.Subscribe, version: int) -> tuple[int, bytes]:
    if not packet.subscriptions:
        raise violation("SUBSCRIBE without a topic filter")  # [MQTT-3.8.3-2]
    parts = _request_header(packet.packet_id, packet.properties, PacketType.SUBSCRIBE, version)
    for subscription in packet.subscriptions:
        options = _options(subscription, version)
        check_filter(subscription.filter, version)
        check_options(subscription.filter, options, version)
        parts.append(write_string(subscription.filter))
        parts.append(bytes((options,)))
    return PacketType.SUBSCRIBE << 4 | _FLAGS_OF_REQUEST, b"".join(parts)


def _options(subscription: packets.Subscription, version: int) -> int:
    if not (0 <= subscription.qos <= 2 and 0 <= subscription.retain_handling <= 2):
        raise violation("a subscription option is out of its range")
    if version != V5:
        return subscription.qos
    return (
        subscription.qos
        | subscription.no_local << 2
        | subscription.retain_as_published << 3
        | subscription.retain_handling << 4
    )


def _request_header(packet_id: int, properties: Properties, kind: PacketType, version: int) -> list[bytes]:
    parts = [write_packet_id(packet_id)]
    if version == V5:
        parts.append(encode_properties(properties, kind))
    return parts


def _encode_suback(packet: packets.Suback, version: int) -> tuple[int, bytes]:
    if not packet.reasons:
        raise violation("SUBACK without a reason")
    for reason in packet.reasons:
        check_reason(reason, PacketType.SUBACK)
    parts = _request_header(packet.packet_id, packet.properties, PacketType.SUBACK, version)
    reasons = packet.reasons
    if version != V5:
        reasons = tuple(min(reason, _FAILURE_V3) for reason in reasons)
    parts.append(bytes(reasons))
    return PacketType.SUBACK << 4, b"".join(parts)


def _encode_unsubscribe(packet: packets.Unsubscribe, version: int) -> tuple[int, bytes]:
    if not packet.filters:
        raise violation("UNSUBSCRIBE without a topic filter")  # [MQTT-3.10.3-2]
    parts = _request_header(packet.packet_id, packet.properties, PacketType.UNSUBSCRIBE, version)
    for topic_filter in packet.filters:
        check_filter(topic_filter, version)
        parts.append(write_string(topic_filter))
    return PacketType.UNSUBSCRIBE << 4 | _FLAGS_OF_REQUEST, b"".join(parts)


def _encode_unsuback(packet: packets.Unsuback, version: int) -> tuple[int, bytes]:
    parts = _request_header(packet.packet_id, packet.properties, PacketType.UNSUBACK, version)
    if version == V5:
        if not packet.reasons:
            raise violation("UNSUBACK without a reason")
        for reason in packet.reasons:
            check_reason(reason, PacketType.UNSUBACK)
        parts.append(bytes(packet.reasons))
    return PacketType.UNSUBACK << 4, b"".join(parts)


def _encode_pingreq(_packet: packets.Pingreq, _version: int) -> tuple[int, bytes]:
    return PacketType.PINGREQ << 4, b""


def _encode_pingresp(_packet: packets.Pingresp, _version: int) -> tuple[int, bytes]:
    return PacketType.PINGRESP << 4, b""


def _encode_disconnect(packet: packets.Disconnect, version: int) -> tuple[int, bytes]:
    body = _tail(packet.reason, packet.properties, PacketType.DISCONNECT) if version == V5 else b""
    return PacketType.DISCONNECT << 4, body


def _encode_auth(packet: packets.Auth, version: int) -> tuple[int, bytes]:
    if version != V5:
        raise violation("AUTH doesn't exist before MQTT 5")
    reason = check_reason(packet.reason, PacketType.AUTH)
    if reason and packet.properties.authentication_method is None:
        raise violation("AUTH without an authentication method")
    if reason == 0 and packet.properties == NO_PROPERTIES:
        return PacketType.AUTH << 4, b""
    return PacketType.AUTH << 4, bytes((reason,)) + encode_properties(packet.properties, PacketType.AUTH)


_ENCODERS: Final[dict[type, Callable[[Any, int], tuple[int, bytes]]]] = {
    packets.Connect: _encode_connect,
    packets.Connack: _encode_connack,
    packets.Publish: _encode_publish,
    packets.Puback: _acknowledgement_encoder(PacketType.PUBACK),
    packets.Pubrec: _acknowledgement_encoder(PacketType.PUBREC),
    packets.Pubrel: _acknowledgement_encoder(PacketType.PUBREL, _FLAGS_OF_REQUEST),
    packets.Pubcomp: _acknowledgement_encoder(PacketType.PUBCOMP),
    packets.Subscribe: _encode_subscribe,
    packets.Suback: _encode_suback,
    packets.Unsubscribe: _encode_unsubscribe,
    packets.Unsuback: _encode_unsuback,
    packets.Pingreq: _encode_pingreq,
    packets.Pingresp: _encode_pingresp,
    packets.Disconnect: _encode_disconnect,
    packets.Auth: _encode_auth,
}
