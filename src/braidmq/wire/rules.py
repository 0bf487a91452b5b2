"""Rules that decoding and encoding share: what we would refuse from a peer we don't send either."""

from typing import Final

from braidmq.errors import ProtocolError
from braidmq.wire.kinds import V5
from braidmq.wire.reasons import ReasonCode, malformed, violation

SHARED_PREFIX: Final = "$share/"
_NO_LOCAL: Final = 0x04


def empty_name(version: int) -> ProtocolError:
    """A topic name or filter without a character: MQTT 5 calls it a protocol error, MQTT 3 has one answer."""
    detail = "a topic name or filter is empty"
    return violation(detail) if version == V5 else malformed(detail)


def check_topic_name(topic: str, version: int) -> None:
    if not topic:
        raise empty_name(version)  # [MQTT-4.7.3-1]
    if "+" in topic or "#" in topic:
        raise ProtocolError(
            ReasonCode.TOPIC_NAME_INVALID, "a topic name has a wildcard"
        )  # [MQTT-3.3.2-2] [MQTT-4.7.1-1]


def check_filter(topic_filter: str, version: int) -> None:
    """Only that there is one; whether its wildcards stand right is known to braidmq.topics."""
    if not topic_filter:
        raise empty_name(version)  # [MQTT-4.7.3-1]


def check_options(topic_filter: str, options: int, version: int) -> None:
    if version != V5:
        if options > 2:
            raise malformed(f"SUBSCRIBE asks for QoS 0x{options:02X}")  # 3.1.1 [MQTT-3-8.3-4]
        return
    if options & 0xC0:
        raise malformed("SUBSCRIBE has reserved option bits set")  # [MQTT-3.8.3-5]
    if options & 0x03 == 3:
        raise violation("SUBSCRIBE asks for QoS 3")
    if options & 0x30 == 0x30:
        raise violation("SUBSCRIBE has retain handling 3")
    if options & _NO_LOCAL and topic_filter.startswith(SHARED_PREFIX):
        raise violation("a shared subscription has the no local option")  # [MQTT-3.8.3-4]
