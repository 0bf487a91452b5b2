"""The log on a local disk and through pyarrow: whole files or none, one writer, rising numbers."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import fs

from braidmq.spark.files import ClaimError, Files, LocalFiles, RemoteFiles, open_files
from braidmq.spark.offsets import Segment, new_log_number
from braidmq.spark.options import BrokerAddress
from braidmq.spark.plan import Keep, Slice
from braidmq.spark.reading import LogNotSharedError, read_slices
from braidmq.spark.wal import Member, SegmentWriter, SourceState, Wal

Opener = Callable[[Path], Files]
KINDS: list[Opener] = [LocalFiles, lambda path: RemoteFiles(fs.LocalFileSystem(), str(path))]


@pytest.fixture(params=KINDS, ids=["local", "remote"])
def wal(request: pytest.FixtureRequest, tmp_path: Path) -> Wal:
    return Wal("test", request.param(tmp_path))


def rows(*payloads: bytes) -> pa.RecordBatch:
    return pa.record_batch({"payload": list(payloads)})


def test_numbers_go_on_after_a_restart_and_after_trimming(wal: Wal) -> None:
    writer = SegmentWriter(wal, "s", first=100)
    assert writer.write(rows(b"a", b"b"), 10) == Segment(100, 2, 10)
    assert writer.write(rows(b"c"), 5) == Segment(102, 1, 5)
    writer.close()
    wal.trim("s", wal.log("s"), committed=103, keep=Keep(0, 0, 0))
    assert wal.log("s") == (Segment(102, 1, 5),)
    again = SegmentWriter(wal, "s", first=7)
    assert again.next == 103
    assert again.size_bytes == 5
    assert wal.read("s", Segment(102, 1, 5)).column("payload").to_pylist() == [b"c"]
    again.close()


def test_an_unfinished_segment_is_not_there_and_is_cleared_away(wal: Wal, tmp_path: Path) -> None:
    SegmentWriter(wal, "s", first=0).close()
    left = tmp_path / "s" / (Segment(0, 5, 5).name + ".unfinished")
    left.write_bytes(b"half")
    assert wal.log("s") == ()
    SegmentWriter(wal, "s", first=0).close()
    assert not left.exists()


def test_a_failed_write_leaves_nothing_that_could_be_read(wal: Wal) -> None:
    wal.files.make_folder("s")

    def fail(file: object) -> None:
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        wal.files.write("s/" + Segment(0, 1, 1).name, fail)
    assert wal.log("s") == ()


def test_a_segment_that_is_gone_is_a_missing_file(wal: Wal) -> None:
    with pytest.raises(FileNotFoundError):
        wal.read("s", Segment(0, 1, 1))
    wal.files.delete("s/nothing")


def test_members_are_remembered(wal: Wal) -> None:
    assert wal.members() == ()
    wal.files.make_folder("")
    member = Member(name="m", broker=BrokerAddress("h", 1, False), subscriptions=("a/#",))
    wal.write_members([member])
    assert wal.members() == (member,)
    assert wal.subscribers() == []


def test_one_process_writes_on_a_local_disk(tmp_path: Path) -> None:
    wal = Wal(str(tmp_path))
    first = SegmentWriter(wal, "s", first=0)
    with pytest.raises(ClaimError, match="another process"):
        SegmentWriter(Wal(str(tmp_path)), "s", first=0, patience_s=0.0)
    first.close()
    SegmentWriter(Wal(str(tmp_path)), "s", first=0, patience_s=0.0).close()


def test_elsewhere_the_newest_writer_wins(tmp_path: Path) -> None:
    wal = Wal("test", RemoteFiles(fs.LocalFileSystem(), str(tmp_path)))
    old = SegmentWriter(wal, "s", first=0)
    new = SegmentWriter(wal, "s", first=0)
    with pytest.raises(ClaimError, match="taken over"):
        old.write(rows(b"late"), 1)
    assert new.write(rows(b"right"), 1).first == 0


def test_a_location_is_a_path_or_a_uri(tmp_path: Path) -> None:
    assert isinstance(open_files(str(tmp_path)), LocalFiles)
    spaced = open_files(f"file://{tmp_path}/with%20space")
    spaced.make_folder("s")
    assert (tmp_path / "with space" / "s").is_dir()
    assert isinstance(open_files("mock:///log"), RemoteFiles)


def test_a_new_log_numbers_above_any_log_before_it() -> None:
    assert new_log_number(1_000.9) == 1_000_000_000
    assert new_log_number(1_001.0) - new_log_number(1_000.0) == 1_000_000


def test_a_log_can_be_in_an_object_store(object_store: str, name: str) -> None:
    wal = Wal(f"{object_store}/{name}/wal")
    writer = SegmentWriter(wal, "s", first=100)
    for payload in (b"a", b"b"):
        writer.write(rows(payload), 10)
    assert wal.subscribers() == ["s"]
    stored = [wal.read("s", segment).column("payload").to_pylist() for segment in wal.log("s")]
    assert stored == [[b"a"], [b"b"]]
    wal.trim("s", wal.log("s"), committed=102, keep=Keep(0, 0, 0))
    assert wal.log("s") == (Segment(101, 1, 10),)
    wal.make_id()
    wal.write_state(SourceState(at=1.0))
    assert Wal(wal.location).id() == wal.id() is not None
    assert Wal(wal.location).state() == SourceState(at=1.0)
    newer = SegmentWriter(Wal(wal.location), "s", first=0)
    assert newer.next == 102
    with pytest.raises(ClaimError, match="another writer"):
        writer.write(rows(b"c"), 10)


def test_an_executor_that_sees_another_log_or_none_says_so_and_skips_nothing(tmp_path: Path) -> None:
    shared = Wal(str(tmp_path / "wal"))
    shared.files.make_folder("")
    shared.make_id()
    gone = Slice("s", Segment(0, 5, 5), 0, 5)
    assert list(read_slices(shared.location, [gone], skip_missing=True, log_id=shared.id())) == []
    with pytest.raises(LogNotSharedError, match=r"has no log on .*: it has to be a directory"):
        read_slices(str(tmp_path / "elsewhere"), [gone], skip_missing=True, log_id=shared.id())
    with pytest.raises(LogNotSharedError, match="has another log"):
        read_slices(shared.location, [gone], skip_missing=True, log_id="of another query")
