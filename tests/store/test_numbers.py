"""Delivery numbers that a client may know are never used again, whatever was lost of the records of them."""

from pathlib import Path

import pytest

from braidmq.store import records
from braidmq.store.durable import NUMBERS_OF_SECONDS
from braidmq.store.log import path_of
from braidmq.store.state import SavedSession
from tests.store.keeper import Keeper, image


def numbered(tmp_path: Path, durability: str, *, closes: bool) -> Path:
    """A directory with a session that has counted to ten."""
    keeper = Keeper(tmp_path / "data", durability=durability)
    keeper.keep([(records.SESSION, "s", None, 60.0), (records.NUMBERED, "s", 5, 10, 3)])
    keeper.keep([(records.SESSION, "silent", None, 60.0), (records.NUMBERED, "silent", 0, 10, 3)])
    crashed = image(tmp_path / "data", tmp_path / "crashed")
    keeper.close()
    return tmp_path / "data" if closes else crashed


def found(directory: Path, client_id: str = "s", **options: object) -> SavedSession:
    keeper = Keeper(directory, **options)
    keeper.close()
    return keeper.state.sessions[client_id]


@pytest.mark.parametrize(
    ("durability", "closes", "last"),
    [("process", True, 10), ("process", False, 10 + NUMBERS_OF_SECONDS), ("fsync", True, 10)],
)
def test_what_power_loss_may_have_taken_is_skipped(
    tmp_path: Path, durability: str, closes: bool, last: int
) -> None:
    directory = numbered(tmp_path, durability, closes=closes)
    saved = found(directory, durability=durability)
    assert (saved.identity, saved.last_sequence, saved.last_packet_id) == (5, last, 3)


def test_it_is_skipped_though_the_broker_is_stopped_in_order_afterwards(tmp_path: Path) -> None:
    directory = numbered(tmp_path, "process", closes=False)
    assert [found(directory).last_sequence for _ in range(3)] == [10 + NUMBERS_OF_SECONDS] * 3


def test_it_is_skipped_by_a_store_that_syncs_only_now(tmp_path: Path) -> None:
    directory = numbered(tmp_path, "process", closes=False)
    assert found(directory, durability="fsync").last_sequence == 10 + NUMBERS_OF_SECONDS


def test_who_has_never_asked_goes_on_counting(tmp_path: Path) -> None:
    assert found(numbered(tmp_path, "process", closes=False), "silent").last_sequence == 10


def test_after_a_loss_the_session_has_another_identity(tmp_path: Path) -> None:
    directory = numbered(tmp_path, "process", closes=True)
    Keeper(directory).close()
    path_of(directory, 2).unlink()
    assert found(directory, salvage=True).identity == 0
