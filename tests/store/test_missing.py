"""What is missing from a data directory is told in one line, and --salvage goes on with the rest."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from braidmq.errors import StoreError
from braidmq.store import records
from braidmq.store.log import numbers_in, path_of
from braidmq.store.manifest import NAME as MANIFEST
from braidmq.store.pages import path_of as page_path_of
from tests.store.keeper import Keeper, image
from tests.store.test_trouble import retain, retained


def started_often(directory: Path) -> list[int]:
    """Three logs with two turns each; where the last turn begins in each."""
    begins = []
    for number in (1, 2, 3):
        keeper = Keeper(directory)
        keeper.keep(retain(b"early%d" % number, b"x"))
        begins.append(path_of(directory, number).stat().st_size)
        keeper.keep(retain(b"late%d" % number, b"x"))
        keeper.close()
    return begins


def remove_newest(directory: Path, begins: list[int]) -> None:
    path_of(directory, 3).unlink()


def remove_all(directory: Path, begins: list[int]) -> None:
    for number in numbers_in(directory):
        path_of(directory, number).unlink()


def cut_finished(directory: Path, begins: list[int]) -> None:
    os.truncate(path_of(directory, 2), begins[1])


def cut_newest(directory: Path, begins: list[int]) -> None:
    os.truncate(path_of(directory, 3), begins[2])


def exchange(directory: Path, begins: list[int]) -> None:
    other = directory.with_name("other")
    started_often(other)
    shutil.copy(path_of(other, 2), path_of(directory, 2))


def remove_manifest(directory: Path, begins: list[int]) -> None:
    (directory / MANIFEST).unlink()


def spoil_manifest(directory: Path, begins: list[int]) -> None:
    (directory / MANIFEST).write_bytes(bytes(10_000))


def leave_only_pages(directory: Path, begins: list[int]) -> None:
    remove_all(directory, begins)
    remove_manifest(directory, begins)
    page_path_of(directory, 1).write_bytes(bytes(1000))


ALL = {f"{when}{number}".encode() for when in ("early", "late") for number in (1, 2, 3)}


@pytest.mark.parametrize(
    ("damage", "said", "lost"),
    [
        (remove_newest, "log-0000000003.braid: is missing", {b"early3", b"late3"}),
        (remove_all, "log-0000000003.braid: is missing", ALL),
        (cut_finished, r"log-0000000002.braid: was cut: \d+ of its \d+ bytes", {b"late2"}),
        (cut_newest, r"log-0000000003.braid: was cut: \d+ of its \d+ bytes", {b"late3"}),
        (exchange, "log-0000000002.braid: doesn't follow log-0000000001.braid", set()),
        (leave_only_pages, "manifest.braid: is missing, and so are all logs", ALL),
        (remove_manifest, "manifest.braid: is missing or damaged", set()),
        (spoil_manifest, "manifest.braid: is missing or damaged", set()),
    ],
)
def test_it_is_noticed_at_the_start(
    tmp_path: Path, damage: Callable[[Path, list[int]], None], said: str, lost: set[bytes]
) -> None:
    directory = tmp_path / "data"
    damage(directory, started_often(directory))
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    with pytest.raises(StoreError, match=rf"{said}.*--salvage") as refusal:
        Keeper(directory)
    assert "\n" not in str(refusal.value)
    after = {path.name: path.read_bytes() for path in directory.iterdir()}
    assert {**after, "lock": b""} == {**before, "lock": b""}
    keeper = Keeper(directory, salvage=True)
    assert keeper.state.retained.keys() == ALL - lost
    assert any("manifest" in told or "log-" in told for told in keeper.told)
    living = [retain(topic, payload) for topic, payload in retained(keeper).items()]
    keeper.store.checkpoint_from(lambda: iter(living))
    keeper.close()
    keeper = Keeper(directory)  # sound again
    assert keeper.state.retained.keys() == ALL - lost
    keeper.close()


def to_a_directory(path: Path) -> None:
    path.mkdir()
    (path / "something").touch()


@pytest.mark.parametrize("put", [to_a_directory, lambda path: path.symlink_to(path.parent / "nowhere")])
def test_what_is_no_file_is_set_aside_by_salvage(tmp_path: Path, put: Callable[[Path], None]) -> None:
    started_often(tmp_path)
    for number in (2, 3):
        path_of(tmp_path, number).unlink()
        put(path_of(tmp_path, number))
    with pytest.raises(StoreError, match=r"braid: can't be read"):
        Keeper(tmp_path)
    keeper = Keeper(tmp_path, salvage=True)
    assert keeper.state.retained.keys() == {b"early1", b"late1"}
    assert any("log-0000000002.braid: is no file; it is now" in told for told in keeper.told)
    assert os.path.lexists(tmp_path / "log-0000000002.damaged")
    living = [retain(topic, payload) for topic, payload in retained(keeper).items()]
    keeper.store.checkpoint_from(lambda: iter(living))
    keeper.close()
    found = Keeper(tmp_path)  # sound again
    assert found.state.retained.keys() == {b"early1", b"late1"}
    found.close()


def test_a_salvage_that_crashes_before_all_is_written_anew_may_be_repeated(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    started_often(directory)
    path_of(directory, 3).unlink()
    keeper = Keeper(directory, salvage=True)
    keeper.store.flush()
    crashed = image(directory, tmp_path / "crashed")
    keeper.close()
    with pytest.raises(StoreError, match=r"log-0000000003.braid: is missing"):
        Keeper(crashed)
    keeper = Keeper(crashed, salvage=True)
    assert keeper.state.retained.keys() == {b"early1", b"late1", b"early2", b"late2"}
    keeper.close()


def test_a_newest_log_that_was_being_made_is_no_damage(tmp_path: Path) -> None:
    started_often(tmp_path)
    path_of(tmp_path, 4).write_bytes(path_of(tmp_path, 3).read_bytes()[:20])
    keeper = Keeper(tmp_path)
    assert keeper.state.retained.keys() == ALL
    keeper.close()


def test_salt_of_a_damaged_header_is_known_from_its_neighbours(tmp_path: Path) -> None:
    started_often(tmp_path)
    for number in (1, 3):
        with path_of(tmp_path, number).open("r+b") as file:
            file.seek(20)
            file.write(b"\xff" * 30)
    with pytest.raises(StoreError, match="damaged at byte 0"):
        Keeper(tmp_path)
    keeper = Keeper(tmp_path, salvage=True)
    assert keeper.state.retained.keys() == ALL
    keeper.close()


def test_missing_pages_are_named_with_whom_they_wait_for(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path)
    keeper.keep([
        (records.SESSION, "s", None, 60.0),
        (records.PAGED, "s", 1, 3, 700, 1, 0, 100, 3),
    ])
    keeper.close()
    with pytest.raises(StoreError, match=r"page-0000000001.braid: 3 messages that wait for s are missing"):
        Keeper(tmp_path)
    keeper = Keeper(tmp_path, salvage=True)
    assert (keeper.state.sessions["s"].pages, "3 messages" in keeper.told[-1]) == ([], True)
    keeper.close()


def test_a_missing_file_of_many_pages_is_told_once_with_all_that_was_in_it(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path)
    for client_id in ("a", "b", "c"):
        keeper.keep([(records.SESSION, client_id, None, 60.0)])
        keeper.keep([(records.PAGED, client_id, at, at, 700, 1, 100 * at, 100, 10) for at in range(1, 5)])
    keeper.close()
    said = "page-0000000001.braid: 120 messages that wait for a and 2 others are"
    with pytest.raises(StoreError, match=f"{said} missing"):
        Keeper(tmp_path)
    keeper = Keeper(tmp_path, salvage=True)
    assert [told for told in keeper.told if "page-" in told] == [f"{tmp_path}/{said} lost"]
    keeper.close()
