"""The checks in C say what Python says, about any bytes."""

import itertools

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from braidmq.errors import ProtocolError
from braidmq.wire import PacketType, Properties, ReasonCode, decode_properties, encode_properties, fields
from braidmq.wire.scan import is_valid_string, read_varint_at, scan_publish_properties, varint_bytes
from tests.wire import strategies
from tests.wire.packets import BAD, GOOD, split

VARINT_EDGES = [0, 1, 127, 128, 16383, 16384, 2097151, 2097152, 268435455]


def python_verdict(block: bytes) -> tuple[int, Properties]:
    try:
        return 0, decode_properties(fields.write_varint(len(block)) + block, 0, PacketType.PUBLISH)[0]
    except ProtocolError as refused:
        return refused.reason, Properties()


def assert_agreement(block: bytes) -> None:
    expected, properties = python_verdict(block)
    reason, scan = scan_publish_properties(block)
    assert reason == expected
    if reason:
        return
    assert (scan["topic_alias"] if scan["has_topic_alias"] else None) == properties.topic_alias
    assert (scan["message_expiry_s"] if scan["has_message_expiry"] else None) == properties.message_expiry_s
    assert (None if scan["payload_format"] < 0 else scan["payload_format"]) == properties.payload_format
    assert scan["subscription_identifier_count"] == len(properties.subscription_identifiers)
    assert scan["user_property_count"] == len(properties.user_properties)
    if scan["has_message_expiry"]:
        offset = scan["message_expiry_offset"]
        assert block[offset - 1] == 0x02
        assert int.from_bytes(block[offset : offset + 4], "big") == properties.message_expiry_s
    if scan["has_topic_alias"]:
        offset = scan["topic_alias_offset"]
        assert block[offset] == 0x23
        assert int.from_bytes(block[offset + 1 : offset + 3], "big") == properties.topic_alias


def valid_blocks() -> st.SearchStrategy[bytes]:
    return strategies.properties(PacketType.PUBLISH).map(without_length)


def without_length(properties: Properties) -> bytes:
    encoded = encode_properties(properties)
    return encoded[read_varint_at(encoded)[0] :]


@st.composite
def mutated_blocks(draw: st.DrawFn) -> bytes:
    """Good blocks with some bytes replaced, removed or doubled: near misses, where checkers differ."""
    block = bytearray(draw(valid_blocks()))
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(block)))
        end = min(len(block), start + draw(st.integers(0, 4)))
        byte = st.sampled_from([0, 1, 2, 3, 8, 9, 0x0B, 0x23, 0x26, 0x2B, 0x7F, 0x80, 0xC2, 0xED, 0xFF])
        block[start:end] = bytes(draw(st.lists(byte, max_size=4)))
    return bytes(block)


@given(block=valid_blocks())
def test_good_blocks(block: bytes) -> None:
    assert scan_publish_properties(block)[0] == 0
    assert_agreement(block)


@settings(max_examples=500)
@given(block=mutated_blocks() | st.binary(max_size=30))
@example(block=b"\x23\0\0\x23\0\0")
@example(block=b"\x0b\xff\xff\xff\xff")
def test_python_and_c_agree(block: bytes) -> None:
    assert_agreement(block)


def test_python_and_c_agree_on_the_table() -> None:
    """Whole bodies are bad blocks in all sorts of ways."""
    for data in [row.data for row in GOOD] + [row.data for row in BAD]:
        _, body = split(data)
        for start in range(len(body)):
            assert_agreement(body[start:])


def test_every_pair_of_properties() -> None:
    values = {
        0x01: b"\1", 0x02: b"\0\0\0\1", 0x03: b"\0\1t", 0x08: b"\0\1r", 0x09: b"\0\1\xff", 0x0B: b"\x01",
        0x23: b"\0\1", 0x26: b"\0\1k\0\1v",
    }  # fmt: skip
    properties = [bytes((identifier,)) + values.get(identifier, b"\0") for identifier in range(256)]
    for first, second in itertools.product(properties, repeat=2):
        assert scan_publish_properties(first + second)[0] == python_verdict(first + second)[0]


