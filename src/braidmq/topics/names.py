"""Topic names: what a publisher may name. Cost: linear in the bytes."""

from typing import Final

from braidmq.errors import ProtocolError

TOPIC_FILTER_INVALID: Final = 0x8F
TOPIC_NAME_INVALID: Final = 0x90

TOPIC_BYTES_MAX: Final = 65_535  # what MQTT's two length bytes can say
TOPIC_LEVELS_MAX: Final = TOPIC_BYTES_MAX + 1  # a topic of nothing but slashes


def validate_topic(
    topic: str | bytes, *, bytes_max: int = TOPIC_BYTES_MAX, levels_max: int = TOPIC_LEVELS_MAX
) -> None:
    """Raises ProtocolError(TOPIC_NAME_INVALID) unless a message may be published to `topic`."""
    name = checked_text(topic, TOPIC_NAME_INVALID, bytes_max)
    if b"+" in name or b"#" in name:
        raise ProtocolError(TOPIC_NAME_INVALID, "a topic name has no wildcards")  # [MQTT-3.3.2-2]
    check_levels(name, TOPIC_NAME_INVALID, levels_max)


def checked_text(text: str | bytes, reason: int, bytes_max: int) -> bytes:
    """The UTF-8 bytes of a topic or filter that keeps the rules both have in common."""
    try:
        if isinstance(text, str):
            encoded = text.encode()
        else:
            encoded = text
            encoded.decode()
    except UnicodeError as error:
        raise ProtocolError(reason, "the topic is not well-formed UTF-8") from error
    if not encoded:
        raise ProtocolError(reason, "the topic is empty")  # [MQTT-4.7.3-1]
    if len(encoded) > bytes_max:
        raise ProtocolError(reason, f"the topic has {len(encoded)} bytes, more than {bytes_max}")
    if b"\0" in encoded:
        raise ProtocolError(reason, "the topic contains U+0000")  # [MQTT-4.7.3-2]
    return encoded


def check_levels(text: bytes, reason: int, levels_max: int) -> None:
    levels = text.count(b"/") + 1
    if levels > levels_max:
        raise ProtocolError(reason, f"the topic has {levels} levels, more than {levels_max}")
