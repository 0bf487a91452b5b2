"""Every row of the packet table, in both directions, cut short and grown."""

import pytest

from braidmq.errors import ProtocolError
from braidmq.wire import V5, V31, FrameReader, PacketType, decode, encode
from tests.support.rows import check_rows
from tests.wire.cases.building import kind_of
from tests.wire.packets import BAD, GOOD, BadPacket, GoodPacket, row_id, split

# Packets that a shorter body can also make: payloads, lists and the short forms of MQTT 5.
MAY_END_EARLY = {
    PacketType.PUBLISH, PacketType.PUBACK, PacketType.PUBREC, PacketType.PUBREL, PacketType.PUBCOMP,
    PacketType.SUBSCRIBE, PacketType.SUBACK, PacketType.UNSUBSCRIBE, PacketType.UNSUBACK,
    PacketType.DISCONNECT, PacketType.AUTH,
}  # fmt: skip

REQUESTS = (PacketType.PUBREL, PacketType.SUBSCRIBE, PacketType.UNSUBSCRIBE)


def may_end_early(row: GoodPacket) -> bool:
    """MQTT 3.1 adds the CONNECT whose credentials are announced and left out."""
    kind = kind_of(row.data)
    return kind in MAY_END_EARLY or (kind is PacketType.CONNECT and row.version == V31)


STRICT = [row for row in GOOD if kind_of(row.data) is not PacketType.PUBLISH]  # no payload, fixed flags


def test_table_covers_every_packet_type_in_every_version() -> None:
    covered = {(kind_of(row.data), row.version) for row in GOOD}
    expected = {(kind, version) for kind in PacketType for version in (3, 4, 5)}
    assert covered == expected - {(PacketType.AUTH, 3), (PacketType.AUTH, 4)}


def test_table_names_each_row_once() -> None:
    ids = [row_id(row) for row in GOOD] + [row_id(row) for row in BAD]
    assert len(set(ids)) == len(ids)


def test_good_bytes_decode_to_the_packet() -> None:
    def check(row: GoodPacket) -> None:
        assert decode(*split(row.data), row.version) == row.packet

    check_rows(GOOD, check, row_id)


def test_packet_encodes_to_the_bytes() -> None:
    def check(row: GoodPacket) -> None:
        encoded = encode(row.packet, row.version)
        assert (encoded == row.data) == row.canonical
        assert decode(*split(encoded), row.version) == row.packet

    check_rows(GOOD, check, row_id)


def test_reader_gives_the_frame() -> None:
    def check(row: GoodPacket) -> None:
        reader = FrameReader(len(row.data))
        reader.feed(row.data)
        assert list(reader) == [split(row.data)]

    check_rows(GOOD, check, row_id)


def test_bad_bytes_are_refused_with_the_reason() -> None:
    def check(row: BadPacket) -> None:
        with pytest.raises(ProtocolError) as refused:
            decode(*split(row.data), row.version)
        assert refused.value.reason == row.reason, refused.value.detail

    check_rows(BAD, check, row_id)


def test_body_cut_anywhere_is_refused_or_another_packet() -> None:
    def check(row: GoodPacket) -> None:
        first_byte, body = split(row.data)
        for end in range(len(body)):
            try:
                packet = decode(first_byte, body[:end], row.version)
            except ProtocolError:
                continue
            assert may_end_early(row)
            assert packet != row.packet or not row.canonical
            assert decode(*split(encode(packet, row.version)), row.version) == packet

    check_rows(GOOD, check, row_id)


def test_byte_too_many_is_refused() -> None:
    def check(row: GoodPacket) -> None:
        first_byte, body = split(row.data)
        with pytest.raises(ProtocolError):
            decode(first_byte, body + b"\xff", row.version)

    check_rows(STRICT, check, row_id)


def test_any_reserved_flag_is_refused() -> None:
    def check(row: GoodPacket) -> None:
        first_byte, body = split(row.data)
        accepted = [flags for flags in range(16) if decodes(first_byte & 0xF0 | flags, body, row.version)]
        usual = 2 if kind_of(row.data) in REQUESTS else 0
        assert accepted == [usual] + [usual | 8] * (row.version == V31 and usual == 2)

    check_rows(STRICT, check, row_id)


def decodes(first_byte: int, body: bytes, version: int) -> bool:
    try:
        decode(first_byte, body, version)
    except ProtocolError:
        return False
    return True


def test_long_forms_are_the_only_rows_that_encode_otherwise() -> None:
    assert {row.version for row in GOOD if not row.canonical} == {V31, V5}
