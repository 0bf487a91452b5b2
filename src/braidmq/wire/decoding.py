"""From bytes to packets: one decoder a packet type, found in a dict.

Invariant: a decoder either uses up its whole body or raises ProtocolError; it never raises anything else and
never reads past the body. Cost: linear in the body.
"""

from collections.abc import Callable
from typing import Final

from braidmq.wire import packets
from braidmq.wire.caps import GENEROUS, Caps
from braidmq.wire.decoding_connect import decode_connect
from braidmq.wire.fields import read_byte, read_packet_id, read_string
from braidmq.wire.kinds import V5, V31, PacketType
from braidmq.wire.properties import NO_PROPERTIES, decode_properties
from braidmq.wire.reasons import check_reason, malformed, reason_of_return_code, violation
from braidmq.wire.rules import check_filter, check_options, check_topic_name

_DUP: Final = 0x08
_RETAIN: Final = 0x01
_FAILURE_V3: Final = 0x80

_FLAGS_OF_REQUEST: Final = 0x02
# The low four bits of the first byte where they are not a PUBLISH's.
_RESERVED_FLAGS: Final = {
    kind: _FLAGS_OF_REQUEST
    if kind in (PacketType.PUBREL, PacketType.SUBSCRIBE, PacketType.UNSUBSCRIBE)
    else 0
    for kind in PacketType
}


def decode(first_byte: int, body: bytes, version: int, caps: Caps = GENEROUS) -> packets.Packet:
    """The packet with this first byte and body (what follows the remaining length), in a protocol level.

    CONNECT carries its own version, so `version` is ignored for it. Raises nothing but ProtocolError, with
    the reason code that MQTT names for the fault; beyond the `caps` nothing is read.
    """
    decoder = _DECODERS.get(first_byte >> 4)
    if decoder is None:
        raise malformed(f"packet type {first_byte >> 4} is reserved")
    return decoder(first_byte & 0x0F, body, version, caps)


def _check_flags(flags: int, kind: PacketType, version: int) -> None:
    expected = _RESERVED_FLAGS[kind]
    if flags == expected:
        return
    # MQTT 3.1 lets a repeated request say so; later versions dropped that.
    if version == V31 and expected == _FLAGS_OF_REQUEST and flags == expected | _DUP:
        return
    # [MQTT-2.1.3-1] [MQTT-3.6.1-1] [MQTT-3.8.1-1] [MQTT-3.10.1-1] [MQTT-3.14.1-1] [MQTT-3.15.1-1]
    raise malformed(f"{kind.name} has the reserved flags 0x{flags:X}")


def _check_end(body: bytes, offset: int) -> None:
    if offset != len(body):
        # [MQTT-3.1.2-16] [MQTT-3.1.2-18]: no field is there that the packet didn't announce
        raise malformed(f"{len(body) - offset} bytes are left over at the end of the packet")


def _decode_connect(flags: int, body: bytes, version: int, caps: Caps) -> packets.Connect:
    _check_flags(flags, PacketType.CONNECT, version)
    connect, offset = decode_connect(body, caps)
    _check_end(body, offset)
    return connect


def _decode_connack(flags: int, body: bytes, version: int, caps: Caps) -> packets.Connack:
    _check_flags(flags, PacketType.CONNACK, version)
    acknowledge_flags, offset = read_byte(body, 0)
    code, offset = read_byte(body, offset)
    if version == V31:
        acknowledge_flags = 0  # MQTT 3.1 gives this byte no meaning
    if acknowledge_flags > 1:
        raise malformed("CONNACK has reserved flags set")  # [MQTT-3.2.2-1]
    properties = NO_PROPERTIES
    if version == V5:
        reason = check_reason(code, PacketType.CONNACK)
        properties, offset = decode_properties(body, offset, PacketType.CONNACK, caps)
    else:
        reason = reason_of_return_code(code)
    _check_end(body, offset)
    if reason and acknowledge_flags:
        raise violation("a refusing CONNACK says that a session is present")  # [MQTT-3.2.2-6]
    return packets.Connack(acknowledge_flags == 1, reason, properties)


