"""What may be repeated is counted while it is read, and what is too much is not looked at."""

import pytest

from braidmq.errors import ProtocolError
from braidmq.wire import (
    V5,
    Auth,
    Caps,
    Connect,
    Disconnect,
    FrameReader,
    Packet,
    Properties,
    Puback,
    Publish,
    ReasonCode,
    Subscribe,
    Subscription,
    Unsubscribe,
    Will,
    decode,
    encode,
)

CAPS = Caps(user_properties_max=10, filters_max=10)


def with_properties(count: int) -> list[Packet]:
    given = Properties(user_properties=(("a", "b"),) * count)
    named = Properties(user_properties=given.user_properties, authentication_method="m")
    return [
        Connect("c", properties=given),
        Connect("c", will=Will("t", b"", properties=given)),
        Publish("t", b"", properties=given),
        Puback(1, 0, given),
        Subscribe(1, (Subscription("t"),), given),
        Unsubscribe(1, ("t",), given),
        Disconnect(0, given),
        Auth(0x18, named),
    ]


def with_filters(count: int) -> list[Packet]:
    return [Subscribe(1, (Subscription("$SYS/#"),) * count), Unsubscribe(1, ("t",) * count)]


def split(packet: Packet) -> tuple[int, bytes]:
    reader = FrameReader(1 << 28)
    reader.feed(encode(packet, V5))
    (frame,) = reader.frames()
    return frame


def test_as_many_as_there_may_be_are_read() -> None:
    for packet in with_properties(10) + with_filters(10):
        first, body = split(packet)
        assert decode(first, body, V5, CAPS) == packet


def test_what_comes_behind_the_last_that_may_be_is_not_looked_at() -> None:
    for packet in with_properties(20) + with_filters(20):
        first, body = split(packet)
        damaged = body[:100] + b"\xff" * (len(body) - 100)
        with pytest.raises(ProtocolError) as raised:
            decode(first, damaged, V5, CAPS)
        assert raised.value.reason == ReasonCode.QUOTA_EXCEEDED, packet
