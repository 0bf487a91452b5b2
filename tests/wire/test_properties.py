"""Which packet may carry which property, spelt out from MQTT 5 section 2.2.2.2 and tried in every pair."""

import pytest

from braidmq.errors import ProtocolError
from braidmq.wire import WILL_OWNER, PacketType, Properties, ReasonCode, decode_properties, encode_properties
from braidmq.wire.properties import PROPERTY_TABLE
from tests.support.rows import check_rows
from tests.wire.cases.building import block, text

P = PacketType
ANSWERS: set[int] = {
    P.CONNACK, P.PUBACK, P.PUBREC, P.PUBREL, P.PUBCOMP, P.SUBACK, P.UNSUBACK, P.DISCONNECT, P.AUTH,
}  # fmt: skip
OWNERS: set[int] = {*PacketType, WILL_OWNER} - {P.PINGREQ, P.PINGRESP}

# Identifier: field, a value in bytes and decoded, owners.
MATRIX: dict[int, tuple[str, bytes, object, set[int]]] = {
    0x01: ("payload_format", b"\x01", 1, {P.PUBLISH, WILL_OWNER}),
    0x02: ("message_expiry_s", b"\0\0\0\x05", 5, {P.PUBLISH, WILL_OWNER}),
    0x03: ("content_type", text("t"), "t", {P.PUBLISH, WILL_OWNER}),
    0x08: ("response_topic", text("r"), "r", {P.PUBLISH, WILL_OWNER}),
    0x09: ("correlation_data", text(b"\xff"), b"\xff", {P.PUBLISH, WILL_OWNER}),
    0x0B: ("subscription_identifiers", b"\x07", (7,), {P.PUBLISH, P.SUBSCRIBE}),
    0x11: ("session_expiry_s", b"\0\0\0\x05", 5, {P.CONNECT, P.CONNACK, P.DISCONNECT}),
    0x12: ("assigned_client_id", text("c"), "c", {P.CONNACK}),
    0x13: ("server_keep_alive_s", b"\0\x05", 5, {P.CONNACK}),
    0x15: ("authentication_method", text("M"), "M", {P.CONNECT, P.CONNACK, P.AUTH}),
    0x17: ("request_problem_information", b"\x01", True, {P.CONNECT}),
    0x18: ("will_delay_s", b"\0\0\0\x05", 5, {WILL_OWNER}),
    0x19: ("request_response_information", b"\0", False, {P.CONNECT}),
    0x1A: ("response_information", text("i"), "i", {P.CONNACK}),
    0x1C: ("server_reference", text("s"), "s", {P.CONNACK, P.DISCONNECT}),
    0x1F: ("reason_string", text("w"), "w", ANSWERS),
    0x21: ("receive_maximum", b"\0\x05", 5, {P.CONNECT, P.CONNACK}),
    0x22: ("topic_alias_maximum", b"\0\x05", 5, {P.CONNECT, P.CONNACK}),
    0x23: ("topic_alias", b"\0\x05", 5, {P.PUBLISH}),
    0x24: ("maximum_qos", b"\x01", 1, {P.CONNACK}),
    0x25: ("retain_available", b"\x01", True, {P.CONNACK}),
    0x26: ("user_properties", text("k") + text("v"), (("k", "v"),), OWNERS),
    0x27: ("maximum_packet_size_bytes", b"\0\0\0\x05", 5, {P.CONNECT, P.CONNACK}),
    0x28: ("wildcard_subscription_available", b"\0", False, {P.CONNACK}),
    0x29: ("subscription_identifiers_available", b"\x01", True, {P.CONNACK}),
    0x2A: ("shared_subscription_available", b"\x01", True, {P.CONNACK}),
}
REPEATABLE = {(0x26, owner) for owner in OWNERS} | {(0x0B, P.PUBLISH)}
# Authentication data needs a method beside it, so it has tests of its own.
AUTHENTICATION_DATA = 0x16

PLACED = [(identifier, owner) for identifier, row in MATRIX.items() for owner in sorted(row[3])]
MISPLACED = [
    (identifier, owner) for identifier, row in MATRIX.items() for owner in sorted(OWNERS - row[3])
] + [(AUTHENTICATION_DATA, owner) for owner in sorted(OWNERS - {P.CONNECT, P.CONNACK, P.AUTH})]


def one(identifier: int) -> bytes:
    value = text(b"d") if identifier == AUTHENTICATION_DATA else MATRIX[identifier][1]
    return bytes((identifier,)) + value


def refusal(data: bytes, owner: int) -> int:
    with pytest.raises(ProtocolError) as refused:
        decode_properties(data, 0, owner)
    return refused.value.reason


