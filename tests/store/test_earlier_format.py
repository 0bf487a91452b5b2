"""A data directory of an earlier version is read, and goes on in the present format."""

import os
import struct
import zlib
from pathlib import Path

import pytest

from braidmq.errors import StoreError
from braidmq.messages.message import Message
from braidmq.store import records
from braidmq.store.encoding import Encoder
from braidmq.store.log import BEGINNING, HEADER, MAGIC, VERSION, path_of, sealed
from braidmq.store.records import Record
from tests.store.keeper import Keeper
from tests.store.test_trouble import retain, retained


def write_format_2(directory: Path, number: int, turns: list[list[Record]]) -> None:
    """A log as BraidMQ wrote it before files had salts."""
    plain = struct.pack("<8sIQQ", b"BRAIDLOG", 2, number, 1)
    data = plain + struct.pack("<I", zlib.crc32(plain))
    encoder = Encoder(0.0)
    for turn in turns:
        payload = encoder.encode(turn)
        length = struct.pack("<I", len(payload))
        data += b"TURN" + length + struct.pack("<I", zlib.crc32(length + payload)) + payload
    path_of(directory, number).write_bytes(data)


def session_turn() -> list[Record]:
    message = Message(b"t", b"waiting", 1, publisher="p")
    return [
        (records.SESSION, "s", "owner", 60.0),
        (records.SUBSCRIBED, "s", "t", 1, 0),
        (records.QUEUED, "s", 7, message, 1, False, b"", None),
        (records.SENT, "s", 7, 9),
    ]


def test_it_is_read_and_goes_on_in_the_present_format(tmp_path: Path) -> None:
    write_format_2(tmp_path, 1, [retain(b"a", b"1"), session_turn()])
    write_format_2(tmp_path, 2, [retain(b"b", b"2")])
    for topics in ({b"a", b"b"}, {b"a", b"b", b"new"}):
        keeper = Keeper(tmp_path)
        assert set(retained(keeper)) == topics
        saved = keeper.state.sessions["s"]
        assert (saved.sent, saved.last_sequence, saved.last_packet_id) == ({7: 9}, 7, 9)
        keeper.keep(retain(b"new", b"3"))
        keeper.close()
    assert [path_of(tmp_path, number).read_bytes()[8] for number in (1, 2, 3)] == [2, 2, VERSION]


def test_format_3_which_knew_no_peers_is_read(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path)
    keeper.keep(retain(b"a", b"1"))
    keeper.keep(session_turn())
    keeper.close()
    newest = max(tmp_path.glob("log-*.braid"))
    data = newest.read_bytes()
    assert data[8] == VERSION
    header = BEGINNING.pack(MAGIC, 3) + data[BEGINNING.size : HEADER.size]
    newest.write_bytes(sealed(header) + data[HEADER.size :])
    keeper = Keeper(tmp_path)
    assert retained(keeper) == {b"a": b"1"}
    assert keeper.state.sessions["s"].sent == {7: 9}
    keeper.close()


def test_one_that_was_cut_after_the_change_is_noticed(tmp_path: Path) -> None:
    write_format_2(tmp_path, 1, [retain(b"a", b"1")])
    size = path_of(tmp_path, 1).stat().st_size
    write_format_2(tmp_path, 1, [retain(b"a", b"1"), retain(b"b", b"2")])
    Keeper(tmp_path).close()
    os.truncate(path_of(tmp_path, 1), size)
    with pytest.raises(StoreError, match=r"log-0000000001.braid: was cut"):
        Keeper(tmp_path)


def test_a_torn_end_of_the_newest_is_cut_off(tmp_path: Path) -> None:
    write_format_2(tmp_path, 1, [retain(b"a", b"1"), retain(b"b", b"2")])
    path = path_of(tmp_path, 1)
    os.truncate(path, path.stat().st_size - 1)
    keeper = Keeper(tmp_path)
    assert retained(keeper) == {b"a": b"1"}
    keeper.close()
