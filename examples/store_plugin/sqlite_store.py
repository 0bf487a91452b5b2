"""A store for BraidMQ in an SQLite database: one row a turn.

`pip install .` here, then in the broker's configuration:

    [store]
    engine = "sqlite"

A thread of its own writes all turns that wait in one transaction, so that the broker never waits for the
disk. When the turns have grown by as much as the living state takes, that is written anew in the same
transaction that deletes what came before it. Messages that wait for absent clients stay in memory (`pages` is
None).
"""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue
from typing import Final

from braidmq.errors import StoreError
from braidmq.store import Surroundings
from braidmq.store.decoding import Decoder
from braidmq.store.encoding import Encoder
from braidmq.store.records import Record
from braidmq.store.state import State

GROWTH_BYTES_MIN: Final = 16 * 1024 * 1024
RETRY_S: Final = 0.25

Kept = Callable[[], None]
Row = tuple[int, bytes]  # generation and turn
Task = tuple[list[Row], int, Kept]  # rows to add, the first generation that is still needed, whom to tell


class SqliteStore:
    pages = None

    def __init__(self, around: Surroundings) -> None:
        self.journal = Encoder(around.wall_offset_s)
        self._around = around
        self._path = around.directory / "turns.db"
        self._generation = 0  # numbers in the bytes hold within one
        self._grown_bytes = self._living_bytes = 0
        self._living: Callable[[], Iterator[list[Record]]] | None = None
        self._tasks: SimpleQueue[Task | None] = SimpleQueue()
        self._ends = threading.Event()
        try:
            around.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._db = self._open()
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"{self._path}: can't be opened: {error}") from error
        self._thread = threading.Thread(target=self._run, name="sqlite-store", daemon=True)

    def _open(self) -> sqlite3.Connection:
        db = sqlite3.connect(self._path, check_same_thread=False, isolation_level=None, timeout=0)
        db.execute("PRAGMA locking_mode=EXCLUSIVE")  # one broker at a time
        db.execute("PRAGMA journal_mode=WAL")
        db.execute(f"PRAGMA synchronous={'FULL' if self._around.durability == 'fsync' else 'NORMAL'}")
        db.execute(
            "CREATE TABLE IF NOT EXISTS turn(id INTEGER PRIMARY KEY, generation INT, payload BLOB)"
        )
        return db

    @property
    def is_failing(self) -> bool:
        return self.journal.is_failing

    def load(self) -> State:
        decoder = Decoder(self._around.wall_offset_s, self._around.salvage)
        state = State()
        for generation, payload in self._db.execute("SELECT generation, payload FROM turn ORDER BY id"):
            if generation != self._generation:
                decoder.begin_file()
                self._generation = generation
            try:
                state.apply(decoder.decode(payload))
            except ValueError as error:
                raise StoreError(f"{self._path}: holds what can't be read: {error}") from error
            self._grown_bytes += len(payload)
        self._generation += 1
        self._thread.start()
        return state

    def checkpoint_from(self, living: Callable[[], Iterator[list[Record]]]) -> None:
        self._living = living

    def commit(self, turn: bytes, kept: Kept) -> None:
        rows = [(self._generation, turn)] if turn else []
        self._grown_bytes += len(turn)
        needed_from = 0
        if self._living is not None and self._grown_bytes > max(GROWTH_BYTES_MIN, self._living_bytes):
            rows += self._written_anew(self._living())
            needed_from = self._generation
        self._tasks.put((rows, needed_from, kept))

    def _written_anew(self, living: Iterator[list[Record]]) -> list[Row]:
        self._generation += 1
        self.journal.begin_file()
        rows = [(self._generation, self.journal.encode(part)) for part in living]
        self._living_bytes = sum(len(payload) for _, payload in rows)
        self._grown_bytes = 0
        return rows

    def close(self) -> None:
        self._ends.set()
        self._tasks.put(None)
        if self._thread.ident is not None:
            self._thread.join()
        self._db.close()

    # ---- on the store's thread -----------------------------------------------------------------------

    def _run(self) -> None:
        tasks: list[Task | None] = []
        while None not in tasks:
            tasks = [self._tasks.get()]
            try:
                while True:
                    tasks.append(self._tasks.get_nowait())
            except Empty:
                self._insist([task for task in tasks if task is not None])

    def _insist(self, tasks: list[Task]) -> None:
        while tasks:
            try:
                self._write(tasks)
            except sqlite3.Error as error:
                if not self.is_failing:
                    self._around.tell(f"{self._path}: can't be written: {error}; make room on the disk")
                self.journal.is_failing = True
                if self._ends.wait(RETRY_S):
                    return
            else:
                self.journal.is_failing = False
                self._around.post(lambda: [kept() for _, _, kept in tasks] and None)
                return

    def _write(self, tasks: list[Task]) -> None:
        with self._db:
            self._db.execute("BEGIN")
            for rows, needed_from, _ in tasks:
                self._db.executemany("INSERT INTO turn(generation, payload) VALUES(?, ?)", rows)
                if needed_from:
                    self._db.execute("DELETE FROM turn WHERE generation < ?", (needed_from,))
