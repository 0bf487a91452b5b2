"""Commits: whatever the moment of a crash, a batch is in the tables once or, uncommitted, not at all."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable

from braidmq.spark.pipeline.commits import MANIFESTS_KEPT, CommitLog
from braidmq.spark.pipeline.delta import delta_schema
from braidmq.spark.pipeline.home import Home, exclusive, open_home
from braidmq.spark.pipeline.places import Place, open_place
from braidmq.spark.pipeline.recovery import recover
from braidmq.spark.pipeline.sorting import Sorter
from braidmq.spark.pipeline.writing import TableWriter, Target, TaskReport
from tests.spark.pipeline.samples import EVERYTHING, make_config, make_messages, telemetry

SCHEMA = pa.schema([("at", pa.timestamp("us", tz="UTC")), ("n", pa.int64())])
HOUR_US = 3_600_000_000
TARGETS = {"one": Target(SCHEMA, "at"), "two": Target(SCHEMA, None)}


class CrashError(Exception):
    """The process died here."""


@pytest.fixture
def root(tmp_path: Path) -> Place:
    return open_place(str(tmp_path)).make()


def open_log(root: Place, *, delta: bool = False) -> CommitLog:
    tables = {name: root.at(name) for name in TARGETS}
    internal = root.at("_pipeline")
    return CommitLog(
        "test", internal.at("commits"), internal.at("staging"), tables, {"one": SCHEMA} if delta else None
    )


def stage(log: CommitLog, numbers: list[int], times_us: list[int] | None = None) -> TaskReport:
    rows = pa.table(
        [pa.array(times_us or [0] * len(numbers), SCHEMA.field("at").type), numbers], schema=SCHEMA
    )
    writer = TableWriter(log.staging(), TARGETS, file_rows_max=1_000)
    writer.write("one", rows)
    writer.write("two", rows)
    return TaskReport(writer.close(), {"bad": 1}, {"s": max(numbers)})


def parquet_files(root: Place, table: str) -> list[str]:
    found = [Path(info.path) for info in root.at(table).list(recursive=True)]
    return [str(path.relative_to(root.at(table).path)) for path in found if path.suffix == ".parquet"]


def numbers(root: Place, table: str) -> list[int]:
    files = [root.at(table, path).path for path in parquet_files(root, table)]
    if not files:
        return []
    return sorted(ds.dataset(files, filesystem=root.files).to_table(columns=["n"])["n"].to_pylist())


def test_rows_go_to_the_partition_of_their_hour(root: Place) -> None:
    log = open_log(root)
    log.commit("q", 0, [stage(log, [1, 2, 3], [0, HOUR_US, 25 * HOUR_US])])
    partitions = {
        str(Path(info.path).parent.relative_to(root.path)) for info in root.at("one").list(recursive=True)
    }
    assert partitions == {
        "one/day=1970-01-01/hour=00", "one/day=1970-01-01/hour=01", "one/day=1970-01-02/hour=01",
    }  # fmt: skip
    assert numbers(root, "one") == numbers(root, "two") == [1, 2, 3]


def test_a_batch_that_runs_again_is_known(root: Place) -> None:
    log = open_log(root)
    log.commit("q", 4, [stage(log, [1])])
    again = open_log(root)
    again.recover()
    assert again.has("q", 4)
    assert again.has("q", 3)
    assert not again.has("q", 5)
    assert not again.has("another", 0)


def crash_after(calls: int, method: Callable[..., None]) -> Callable[..., None]:
    left = [calls]

    def wrapped(*args: object) -> None:
        if left[0] == 0:
            raise CrashError
        left[0] -= 1
        method(*args)

    return wrapped


@pytest.mark.parametrize("moves", range(5))
@pytest.mark.parametrize("delta", [False, True])
def test_a_crash_while_files_are_moved_is_made_good(
    root: Place, monkeypatch: pytest.MonkeyPatch, moves: int, delta: bool
) -> None:
    log = open_log(root, delta=delta)
    log.commit("q", 0, [stage(log, [1, 2])])
    reports = [stage(log, [3], [0]), stage(log, [4], [HOUR_US])]
    with monkeypatch.context() as patched:
        patched.setattr(CommitLog, "_move", crash_after(moves, CommitLog._move))
        if moves == 4:  # all moved, and then it dies
            patched.setattr(CommitLog, "_forget_old", crash_after(0, CommitLog._forget_old))
        with pytest.raises(CrashError):
            log.commit("q", 1, reports)
    again = open_log(root, delta=delta)
    again.recover()
    again.recover()
    assert again.has("q", 1)
    assert numbers(root, "one") == numbers(root, "two") == [1, 2, 3, 4]
    if delta:
        assert sorted(DeltaTable(root.at("one").path).to_pyarrow_table()["n"].to_pylist()) == [1, 2, 3, 4]


@pytest.mark.parametrize("delta", [False, True])
def test_tables_can_be_in_an_object_store_with_their_commits_in_a_directory(
    tmp_path: Path, object_store: str, name: str, monkeypatch: pytest.MonkeyPatch, delta: bool
) -> None:
    far, work = open_place(f"{object_store}/{name}{delta}"), open_place(str(tmp_path))

    def open_far() -> CommitLog:
        tables = {"one": far.at("one"), "two": work.at("two")}
        delta_tables = {"one": SCHEMA} if delta else None
        return CommitLog("test", work.at("commits"), far.at("_staging"), tables, delta_tables)

    log = open_far()
    log.commit("q", 0, [stage(log, [1, 2])])
    with monkeypatch.context() as patched:
        patched.setattr(CommitLog, "_move", crash_after(1, CommitLog._move))
        with pytest.raises(CrashError):
            log.commit("q", 1, [stage(log, [3])])
    again = open_far()
    again.recover()
    assert again.has("q", 1)
    assert numbers(far, "one") == numbers(work, "two") == [1, 2, 3]
    if delta:
        assert sorted(DeltaTable(far.at("one").uri).to_pyarrow_table()["n"].to_pylist()) == [1, 2, 3]


def test_what_was_staged_and_never_committed_is_thrown_away(root: Place) -> None:
    log = open_log(root)
    stage(log, [1])
    again = open_log(root)
    again.recover()
    again.commit("q", 0, [stage(again, [2])])
    assert numbers(root, "one") == [2]
    assert root.at("_pipeline", "staging").list(recursive=True) == []


def test_a_commit_can_replace_files(root: Place) -> None:
    log = open_log(root, delta=True)
    log.commit("q", 0, [stage(log, [1])])
    log.commit("q", 1, [stage(log, [2])])
    old = [(table, path) for table in TARGETS for path in parquet_files(root, table)]
    log.commit("q", 2, [stage(log, [1, 2])], removed=old)
    assert numbers(root, "two") == [1, 2]
    table = DeltaTable(root.at("one").path)
    assert table.to_pyarrow_table()["n"].to_pylist() == [1, 2]
    assert table.schema().to_arrow() is not None
    assert [field.name for field in table.schema().fields] == delta_schema(SCHEMA).names


def test_every_command_finishes_what_a_dead_compact_has_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had moved its files in and not removed the old ones: rows were there twice."""
    home = open_home(make_config(tmp_path, EVERYTHING))
    ingest = home.commit_log("ingest")
    rows = Sorter(home.config).sort(make_messages([telemetry("d1"), telemetry("d2")]))["raw"]
    ingest.commit("q", 0, [stage_raw(home, ingest, rows)])
    old = [("raw", path) for path in parquet_files(home.root, "raw")]
    compact = home.commit_log("compact")
    report = stage_raw(home, compact, rows)
    with monkeypatch.context() as patched:
        patched.setattr(CommitLog, "_forget_old", crash_after(0, CommitLog._forget_old))
        patched.setattr(CommitLog, "_remove", crash_after(0, CommitLog._remove))
        with pytest.raises(CrashError):
            compact.commit("compact", 0, [report], old)
    assert len(parquet_files(home.root, "raw")) == 2
    with exclusive(home, "compact"):
        recover(home)  # somebody lives who does it himself
        assert len(parquet_files(home.root, "raw")) == 2
    recover(home)
    assert len(parquet_files(home.root, "raw")) == 1


