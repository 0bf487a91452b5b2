"""MQTT frames put together by hand, for what an honest encoder refuses to write.

Deliberately independent of braidmq.wire: a test of the broker must not share the codec's mistakes.
"""

CONNECT, CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP = 0x10, 0x20, 0x30, 0x40, 0x50, 0x62, 0x70
SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK, PINGREQ, PINGRESP = 0x82, 0x90, 0xA2, 0xB0, 0xC0, 0xD0
DISCONNECT, AUTH = 0xE0, 0xF0

WILL_FLAG, WILL_QOS_SHIFT, WILL_RETAIN, PASSWORD_FLAG, USERNAME_FLAG, CLEAN = 0x04, 3, 0x20, 0x40, 0x80, 0x02


def varint(value: int) -> bytes:
    """A Variable Byte Integer of the fewest bytes."""
    encoded = bytearray()
    while True:
        value, low = divmod(value, 128)
        encoded.append(low | (0x80 if value else 0))
        if not value:
            return bytes(encoded)


def u16(value: int) -> bytes:
    return value.to_bytes(2, "big")


def u32(value: int) -> bytes:
    return value.to_bytes(4, "big")


def blob(data: bytes | str) -> bytes:
    """A length-prefixed string or binary field; bytes go out as they are, well-formed or not."""
    raw = data.encode() if isinstance(data, str) else data
    return u16(len(raw)) + raw


def props(*encoded: bytes) -> bytes:
    """A property block: its length, then the properties as given."""
    body = b"".join(encoded)
    return varint(len(body)) + body


def user_property(name: bytes | str, value: bytes | str) -> bytes:
    return b"\x26" + blob(name) + blob(value)


def frame(first_byte: int, *body: bytes) -> bytes:
    joined = b"".join(body)
    return bytes((first_byte,)) + varint(len(joined)) + joined


def connect(
    *payload: bytes,
    protocol_name: bytes | str = "MQTT",
    level: int = 5,
    flags: int = CLEAN,
    keep_alive_s: int = 60,
    properties: bytes = b"\x00",
) -> bytes:
    """A CONNECT frame. `payload` fields are given encoded; below level 5 there is no property block."""
    block = properties if level >= 5 else b""
    head = blob(protocol_name) + bytes((level, flags)) + u16(keep_alive_s)
    return frame(CONNECT, head, block, *payload)


def publish(
    topic: bytes | str,
    payload: bytes = b"",
    *,
    flags: int = 0,
    packet_id: int | None = None,
    properties: bytes = b"\x00",
) -> bytes:
    """A v5 PUBLISH frame; `flags` are the low four bits of the first byte."""
    identifier = b"" if packet_id is None else u16(packet_id)
    return frame(PUBLISH | flags, blob(topic), identifier, properties, payload)


def subscribe(packet_id: int, *pairs: tuple[bytes | str, int], properties: bytes = b"\x00") -> bytes:
    """A v5 SUBSCRIBE frame of (filter, options byte) pairs."""
    payload = b"".join(blob(name) + bytes((options,)) for name, options in pairs)
    return frame(SUBSCRIBE, u16(packet_id), properties, payload)


def unsubscribe(packet_id: int, *filters: bytes | str, properties: bytes = b"\x00") -> bytes:
    return frame(UNSUBSCRIBE, u16(packet_id), properties, b"".join(blob(name) for name in filters))
