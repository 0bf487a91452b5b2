"""Driver side of writing tables: a batch of staged files becomes visible exactly once.

The promise. A commit is one small file, its manifest, which names every file of the batch for all tables.
It appears by a rename: that instant is the commit. Only then are the files moved into the tables, and a
move that a crash left undone is done at the next start. So a file in a table is always committed; a batch
that Spark runs again is recognised by (query, batch) and skipped; and raw = clean + dead letters at every
commit. Who lists the directories while files are being moved may see a part of a batch for that moment, and
never a row twice.

Delta tables get the same files through a transaction of their log, one a table, which carries the number of
the commit and is skipped if it is there already.
"""

from collections.abc import Iterable
from typing import Final

import msgspec
import pyarrow as pa

from braidmq.spark.pipeline.delta import DeltaEntry, enter
from braidmq.spark.pipeline.places import Place
from braidmq.spark.pipeline.writing import StagedFile, TaskReport

MANIFESTS_KEPT: Final = 20


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """One commit, and what is true since then."""

    number: int
    query: str
    batch: int
    files: list[StagedFile] = []
    removed: list[tuple[str, str]] = []  # (table, path in its directory) of files that this commit replaces
    rebuilt: dict[str, bool] = {}  # tables that have other rows now; whether that is all of the table
    rows: dict[str, int] = {}  # of each table since the beginning
    reasons: dict[str, int] = {}  # of dead letters since the beginning
    marks: dict[str, int] = {}  # the highest offset of each subscriber
    # Marks of a query whose checkpoint is gone: what its successor reads up to them may be there already.
    inherited: dict[str, int] = {}


class CommitLog:
    """The commits of one writer. There must be one writer at a time."""

    def __init__(
        self,
        name: str,
        commits: Place,
        staging: Place,
        tables: dict[str, Place],
        delta: dict[str, pa.Schema] | None = None,
    ) -> None:
        self._name = name
        self._log = commits.at(name).make()
        self._staging = staging.at(name)
        self._tables = tables
        self._delta = delta or {}
        self.last = self._read_last()

    def recover(self) -> None:
        """Does what a crash left undone, and throws away what was never committed."""
        if self.last is not None:
            self._publish(self.last)
        self._staging.delete()

    def staging(self) -> Place:
        """A directory for the files of the next commit."""
        return self._staging.at(str(self._next_number())).make()

    def has(self, query: str, batch: int) -> bool:
        """Whether this batch is committed."""
        return self.last is not None and self.last.query == query and batch <= self.last.batch

    def commit(
        self, query: str, batch: int, reports: Iterable[TaskReport], removed: Iterable[tuple[str, str]] = ()
    ) -> Manifest:
        """Makes the files of these reports part of the tables."""
        manifest = _next_manifest(self.last, query, batch, list(reports))
        return self._write(msgspec.structs.replace(manifest, removed=list(removed)))

    def _write(self, manifest: Manifest) -> Manifest:
        self._log.at(f"{manifest.number:012d}.json").write_struct(manifest)
        self.last = manifest
        self._publish(manifest)
        self._forget_old(manifest.number)
        return manifest

    def replace(
        self,
        reports: Iterable[TaskReport],
        removed: Iterable[tuple[str, str]],
        rebuilt: dict[str, bool],
        rows: dict[str, int],
        reasons: dict[str, int] | None = None,
    ) -> Manifest:
        """Puts other files in the place of old ones; no batch is done by that. `rows` are the counts then."""
        before = self.last or Manifest(number=-1, query="", batch=-1)
        manifest = msgspec.structs.replace(
            before,
            number=before.number + 1,
            files=[file for report in reports for file in report.files],
            removed=list(removed),
            rebuilt=rebuilt,
            rows=before.rows | rows,
            reasons=before.reasons if reasons is None else reasons,
        )
        return self._write(manifest)

    def _publish(self, manifest: Manifest) -> None:
        """Moves the files of a manifest to their tables; what is done already is left."""
        staging = self._staging.at(str(manifest.number))
        finals: dict[str, list[tuple[StagedFile, str]]] = {}
        for index, file in enumerate(manifest.files):
            name = f"{file.partition}{self._name}-{manifest.number:012d}-{index:04d}.parquet"
            finals.setdefault(file.table, []).append((file, name))
            self._move(staging.at(file.name), self._tables[file.table], name, file.partition)
        touched = {*finals, *manifest.rebuilt, *(table for table, _ in manifest.removed)}
        for table in sorted(touched & set(self._delta)):
            gone = [path for owner, path in manifest.removed if owner == table]
            entry = DeltaEntry(
                finals.get(table, []),
                gone,
                data_change=table in manifest.rebuilt or not gone,
                replaces_all=manifest.rebuilt.get(table, False),
            )
            enter(self._tables[table], self._delta[table], entry, self._name, manifest.number)
        for table, path in manifest.removed:
            if table not in self._delta:
                self._remove(self._tables[table].at(path))
        if staging.exists():
            staging.files.delete_dir(staging.path)

    def _move(self, staged: Place, table: Place, name: str, partition: str) -> None:
        if staged.exists():
            table.at(partition.rstrip("/")).make()
            staged.move_to(table.at(name))

    def _remove(self, file: Place) -> None:
        if file.exists():
            file.files.delete_file(file.path)

    def _next_number(self) -> int:
        return 0 if self.last is None else self.last.number + 1

    def _read_last(self) -> Manifest | None:
        names = [info.base_name for info in self._log.list() if info.base_name.endswith(".json")]
        return self._log.at(names[-1]).read_struct(Manifest) if names else None

    def _forget_old(self, number: int) -> None:
        old = self._log.at(f"{number - MANIFESTS_KEPT:012d}.json")
        if number >= MANIFESTS_KEPT and old.exists():
            old.files.delete_file(old.path)


def _next_manifest(last: Manifest | None, query: str, batch: int, reports: list[TaskReport]) -> Manifest:
    """What is true after these reports; pure."""
    before = last or Manifest(number=-1, query=query, batch=-1)
    marks: dict[str, int] = {}
    for report in reports:
        for subscriber, offset in report.marks.items():
            marks[subscriber] = max(marks.get(subscriber, -1), offset)
    rows, reasons = dict(before.rows), dict(before.reasons)
    for report in reports:
        for file in report.files:
            rows[file.table] = rows.get(file.table, 0) + file.rows
        for reason, count in report.reasons.items():
            reasons[reason] = reasons.get(reason, 0) + count
    return Manifest(
        number=before.number + 1,
        query=query,
        batch=batch,
        files=[file for report in reports for file in report.files],
        rows=rows,
        reasons=reasons,
        marks=before.marks | {name: max(mark, before.marks.get(name, -1)) for name, mark in marks.items()},
        inherited=_inherited(before, query, marks),
    )


def _inherited(before: Manifest, query: str, marks: dict[str, int]) -> dict[str, int]:
    """Marks of an earlier query that the present one hasn't passed yet."""
    known = before.inherited if before.query == query else before.marks
    return {name: mark for name, mark in known.items() if marks.get(name, -1) <= mark}
