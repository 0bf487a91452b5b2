"""Reason codes, and how MQTT 3 hears of them."""

import pytest

from braidmq.errors import ProtocolError
from braidmq.wire import (
    V5,
    V31,
    V311,
    Connack,
    PacketType,
    ReasonCode,
    Suback,
    Unsuback,
    connack_return_code,
    connect_answer_version,
    decode,
    encode,
)
from braidmq.wire.reasons import ALLOWED_REASONS
from tests.wire.cases.building import raw, text

# MQTT 5 section 2.4, as the packets' own sections have it.
SPEC_REASONS = {
    PacketType.CONNACK: "00 80 81 82 83 84 85 86 87 88 89 8a 8c 90 95 97 99 9a 9b 9c 9d 9f",
    PacketType.PUBACK: "00 10 80 83 87 90 91 97 99",
    PacketType.PUBREC: "00 10 80 83 87 90 91 97 99",
    PacketType.PUBREL: "00 92",
    PacketType.PUBCOMP: "00 92",
    PacketType.SUBACK: "00 01 02 80 83 87 8f 91 97 9e a1 a2",
    PacketType.UNSUBACK: "00 11 80 83 87 8f 91",
    PacketType.DISCONNECT: (
        "00 04 80 81 82 83 87 89 8b 8c 8d 8e 8f 90 93 94 95 96 97 98 99 9a 9b 9c 9d 9e 9f a0 a1 a2"
    ),
    PacketType.AUTH: "00 18 19",
}


def test_allowed_reasons_are_those_of_the_standard() -> None:
    expected = {kind: frozenset(bytes.fromhex(codes)) for kind, codes in SPEC_REASONS.items()}
    assert expected == ALLOWED_REASONS


def test_every_allowed_reason_has_a_name() -> None:
    for reasons in ALLOWED_REASONS.values():
        for reason in reasons:
            assert ReasonCode(reason).name


@pytest.mark.parametrize("kind", list(SPEC_REASONS), ids=lambda kind: kind.name)
def test_every_other_reason_is_refused(kind: PacketType) -> None:
    """[MQTT-3.2.2-8] [MQTT-3.4.2-1] [MQTT-3.9.3-2] [MQTT-3.14.2-1] and their like"""
    bodies = {
        PacketType.CONNACK: "00 {:02x} 00",
        PacketType.SUBACK: "0001 00 {:02x}",
        PacketType.UNSUBACK: "0001 00 {:02x}",
        PacketType.DISCONNECT: "{:02x}",
        PacketType.AUTH: "{:02x} 04 15 0001 4d",
    }
    template = bodies.get(kind, "0001 {:02x}")
    first_byte = kind << 4 | (2 if kind is PacketType.PUBREL else 0)
    allowed = set(bytes.fromhex(SPEC_REASONS[kind]))
    for reason in allowed:
        decode(first_byte, raw(template.format(reason)), V5)
    for reason in set(range(256)) - allowed:
        with pytest.raises(ProtocolError) as refused:
            decode(first_byte, raw(template.format(reason)), V5)
        assert refused.value.reason == ReasonCode.PROTOCOL_ERROR


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        (ReasonCode.SUCCESS, 0),
        (ReasonCode.UNSUPPORTED_PROTOCOL_VERSION, 1),
        (ReasonCode.CLIENT_IDENTIFIER_NOT_VALID, 2),
        (ReasonCode.SERVER_UNAVAILABLE, 3),
        (ReasonCode.BAD_USER_NAME_OR_PASSWORD, 4),
        (ReasonCode.NOT_AUTHORIZED, 5),
        (ReasonCode.BANNED, 5),
        (ReasonCode.BAD_AUTHENTICATION_METHOD, 5),
        (ReasonCode.SERVER_BUSY, 3),
        (ReasonCode.QUOTA_EXCEEDED, 3),
        (ReasonCode.CONNECTION_RATE_EXCEEDED, 3),
    ],
)
def test_connack_in_mqtt_3(reason: ReasonCode, code: int) -> None:
    assert connack_return_code(reason) == code
    assert encode(Connack(reason=reason), V311) == bytes((0x20, 2, 0, code))
    assert encode(Connack(reason=reason), V31) == bytes((0x20, 2, 0, code))


def test_every_refusal_is_a_refusal_in_mqtt_3() -> None:
    for reason in ALLOWED_REASONS[PacketType.CONNACK] - {0}:
        assert 1 <= connack_return_code(reason) <= 5


def test_session_present_is_not_told_in_mqtt_3_1() -> None:
    assert encode(Connack(session_present=True), V31) == b"\x20\x02\0\0"
    assert encode(Connack(session_present=True), V311) == b"\x20\x02\x01\0"


def test_subscribe_answers_in_mqtt_3() -> None:
    reasons = (0, 1, 2, 0x80, 0x87, 0x8F, 0xA2)
    for version in (V31, V311):
        assert encode(Suback(1, reasons), version) == b"\x90\x09\0\x01\0\x01\x02\x80\x80\x80\x80"
        assert encode(Unsuback(1, (0, 0x11, 0x87)), version) == b"\xb0\x02\0\x01"


@pytest.mark.parametrize(
    ("body", "version"),
    [
        (raw(text("MQTT"), "05 01 003c 00", text("c")), V5),
        (raw(text("MQTT"), "06"), V311),
        (raw(text("MQTT"), "ff"), V311),
        (raw(text("MQTT"), "04"), V311),
        (raw(text("MQTT"), "03"), V311),
        (raw(text("MQTT"), "84"), V311),
        (raw(text("MQIsdp"), "03"), V31),
        (raw(text("MQIsdp"), "05"), V31),
        (raw(text("HTTP"), "05"), V311),
        (raw(text("MQTT")), V311),
        (b"", V311),
        (b"\xff\xff", V311),
    ],
)
def test_version_in_which_a_bad_connect_is_answered(body: bytes, version: int) -> None:
    assert connect_answer_version(body) == version
