"""The extended PINGREQ on the wire."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braidmq.errors import ProtocolError
from braidmq.wire import FrameReader, ReasonCode
from braidmq.wire.pingreq import (
    BODY_BYTES_MAX,
    ExtendedPingreq,
    decode_pingreq_body,
    encode_pingreq,
)
from braidmq.wire.status import StatusReport, encode_status, parse_status

# {"msgsInQueue":3,"processingTimePerMsg":25.0} without properties
SMALLEST = bytes.fromhex(
    "C0 2E 00 7B22 6D736773496E5175657565 22 3A 33 2C 22"
    "70726F63657373696E6754696D655065724D7367 22 3A 32352E30 7D"
)


def test_the_smallest_example_is_48_bytes_both_ways() -> None:
    assert len(SMALLEST) == 48
    assert encode_pingreq(ExtendedPingreq(encode_status(StatusReport(3, 0.025)))) == SMALLEST
    assert parse_status(decode_pingreq_body(SMALLEST[2:]).payload) == StatusReport(3, 0.025)


def test_user_properties_keep_their_order_and_repetition() -> None:
    pairs = (("client", "client-1"), ("data", "json"), ("data", "json"))
    packet = encode_pingreq(ExtendedPingreq(b"{}", pairs))
    assert decode_pingreq_body(packet[2:]) == ExtendedPingreq(b"{}", pairs)


def test_figure_8_of_the_thesis() -> None:
    packet = encode_pingreq(ExtendedPingreq(b"", (("client", "client-1"), ("data", "json"))))
    assert packet[2] == 32
    assert packet[3:11] == b"\x26\x00\x06client"[:8]


@pytest.mark.parametrize(
    "body",
    [
        b"\x05{}",  # properties longer than the packet
        b"\x80\x00{}",  # a length in more bytes than it needs
        b"\xff\xff\xff\xff\x7f",  # a length without end
        b"\x03\x11\x00\x01",  # another property
        b"\x03\x26\x00\x05",  # a name that runs over the end of the properties
        b"\x07\x26\x00\x01a\x00\x05b12345",  # a value that runs over it into the payload
        b"\x08\x26\x00\x02\xc3\x28\x00\x01b",  # not UTF-8
    ],
)
def test_a_body_that_is_not_well_formed_is_malformed(body: bytes) -> None:
    with pytest.raises(ProtocolError) as refusal:
        decode_pingreq_body(body)
    assert refusal.value.reason == ReasonCode.MALFORMED_PACKET


def test_a_body_that_is_too_large_is_refused_both_ways() -> None:
    with pytest.raises(ProtocolError):
        decode_pingreq_body(b"\x00" + b" " * BODY_BYTES_MAX)
    with pytest.raises(ProtocolError):
        encode_pingreq(ExtendedPingreq(b" " * BODY_BYTES_MAX))


@given(st.binary(min_size=1, max_size=300))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    try:
        pingreq = decode_pingreq_body(body)
    except ProtocolError as error:
        refusal: ProtocolError | None = error
    else:
        refusal = None
        assert encode_pingreq(pingreq).endswith(body)
    assert refusal is None or refusal.reason == ReasonCode.MALFORMED_PACKET


TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)


@given(st.binary(max_size=200), st.lists(st.tuples(TEXT, TEXT), max_size=4))
def test_what_we_write_a_frame_reader_and_we_can_read(payload: bytes, pairs: list[tuple[str, str]]) -> None:
    pingreq = ExtendedPingreq(payload, tuple(pairs))
    reader = FrameReader(BODY_BYTES_MAX + 5)
    reader.feed(encode_pingreq(pingreq))
    [(first_byte, body)] = reader.frames()
    assert first_byte == 0xC0
    assert decode_pingreq_body(body) == pingreq
