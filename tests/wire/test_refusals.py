"""What has no bytes is refused on the way out, with the reason that a peer would have given."""

import pytest

from braidmq.errors import ProtocolError
from braidmq.wire import (
    V5,
    V31,
    V311,
    Auth,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Properties,
    Puback,
    Publish,
    Pubrel,
    ReasonCode,
    Suback,
    Subscribe,
    Subscription,
    Unsuback,
    Unsubscribe,
    Will,
    encode,
    fields,
)

MALFORMED = ReasonCode.MALFORMED_PACKET
VIOLATION = ReasonCode.PROTOCOL_ERROR
BAD_TOPIC = ReasonCode.TOPIC_NAME_INVALID
TOO_LONG = "x" * 65536
PLAIN = Subscription("a")


def with_identifiers(*identifiers: int) -> Publish:
    return Publish("a", properties=Properties(subscription_identifiers=identifiers))


REFUSED: list[tuple[str, Packet, ReasonCode]] = [
    ("client id too long", Connect(TOO_LONG), VIOLATION),
    ("too long in UTF-8 only", Connect("é" * 32768), VIOLATION),
    ("U+0000", Connect("a\0"), MALFORMED),
    ("surrogate", Connect("\ud800"), MALFORMED),
    ("version 6", Connect("c", version=6), ReasonCode.UNSUPPORTED_PROTOCOL_VERSION),
    ("version 0", Connect("c", version=0), ReasonCode.UNSUPPORTED_PROTOCOL_VERSION),
    ("keep alive too long", Connect("c", keep_alive_s=65536), VIOLATION),
    ("keep alive below 0", Connect("c", keep_alive_s=-1), VIOLATION),
    ("password alone in 3.1.1", Connect("c", version=V311, password=b""), MALFORMED),
    ("password too long", Connect("c", username="u", password=bytes(65536)), VIOLATION),
    ("will QoS 3", Connect("c", will=Will("w", b"", qos=3)), MALFORMED),
    ("will topic empty", Connect("c", will=Will("", b"")), VIOLATION),
    ("will topic with a wildcard", Connect("c", will=Will("+", b"")), BAD_TOPIC),
    ("will payload too long", Connect("c", will=Will("w", bytes(65536))), VIOLATION),
    ("alias of a will", Connect("c", will=Will("w", b"", properties=Properties(topic_alias=1))), VIOLATION),
    ("property of another packet", Connect("c", properties=Properties(topic_alias=1)), VIOLATION),
    ("refused with a session", Connack(True, 0x87), VIOLATION),
    ("reason of another packet", Connack(False, 0x8E), VIOLATION),
    ("topic empty", Publish(""), VIOLATION),
    ("topic with #", Publish("a/#"), BAD_TOPIC),
    ("topic with +", Publish("+"), BAD_TOPIC),
    ("QoS 3", Publish("a", qos=3, packet_id=1), MALFORMED),
    ("QoS below 0", Publish("a", qos=-1), MALFORMED),
    ("DUP at QoS 0", Publish("a", dup=True), MALFORMED),
    ("packet id at QoS 0", Publish("a", packet_id=1), VIOLATION),
    ("no packet id at QoS 1", Publish("a", qos=1), VIOLATION),
    ("packet id too large", Publish("a", qos=1, packet_id=65536), VIOLATION),
    ("response topic with +", Publish("a", properties=Properties(response_topic="+")), VIOLATION),
    ("payload format 2", Publish("a", properties=Properties(payload_format=2)), VIOLATION),
    ("expiry below 0", Publish("a", properties=Properties(message_expiry_s=-1)), VIOLATION),
    ("expiry too large", Publish("a", properties=Properties(message_expiry_s=1 << 32)), VIOLATION),
    ("identifier too large", with_identifiers(1 << 28), VIOLATION),
    ("identifier below 0", with_identifiers(-1), VIOLATION),
    ("value too long", Publish("a", properties=Properties(user_properties=(("k", TOO_LONG),))), VIOLATION),
    ("packet id 0", Puback(0), VIOLATION),
    ("packet id below 0", Puback(-1), VIOLATION),
    ("unknown reason", Puback(1, 1), VIOLATION),
    ("reason of a first answer", Pubrel(1, 0x10), VIOLATION),
    ("no filter", Subscribe(1, ()), VIOLATION),
    ("filter empty", Subscribe(1, (Subscription(""),)), VIOLATION),
    ("QoS 3 asked", Subscribe(1, (Subscription("a", 3),)), VIOLATION),
    ("QoS 4 asked", Subscribe(1, (Subscription("a", 4),)), VIOLATION),
    ("retain handling below 0", Subscribe(1, (Subscription("a", retain_handling=-1),)), VIOLATION),
    ("retain handling 3", Subscribe(1, (Subscription("a", retain_handling=3),)), VIOLATION),
    ("shared with no local", Subscribe(1, (Subscription("$share/g/a", no_local=True),)), VIOLATION),
    ("two identifiers", Subscribe(1, (PLAIN,), Properties(subscription_identifiers=(1, 2))), VIOLATION),
    ("no reason", Suback(1, ()), VIOLATION),
    ("reason of another packet", Suback(1, (0x11,)), VIOLATION),
    ("no filter", Unsubscribe(1, ()), VIOLATION),
    ("filter empty", Unsubscribe(1, ("",)), VIOLATION),
    ("no reason", Unsuback(1), VIOLATION),
    ("reason of another packet", Unsuback(1, (1,)), VIOLATION),
    ("reason of another packet", Disconnect(0x84), VIOLATION),
    ("continue without a method", Auth(0x18), VIOLATION),
    ("reason of another packet", Auth(0x80, Properties(authentication_method="M")), VIOLATION),
]  # fmt: skip


@pytest.mark.parametrize(
    ("packet", "reason"),
    [row[1:] for row in REFUSED],
    ids=[f"{type(row[1]).__name__}, {row[0]}" for row in REFUSED],
)
def test_refused(packet: Packet, reason: ReasonCode) -> None:
    with pytest.raises(ProtocolError) as refused:
        encode(packet, V5)
    assert refused.value.reason == reason


@pytest.mark.parametrize("version", [V31, V311])
def test_refused_in_mqtt_3(version: int) -> None:
    by_alias = Publish("", properties=Properties(topic_alias=1))
    for packet in (Auth(), by_alias, Subscribe(1, (Subscription("a", 3),)), Suback(1, ())):
        with pytest.raises(ProtocolError):
            encode(packet, version)


def test_packet_that_no_length_can_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    """The true limit is 256 MiB; the rule is the same at 100 bytes."""
    monkeypatch.setattr("braidmq.wire.encoding.VARINT_MAX", 100)
    assert encode(Publish("a", bytes(96)), V5)
    with pytest.raises(ProtocolError) as refused:
        encode(Publish("a", bytes(97)), V5)
    assert refused.value.reason == ReasonCode.PACKET_TOO_LARGE
    assert fields.VARINT_MAX == 268_435_455
