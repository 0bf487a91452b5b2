"""What can go wrong with a disk: each is named with its file, and nothing kept is given up for it."""

import errno
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from braidmq.errors import StoreError
from braidmq.messages.message import Message
from braidmq.store import records
from braidmq.store.log import numbers_in, path_of
from braidmq.store.manifest import Manifest, Newest
from braidmq.store.records import Record
from tests.store.keeper import Keeper


def retain(topic: bytes, payload: bytes) -> list[Record]:
    return [(records.RETAINED, topic, Message(topic, payload, 1, True))]


def retained(keeper: Keeper) -> dict[bytes, bytes]:
    return {topic: message.payload for topic, message in keeper.state.retained.items()}


def test_a_directory_in_use_is_refused_with_its_user(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path)
    with pytest.raises(StoreError, match=rf"{tmp_path}/lock: another broker \(process {os.getpid()}\)"):
        Keeper(tmp_path)
    (tmp_path / "lock").unlink()
    with pytest.raises(StoreError, match="another broker"):  # the directory is locked, whatever is in it
        Keeper(tmp_path)
    keeper.close()
    Keeper(tmp_path).close()


def test_a_directory_that_can_not_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=f"{tmp_path}/file/data: can't be made: Not a directory"):
        Keeper(tmp_path / "file" / "data")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_can_not_be_written_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StoreError, match=f"{tmp_path}/lock: can't be written"):
        Keeper(tmp_path)


def written(directory: Path, *payloads: bytes) -> list[int]:
    """A store with one retained message a turn; where each turn ends in the first file."""
    keeper = Keeper(directory)
    ends = []
    for number, payload in enumerate(payloads):
        keeper.keep(retain(b"t%d" % number, payload))
        ends.append(path_of(directory, 1).stat().st_size)
    keeper.close()
    return ends


def spoil(path: Path, offset: int) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)
        file.seek(offset)
        file.write(bytes([byte[0] ^ 0xFF]))


def test_damage_is_refused_until_it_may_be_salvaged(tmp_path: Path) -> None:
    ends = written(tmp_path, b"one", b"two", b"three")
    spoil(path_of(tmp_path, 1), ends[1] - 1)
    with pytest.raises(StoreError, match=rf"log-0000000001.braid: damaged at byte {ends[0]}\..*--salvage"):
        Keeper(tmp_path)
    keeper = Keeper(tmp_path, salvage=True)
    assert retained(keeper) == {b"t0": b"one", b"t2": b"three"}
    assert any("damaged at byte" in told for told in keeper.told)
    living = [retain(topic, message.payload) for topic, message in keeper.state.retained.items()]
    keeper.store.checkpoint_from(lambda: iter(living))
    keeper.close()
    assert [path.name for path in tmp_path.glob("*.damaged")] == ["log-0000000001.damaged"]
    keeper = Keeper(tmp_path)  # the damaged file is no longer needed
    assert retained(keeper) == {b"t0": b"one", b"t2": b"three"}
    keeper.close()


def test_damage_in_a_file_that_was_finished_is_never_taken_for_a_torn_write(tmp_path: Path) -> None:
    ends = written(tmp_path, b"one", b"two")
    Keeper(tmp_path).close()
    assert numbers_in(tmp_path) == [1, 2, 3][: len(numbers_in(tmp_path))]
    os.truncate(path_of(tmp_path, 1), ends[1] - 1)
    with pytest.raises(StoreError, match=f"damaged at byte {ends[0]}"):
        Keeper(tmp_path)


