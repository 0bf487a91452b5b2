"""What a CONNECT asks for, and what of it the limits grant. Pure functions of the two."""

from braidmq.broker.peers import CLIENT_ID_PREFIX
from braidmq.errors import ProtocolError
from braidmq.limits import UINT16_CEILING, UINT32_CEILING, Limits
from braidmq.topics import validate_topic
from braidmq.wire import V5, V31, V311, Connect, Properties, ReasonCode, Will


def asked_expiry(packet: Connect) -> int:
    """How many seconds the client wants its session to outlive the connection."""
    if packet.version == V5:
        return packet.properties.session_expiry_s or 0
    return 0 if packet.clean_start else UINT32_CEILING


def check_wishes(packet: Connect, limits: Limits, *, can_keep: bool) -> None:
    """Raise ProtocolError if the CONNECT asks for what nobody can have."""
    if len(packet.client_id.encode()) > limits.client_id_bytes_max:
        raise ProtocolError(ReasonCode.CLIENT_IDENTIFIER_NOT_VALID, "the client id is too long")
    if packet.client_id.startswith(CLIENT_ID_PREFIX):
        raise ProtocolError(ReasonCode.CLIENT_IDENTIFIER_NOT_VALID, "the client id is a node's")
    needs_client_id = packet.version == V31 or (packet.version == V311 and not packet.clean_start)
    if needs_client_id and not packet.client_id:  # [MQTT-3.1.3-8] of 3.1.1
        raise ProtocolError(ReasonCode.CLIENT_IDENTIFIER_NOT_VALID, "the client id is missing")
    if packet.version != V5 and _is_too_quiet(packet, limits):
        # MQTT 3 can't be told another one; Mosquitto refuses with the same code.
        raise ProtocolError(ReasonCode.CLIENT_IDENTIFIER_NOT_VALID, "the keep alive is too long, or none")
    if not can_keep and (packet.will is not None or asked_expiry(packet)):
        raise ProtocolError(ReasonCode.SERVER_UNAVAILABLE, "the store can't be written")
    if packet.will is not None:
        _check_will(packet.will, limits)


def _check_will(will: Will, limits: Limits) -> None:
    validate_topic(will.topic, bytes_max=limits.topic_bytes_max, levels_max=limits.topic_levels_max)
    if will.topic.startswith("$SYS/"):
        raise ProtocolError(ReasonCode.NOT_AUTHORIZED, "a will below $SYS, which is the broker's own")
    if will.retain and not limits.retained_messages_max:
        raise ProtocolError(ReasonCode.RETAIN_NOT_SUPPORTED, "retained messages are turned off")


def granted_keep_alive(packet: Connect, limits: Limits) -> int:
    """How many seconds may pass without a packet of the client; 0: any."""
    if packet.version != V5:
        return packet.keep_alive_s
    if limits.server_keep_alive_s:
        return limits.server_keep_alive_s
    return limits.keep_alive_s_max if _is_too_quiet(packet, limits) else packet.keep_alive_s


def _is_too_quiet(packet: Connect, limits: Limits) -> bool:
    """Whether the client asks for a longer keep alive than it may have, or for none."""
    return limits.keep_alive_s_max > 0 and not 0 < packet.keep_alive_s <= limits.keep_alive_s_max


def granted_properties(packet: Connect, client_id: str, limits: Limits) -> Properties:
    """What the CONNACK says about it: only what differs from what was asked, or from the standard."""
    keep_alive_s = granted_keep_alive(packet, limits)
    asked_expiry_s = packet.properties.session_expiry_s or 0
    granted_expiry_s = min(asked_expiry_s, limits.session_expiry_s_max)
    return Properties(
        session_expiry_s=granted_expiry_s if granted_expiry_s != asked_expiry_s else None,
        receive_maximum=limits.receive_maximum if limits.receive_maximum != UINT16_CEILING else None,
        retain_available=None if limits.retained_messages_max else False,
        maximum_packet_size_bytes=limits.packet_bytes_max,
        assigned_client_id=None if packet.client_id else client_id,  # [MQTT-3.1.3-7]
        topic_alias_maximum=limits.topic_alias_max or None,
        server_keep_alive_s=keep_alive_s if keep_alive_s != packet.keep_alive_s else None,
        authentication_method=packet.properties.authentication_method,
    )