def _decode_publish(flags: int, body: bytes, version: int, caps: Caps) -> packets.Publish:
    qos = flags >> 1 & 3
    if qos == 3:
        raise malformed("PUBLISH has QoS 3")  # [MQTT-3.3.1-4]
    dup = flags & _DUP != 0
    if dup and qos == 0:
        raise malformed("PUBLISH has DUP at QoS 0")  # [MQTT-3.3.1-2]
    topic, offset = read_string(body, 0)  # [MQTT-3.3.2-1]
    packet_id = 0
    if qos:  # [MQTT-2.2.1-2]
        packet_id, offset = read_packet_id(body, offset)
    properties = NO_PROPERTIES
    if version == V5:
        properties, offset = decode_properties(body, offset, PacketType.PUBLISH, caps)
    if topic or properties.topic_alias is None:
        check_topic_name(topic, version)
    return packets.Publish(topic, body[offset:], qos, flags & _RETAIN != 0, dup, packet_id, properties)


def _acknowledgement_decoder(
    kind: PacketType, build: Callable[..., packets.Packet]
) -> Callable[[int, bytes, int, Caps], packets.Packet]:
    def decode_acknowledgement(flags: int, body: bytes, version: int, caps: Caps) -> packets.Packet:
        _check_flags(flags, kind, version)
        packet_id, offset = read_packet_id(body, 0)
        if offset == len(body):
            return build(packet_id)
        if version != V5:
            raise malformed(f"{kind.name} is longer than its packet identifier")
        reason = check_reason(body[offset], kind)
        offset += 1
        if offset == len(body):
            return build(packet_id, reason)
        properties, offset = decode_properties(body, offset, kind, caps)
        _check_end(body, offset)
        return build(packet_id, reason, properties)

    return decode_acknowledgement


def _decode_subscribe(flags: int, body: bytes, version: int, caps: Caps) -> packets.Subscribe:
    _check_flags(flags, PacketType.SUBSCRIBE, version)
    packet_id, offset = read_packet_id(body, 0)
    properties = NO_PROPERTIES
    if version == V5:
        properties, offset = decode_properties(body, offset, PacketType.SUBSCRIBE, caps)
    subscriptions: list[packets.Subscription] = []
    while offset < len(body):
        caps.check_filters(len(subscriptions))
        topic_filter, offset = read_string(body, offset)  # [MQTT-3.8.3-1]
        options, offset = read_byte(body, offset)
        subscriptions.append(_subscription(topic_filter, options, version))
    if not subscriptions:
        raise violation("SUBSCRIBE without a topic filter")  # [MQTT-3.8.3-2]
    return packets.Subscribe(packet_id, tuple(subscriptions), properties)


def _subscription(topic_filter: str, options: int, version: int) -> packets.Subscription:
    check_filter(topic_filter, version)
    check_options(topic_filter, options, version)
    return packets.Subscription(
        topic_filter, options & 3, options & 4 != 0, options & 8 != 0, options >> 4
    )


def _decode_suback(flags: int, body: bytes, version: int, caps: Caps) -> packets.Suback:
    _check_flags(flags, PacketType.SUBACK, version)
    packet_id, offset = read_packet_id(body, 0)
    properties = NO_PROPERTIES
    if version == V5:
        properties, offset = decode_properties(body, offset, PacketType.SUBACK, caps)
    reasons = tuple(body[offset:])
    if not reasons:
        raise violation("SUBACK without a reason")
    for reason in reasons:
        if version == V5:
            check_reason(reason, PacketType.SUBACK)
        elif reason > 2 and reason != _FAILURE_V3:
            raise violation(f"SUBACK must not carry return code 0x{reason:02X}")  # 3.1.1 [MQTT-3.9.3-2]
    return packets.Suback(packet_id, reasons, properties)