def test_matrix_names_every_property_of_the_code() -> None:
    assert {row.identifier for row in PROPERTY_TABLE} == set(MATRIX) | {AUTHENTICATION_DATA}
    assert {row.field for row in PROPERTY_TABLE} == set(Properties.__struct_fields__)


def test_property_in_its_place() -> None:
    def check(place: tuple[int, int]) -> None:
        identifier, owner = place
        field, _, value, _ = MATRIX[identifier]
        expected = Properties(**{field: value})  # type: ignore[arg-type]
        data = block(one(identifier))
        assert decode_properties(data, 0, owner) == (expected, len(data))
        assert encode_properties(expected, owner) == data

    check_rows(PLACED, check)


def test_property_out_of_place() -> None:
    def check(place: tuple[int, int]) -> None:
        identifier, owner = place
        assert refusal(block(one(identifier)), owner) == ReasonCode.MALFORMED_PACKET
        if identifier != AUTHENTICATION_DATA:
            field, _, value, _ = MATRIX[identifier]
            with pytest.raises(ProtocolError):
                encode_properties(Properties(**{field: value}), owner)  # type: ignore[arg-type]

    check_rows(MISPLACED, check)


def test_property_given_twice() -> None:
    def check(place: tuple[int, int]) -> None:
        identifier, owner = place
        twice = block(one(identifier), one(identifier))
        if place in REPEATABLE:
            properties, _ = decode_properties(twice, 0, owner)
            assert len(getattr(properties, MATRIX[identifier][0])) == 2
            assert encode_properties(properties, owner) == twice
        else:
            assert refusal(twice, owner) == ReasonCode.PROTOCOL_ERROR

    check_rows(PLACED, check)


def test_property_cut_short() -> None:
    def check(place: tuple[int, int]) -> None:
        identifier, owner = place
        data = one(identifier)
        for end in range(1, len(data)):
            assert refusal(block(data[:end]), owner) == ReasonCode.MALFORMED_PACKET

    check_rows(PLACED, check)


def test_unknown_identifiers() -> None:
    known = set(MATRIX) | {AUTHENTICATION_DATA}
    for identifier in set(range(256)) - known:
        for owner in OWNERS:
            assert refusal(block(bytes((identifier,)), b"\0" * 8), owner) == ReasonCode.MALFORMED_PACKET


def test_property_of_one_bit_with_another_value() -> None:
    def check(identifier: int) -> None:
        owner = min(MATRIX[identifier][3])
        for value in (2, 3, 0x80, 0xFF):
            assert refusal(block(bytes((identifier, value))), owner) == ReasonCode.PROTOCOL_ERROR

    check_rows([i for i, row in MATRIX.items() if len(row[1]) == 1 and i != 0x0B], check)


@pytest.mark.parametrize(
    ("identifier", "reason"),
    [
        (0x0B, ReasonCode.PROTOCOL_ERROR),
        (0x21, ReasonCode.PROTOCOL_ERROR),
        (0x27, ReasonCode.PROTOCOL_ERROR),
        (0x23, ReasonCode.TOPIC_ALIAS_INVALID),
    ],
)
def test_property_that_must_not_be_0(identifier: int, reason: ReasonCode) -> None:
    field, value, _, owners = MATRIX[identifier]
    zero = block(bytes((identifier,)), b"\0" * len(value))
    for owner in owners:
        assert refusal(zero, owner) == reason
    with pytest.raises(ProtocolError) as refused:
        encode_properties(Properties(**{field: (0,) if identifier == 0x0B else 0}))  # type: ignore[arg-type]
    assert refused.value.reason == reason


@pytest.mark.parametrize("owner", [P.CONNECT, P.CONNACK, P.AUTH])
def test_authentication_data_needs_a_method(owner: int) -> None:
    data = one(AUTHENTICATION_DATA)
    method = one(0x15)
    expected = Properties(authentication_method="M", authentication_data=b"d")
    assert decode_properties(block(data, method), 0, owner)[0] == expected
    assert decode_properties(block(method, data), 0, owner)[0] == expected
    assert refusal(block(data), owner) == ReasonCode.PROTOCOL_ERROR
    with pytest.raises(ProtocolError):
        encode_properties(Properties(authentication_data=b"d"), owner)


def test_block_that_ends_before_its_length() -> None:
    data = b"\x07" + b"\x02\0\0\0\x01" + b"\x01\x01"
    for end in range(len(data)):
        assert refusal(data[:end], P.PUBLISH) == ReasonCode.MALFORMED_PACKET


def test_user_properties_keep_their_order_and_repetitions() -> None:
    """[MQTT-3.3.2-18]"""
    pairs = (("b", "1"), ("a", "2"), ("b", "1"), ("", ""))
    data = encode_properties(Properties(user_properties=pairs), P.PUBLISH)
    assert decode_properties(data, 0, P.PUBLISH)[0].user_properties == pairs