@pytest.mark.parametrize(
    ("offset", "said"), [(0, "isn't a log of BraidMQ"), (8, "has format"), (12, "damaged")]
)
def test_a_strange_header_is_refused(tmp_path: Path, offset: int, said: str) -> None:
    written(tmp_path, b"one")
    spoil(path_of(tmp_path, 1), offset)
    with pytest.raises(StoreError, match=f"log-0000000001.braid: {said}"):
        Keeper(tmp_path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    for payload in (b"one", b"two", b"three"):
        keeper = Keeper(tmp_path)
        keeper.keep(retain(b"t", payload))
        keeper.close()
    shutil.copytree(tmp_path, tmp_path / "copy")
    path_of(tmp_path, 2).unlink()
    with pytest.raises(StoreError, match=r"log-0000000002.braid: is missing"):
        Keeper(tmp_path)
    path_of(tmp_path / "copy", 1).unlink()
    with pytest.raises(StoreError, match=r"log-0000000001.braid: is missing"):
        Keeper(tmp_path / "copy")


class FullDisk:
    """Stands in for os.pwrite: takes some bytes, then none, until there is room again."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.room_bytes: float = float("inf")
        self.refused = threading.Event()
        self._write = os.pwrite
        monkeypatch.setattr("braidmq.store.writer.os.pwrite", self)
        monkeypatch.setattr("braidmq.store.writer.RETRY_S", 0.001)

    def __call__(self, descriptor: int, data: memoryview, offset: int) -> int:
        if not self.room_bytes:
            self.refused.set()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken = data[: int(min(self.room_bytes, len(data)))]
        self.room_bytes -= len(taken)
        return self._write(descriptor, taken, offset)


@pytest.mark.parametrize("room_bytes", [0, 1, 30, 70])
def test_a_full_disk_delays_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room_bytes: int
) -> None:
    disk = FullDisk(monkeypatch)
    keeper = Keeper(tmp_path)
    keeper.keep(retain(b"before", b"1"))
    disk.room_bytes = room_bytes
    keeper.commit(retain(b"during", b"2" * 100))
    assert disk.refused.wait(20)
    assert keeper.kept == 1
    wait_for(lambda: keeper.store.is_failing)
    keeper.commit(retain(b"later", b"3"))
    disk.room_bytes = float("inf")
    keeper.run_reports(lambda: keeper.kept == 3)
    assert not keeper.store.is_failing
    keeper.close()
    assert ["can't be written: No space left on device" in keeper.told[0], len(keeper.told)] == [True, 2]
    keeper = Keeper(tmp_path)
    assert retained(keeper) == {b"before": b"1", b"during": b"2" * 100, b"later": b"3"}
    keeper.close()


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_directory_that_is_moved_away_is_noticed(tmp_path: Path, is_replaced: bool) -> None:
    directory, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    keeper = Keeper(directory)
    keeper.keep(retain(b"before", b"1"))
    directory.rename(elsewhere)
    if is_replaced:
        directory.mkdir()
    keeper.commit(retain(b"during", b"2"))
    wait_for(lambda: keeper.store.is_failing)
    assert keeper.kept == 1
    assert str(directory) in keeper.told[0]
    assert ("was moved away" if is_replaced else "No such file or directory") in keeper.told[0]
    if is_replaced:
        directory.rmdir()
    elsewhere.rename(directory)
    keeper.run_reports(lambda: keeper.kept == 2)
    keeper.close()
    keeper = Keeper(directory)
    assert retained(keeper) == {b"before": b"1", b"during": b"2"}
    keeper.close()


def test_closing_with_a_full_disk_ends_and_keeps_what_was_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FullDisk(monkeypatch)
    keeper = Keeper(tmp_path)
    keeper.keep(retain(b"before", b"1"))
    disk.room_bytes = 20
    keeper.commit(retain(b"during", b"2"))
    wait_for(lambda: keeper.store.is_failing)
    keeper.close()
    assert "could not be written" in keeper.told[-1]
    monkeypatch.undo()
    keeper = Keeper(tmp_path)
    assert retained(keeper) == {b"before": b"1"}
    keeper.close()


@pytest.mark.timeout(20)
@pytest.mark.parametrize("waits", [True, False])
def test_a_disk_that_is_full_only_when_the_store_is_closed_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waits: bool
) -> None:
    disk = FullDisk(monkeypatch)
    keeper = Keeper(tmp_path)
    keeper.keep(retain(b"before", b"1"))
    disk.room_bytes = 0
    if waits:
        keeper.commit(retain(b"during", b"2"))
    keeper.close()
    monkeypatch.undo()
    keeper = Keeper(tmp_path)
    assert retained(keeper) == {b"before": b"1"}
    keeper.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_mistake_on_the_stores_thread_is_told_and_nobody_waits_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = Keeper(tmp_path)
    keeper.keep(retain(b"before", b"1"))
    monkeypatch.setattr(keeper.store, "_post", "not callable")
    keeper.commit(retain(b"during", b"2"))
    wait_for(lambda: keeper.store.is_failing)
    keeper.close()
    assert "isn't written any more, because of TypeError" in keeper.told[0]


@pytest.mark.parametrize(("durability", "syncs"), [("process", 0), ("fsync", 1)])
def test_a_turn_is_reported_after_its_bytes_are_where_they_are_promised_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durability: str, syncs: int
) -> None:
    order: list[str] = []
    keeper = Keeper(tmp_path, durability=durability)
    keeper.keep(retain(b"t", b"0"))
    write, sync, report = os.pwrite, os.fdatasync, keeper.reports.put
    monkeypatch.setattr("braidmq.store.writer.os.pwrite", lambda *a: (write(*a), order.append("written"))[0])
    monkeypatch.setattr("braidmq.store.writer.os.fdatasync", lambda fd: (sync(fd), order.append("synced"))[0])
    monkeypatch.setattr(keeper.store, "_post", lambda action: (order.append("reported"), report(action)))
    keeper.keep(retain(b"t", b"1"))
    assert order == ["written", *["synced"] * syncs, "reported"]
    keeper.close()


def test_a_new_log_has_its_name_on_the_disk_before_the_manifest_speaks_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    write = Manifest.write

    def write_manifest(manifest: Manifest, newest: Newest, *, syncs: bool) -> None:
        order.append("manifest")
        write(manifest, newest, syncs=syncs)

    monkeypatch.setattr(Manifest, "write", write_manifest)
    monkeypatch.setattr("braidmq.store.writer.sync_directory", lambda directory: order.append("directory"))
    keeper = Keeper(tmp_path, durability="fsync")
    keeper.keep(retain(b"t", b"0"))
    assert order == ["directory", "manifest", "directory"]
    keeper.close()


def wait_for(condition: Callable[[], bool]) -> None:
    waiting = threading.Event()
    for _ in range(20_000):
        if condition():
            return
        waiting.wait(0.001)
    pytest.fail("it never came to that")