def _decode_unsubscribe(flags: int, body: bytes, version: int, caps: Caps) -> packets.Unsubscribe:
    _check_flags(flags, PacketType.UNSUBSCRIBE, version)
    packet_id, offset = read_packet_id(body, 0)
    properties = NO_PROPERTIES
    if version == V5:
        properties, offset = decode_properties(body, offset, PacketType.UNSUBSCRIBE, caps)
    filters: list[str] = []
    while offset < len(body):
        caps.check_filters(len(filters))
        topic_filter, offset = read_string(body, offset)  # [MQTT-3.10.3-1]
        check_filter(topic_filter, version)
        filters.append(topic_filter)
    if not filters:
        raise violation("UNSUBSCRIBE without a topic filter")  # [MQTT-3.10.3-2]
    return packets.Unsubscribe(packet_id, tuple(filters), properties)


def _decode_unsuback(flags: int, body: bytes, version: int, caps: Caps) -> packets.Unsuback:
    _check_flags(flags, PacketType.UNSUBACK, version)
    packet_id, offset = read_packet_id(body, 0)
    if version != V5:
        _check_end(body, offset)
        return packets.Unsuback(packet_id)
    properties, offset = decode_properties(body, offset, PacketType.UNSUBACK, caps)
    reasons = tuple(body[offset:])
    if not reasons:
        raise violation("UNSUBACK without a reason")
    for reason in reasons:
        check_reason(reason, PacketType.UNSUBACK)
    return packets.Unsuback(packet_id, reasons, properties)


def _decode_pingreq(flags: int, body: bytes, version: int, caps: Caps) -> packets.Pingreq:
    _check_flags(flags, PacketType.PINGREQ, version)
    _check_end(body, 0)
    return packets.Pingreq()


def _decode_pingresp(flags: int, body: bytes, version: int, caps: Caps) -> packets.Pingresp:
    _check_flags(flags, PacketType.PINGRESP, version)
    _check_end(body, 0)
    return packets.Pingresp()


def _decode_disconnect(flags: int, body: bytes, version: int, caps: Caps) -> packets.Disconnect:
    _check_flags(flags, PacketType.DISCONNECT, version)
    if version != V5:
        _check_end(body, 0)
    if not body:
        return packets.Disconnect()
    reason = check_reason(body[0], PacketType.DISCONNECT)
    if len(body) == 1:
        return packets.Disconnect(reason)
    properties, offset = decode_properties(body, 1, PacketType.DISCONNECT, caps)
    _check_end(body, offset)
    return packets.Disconnect(reason, properties)


def _decode_auth(flags: int, body: bytes, version: int, caps: Caps) -> packets.Auth:
    if version != V5:
        raise malformed("packet type 15 is reserved before MQTT 5")
    _check_flags(flags, PacketType.AUTH, version)
    if not body:
        return packets.Auth()
    reason = check_reason(body[0], PacketType.AUTH)
    properties, offset = decode_properties(body, 1, PacketType.AUTH, caps)
    _check_end(body, offset)
    if reason and properties.authentication_method is None:
        raise violation("AUTH without an authentication method")
    return packets.Auth(reason, properties)


_DECODERS: Final[dict[int, Callable[[int, bytes, int, Caps], packets.Packet]]] = {
    PacketType.CONNECT: _decode_connect,
    PacketType.CONNACK: _decode_connack,
    PacketType.PUBLISH: _decode_publish,
    PacketType.PUBACK: _acknowledgement_decoder(PacketType.PUBACK, packets.Puback),
    PacketType.PUBREC: _acknowledgement_decoder(PacketType.PUBREC, packets.Pubrec),
    PacketType.PUBREL: _acknowledgement_decoder(PacketType.PUBREL, packets.Pubrel),
    PacketType.PUBCOMP: _acknowledgement_decoder(PacketType.PUBCOMP, packets.Pubcomp),
    PacketType.SUBSCRIBE: _decode_subscribe,
    PacketType.SUBACK: _decode_suback,
    PacketType.UNSUBSCRIBE: _decode_unsubscribe,
    PacketType.UNSUBACK: _decode_unsuback,
    PacketType.PINGREQ: _decode_pingreq,
    PacketType.PINGRESP: _decode_pingresp,
    PacketType.DISCONNECT: _decode_disconnect,
    PacketType.AUTH: _decode_auth,
}
