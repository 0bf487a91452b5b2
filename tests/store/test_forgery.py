"""What clients send never becomes state by itself, however it looks and wherever a write was torn."""

import os
from pathlib import Path

import pytest

from braidmq.messages.message import Message
from braidmq.store import records
from braidmq.store.encoding import Encoder
from braidmq.store.log import NO_SALT, Framing, path_of
from tests.store.keeper import Keeper, image
from tests.store.test_trouble import retain, retained, spoil


def forged() -> bytes:
    """Frames of every look but the right one: all is known to whoever made them, except the salt."""
    door = Message(b"admin/door", b"open", 1, True)
    turn = [(records.SESSION, "intruder", None, 1e9), (records.RETAINED, b"admin/door", door)]
    frames = []
    for salt in (NO_SALT, b"\x01" * 16, bytes(range(16))):
        payload = Encoder(0.0).encode(turn)
        frames.append(Framing(salt).head(payload) + payload)
    return b"".join(frames)


def crashed(tmp_path: Path, *, is_finished: bool) -> tuple[Path, list[int]]:
    """A directory as a crash left it, with forged frames in a payload; where each turn ends."""
    keeper = Keeper(tmp_path / "data")
    ends = []
    for payload in (b"sound", forged(), b"behind"):
        keeper.keep(retain(b"t/" + payload[:6], payload))
        ends.append(path_of(tmp_path / "data", 1).stat().st_size)
    directory = image(tmp_path / "data", tmp_path / "crashed")
    keeper.close()
    if is_finished:
        Keeper(directory).close()
    return directory, ends


@pytest.mark.parametrize("salvage", [False, True])
def test_a_torn_write_is_cut_off_whatever_clients_had_in_it(tmp_path: Path, salvage: bool) -> None:
    directory, ends = crashed(tmp_path, is_finished=False)
    os.truncate(path_of(directory, 1), ends[1] - 1)
    keeper = Keeper(directory, salvage=salvage)
    assert (retained(keeper), keeper.state.sessions) == ({b"t/sound": b"sound"}, {})
    assert "cut short by a crash" in keeper.told[0]
    keeper.close()


@pytest.mark.parametrize("is_finished", [False, True])
def test_behind_damage_only_our_own_frames_are_found(tmp_path: Path, is_finished: bool) -> None:
    directory, ends = crashed(tmp_path, is_finished=is_finished)
    spoil(path_of(directory, 1), ends[0] + 1)
    keeper = Keeper(directory, salvage=True)
    assert (retained(keeper), keeper.state.sessions) == ({b"t/sound": b"sound", b"t/behind": b"behind"}, {})
    keeper.close()


def test_every_file_has_another_salt(tmp_path: Path) -> None:
    for _ in range(3):
        Keeper(tmp_path).close()
    heads = {path_of(tmp_path, number).read_bytes()[28:44] for number in (1, 2, 3)}
    assert len(heads) == 3