@pytest.mark.parametrize("value", VARINT_EDGES)
def test_varint_edges(value: int) -> None:
    encoded = varint_bytes(value)
    assert encoded == fields.write_varint(value)
    assert read_varint_at(encoded) == (len(encoded), value)
    assert read_varint_at(b"\xff" + encoded + b"\xff", 1) == (len(encoded), value)
    for end in range(len(encoded)):
        assert read_varint_at(encoded[:end])[0] == 0


@given(value=st.integers(0, 0x0FFFFFFF))
def test_varint_round_trip(value: int) -> None:
    assert read_varint_at(varint_bytes(value)) == (len(fields.write_varint(value)), value)


def test_varint_out_of_range() -> None:
    with pytest.raises(OverflowError):
        varint_bytes(1 << 28)
    with pytest.raises(IndexError):
        read_varint_at(b"\1", 2)


@pytest.mark.parametrize(
    "data", [b"\x80\0", b"\xff\0", b"\x80\x80\0", b"\x81\x80\x80\0", b"\xff" * 4, b"\x80" * 5]
)
def test_varint_malformed(data: bytes) -> None:
    """[MQTT-1.5.5-1]"""
    assert read_varint_at(data)[0] == -1
    with pytest.raises(ProtocolError):
        fields.read_varint(data, 0)


@given(data=st.binary(max_size=6))
def test_varint_of_any_bytes(data: bytes) -> None:
    used, value = read_varint_at(data)
    if used > 0:
        assert fields.read_varint(data, 0) == (value, used)
        return
    with pytest.raises(ProtocolError):
        fields.read_varint(data, 0)
    if used == 0:
        assert len(data) < 4
        assert all(byte & 0x80 for byte in data)


def python_accepts(data: bytes) -> bool:
    try:
        return "\0" not in data.decode()
    except UnicodeDecodeError:
        return False


def test_utf8_every_lead_and_second_byte() -> None:
    """[MQTT-1.5.4-1]: all pairs of first bytes, with third and fourth ones at the edges of their range."""
    edges = (b"", b"\x7f", b"\x80", b"\xbf", b"\xc0")
    tails = [third + fourth for third in edges for fourth in edges]
    for lead, second in itertools.product(range(0x7F, 0x100), range(0x100)):
        start = bytes((lead, second))
        if 0x80 <= lead < 0xE0:
            assert is_valid_string(start) == python_accepts(start)
            continue
        for tail in tails:
            assert is_valid_string(start + tail) == python_accepts(start + tail)


@pytest.mark.parametrize("bad", [b"\0", b"\x80", b"\xff", b"\xed\xa0\x80", b"\xc3", b"\xf4\x90\x80\x80"])
@pytest.mark.parametrize("good", [b"\x7f", b"\x01", "é".encode(), "€".encode(), "😀".encode()])
def test_utf8_fault_at_every_place_of_a_word(bad: bytes, good: bytes) -> None:
    """[MQTT-1.5.4-2]: eight bytes at a time must not hide one of them."""
    for before, after in itertools.product(range(18), range(10)):
        assert is_valid_string(b"a" * before + good + b"b" * after)
        assert not is_valid_string(b"a" * before + bad + b"b" * after)


@settings(max_examples=300)
@given(data=st.text(max_size=40).map(lambda s: s.encode("utf-8", "surrogatepass")) | st.binary(max_size=40))
def test_utf8_any_bytes(data: bytes) -> None:
    assert is_valid_string(data) == python_accepts(data)


def test_reason_codes_are_those_of_python() -> None:
    assert scan_publish_properties(b"\x7f")[0] == ReasonCode.MALFORMED_PACKET
    assert scan_publish_properties(b"\x01\x02")[0] == ReasonCode.PROTOCOL_ERROR
    assert scan_publish_properties(b"\x23\0\0")[0] == ReasonCode.TOPIC_ALIAS_INVALID