def stage_raw(home: Home, log: CommitLog, rows: pa.Table) -> TaskReport:
    writer = TableWriter(log.staging(), home.targets(), 1_000)
    writer.write("raw", rows)
    return TaskReport(writer.close())


def test_counts_and_marks_add_up(root: Place) -> None:
    log = open_log(root)
    for batch in range(MANIFESTS_KEPT + 3):
        log.commit("q", batch, [stage(log, [batch, batch + 1])])
    last = open_log(root).last
    assert last is not None
    assert last.rows == {"one": 2 * (MANIFESTS_KEPT + 3), "two": 2 * (MANIFESTS_KEPT + 3)}
    assert last.reasons == {"bad": MANIFESTS_KEPT + 3}
    assert last.marks == {"s": MANIFESTS_KEPT + 3}
    assert len(root.at("_pipeline", "commits", "test").list()) == MANIFESTS_KEPT


def test_a_query_that_begins_anew_inherits_marks_until_it_has_passed_them(root: Place) -> None:
    log = open_log(root)
    log.commit("old", 7, [stage(log, [9])])
    first = log.commit("new", 0, [stage(log, [5])])
    assert first.inherited == {"s": 9}
    assert first.marks == {"s": 9}
    assert log.commit("new", 1, [stage(log, [9])]).inherited == {"s": 9}
    assert log.commit("new", 2, [stage(log, [10])]).inherited == {}
