"""The store on disk: a log of turns, kept short by writing the living state anew.

Every turn of the broker becomes one frame of a log (`log`), written by a thread of its own (`writer`). When
the logs have grown by as much as the living state takes, a checkpoint begins: with each of the next turns a
slice of the living state is written again, session by session, as if it had just come to be. When all of it
has been, the older files hold nothing that matters, and are removed. So no turn waits for a checkpoint, the
files stay within a small multiple of what they hold, and there is one format and one way to read it.

Cost: a turn costs its encoding on the broker's thread; each byte is written at most about three times.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from braidmq.store import Durability, Surroundings
from braidmq.store.decoding import Decoder
from braidmq.store.directory import DataDirectory
from braidmq.store.encoding import Encoder
from braidmq.store.loading import Loader
from braidmq.store.log import HEADER, MARK_BYTES, NUMBERS
from braidmq.store.manifest import Manifest
from braidmq.store.pages import PageFiles
from braidmq.store.records import CHECKPOINTED, NUMBERED, Record
from braidmq.store.state import State
from braidmq.store.writer import Kept, LogWriter

MIB: Final = 1024 * 1024
FILE_BYTES: Final = 64 * MIB  # a new file begins when one has grown over this
SEGMENT_BYTES: Final = 4 * MIB  # of a file, in which a message is written once
SLICE_BYTES: Final = 64 * 1024  # of a checkpoint with one turn, at least
QUEUE_MEMORY_BYTES_MAX: Final = 128 * MIB
FRAME_HEAD_BYTES: Final = MARK_BYTES + NUMBERS.size
NUMBERS_OF_SECONDS: Final = 1 << 32  # more than deliveries can be made before the system writes to disk
FILES_MAX: Final = 16  # restarts make small files; more than this begin a checkpoint too

class DurableStore:
    """Keeps turns in a directory.

    `post` runs a callable on the broker's thread, from any thread. `wall_offset_s` is the wall clock minus
    the broker's clock. `tell` gets sentences for the operator, from any thread.
    """

    def __init__(
        self,
        directory: Path,
        *,
        post: Callable[[Callable[[], None]], object],
        wall_offset_s: float,
        durability: Durability = "process",
        salvage: bool = False,
        tell: Callable[[str], None] = lambda sentence: None,
        file_bytes: int = FILE_BYTES,
        queue_memory_bytes_max: int = QUEUE_MEMORY_BYTES_MAX,
    ) -> None:
        self.journal = Encoder(wall_offset_s)
        self._directory = DataDirectory(directory)
        self._post = post
        self._tell = tell
        self._durability = durability
        self._salvage = salvage
        self._wall_offset_s = wall_offset_s
        self._file_bytes_max = file_bytes
        self._writer: LogWriter | None = None
        self._outstanding = 0  # turns given to the writer and not yet reported
        self._number = 0  # of the present file
        self._oldest = 1  # the first file that is needed
        self._file_bytes = 0
        self._segment_bytes = 0
        self._grown_bytes = 0  # since the last checkpoint
        self._living_bytes = 0  # as of the last checkpoint
        self._living: Callable[[], Iterator[list[Record]]] | None = None
        self._checkpoint: Iterator[list[Record]] | None = None
        self._checkpoint_from = 0
        self._checkpoint_bytes = 0
        self._must_checkpoint = False
        self._queue_memory_bytes_max = queue_memory_bytes_max
        self._pages: PageFiles | None = None

    @property
    def is_failing(self) -> bool:
        return self.journal.is_failing

    @property
    def pages(self) -> PageFiles:
        assert self._pages is not None, "load() comes first"
        return self._pages

    # ---- at the start --------------------------------------------------------------------------------

    def load(self) -> State:
        """What was kept. The store can be written to afterwards."""
        path = self._directory.path
        make_decoder = partial(Decoder, self._wall_offset_s)
        manifest = Manifest(path)
        loader = Loader(path, make_decoder(self._salvage), manifest, salvage=self._salvage)
        self._pages = PageFiles(
            path,
            make_decoder,
            Encoder(self._wall_offset_s),
            memory_bytes_max=self._queue_memory_bytes_max,
            run=self._run_on_writer,
            post=self._post,
            syncs=self._durability == "fsync",
            tell=self._tell,
        )
        try:
            state = loader.load()
            lost = self._pages.adopt(state, salvage=self._salvage)
        except BaseException:
            self._directory.close()
            raise
        for note in loader.notes + lost:
            self._tell(note)
        self._must_checkpoint = loader.has_salvaged or bool(lost)
        skipped = self._protect_numbers(state, was_closed=manifest.is_closed)
        self._oldest = loader.oldest
        self._number = loader.newest
        self._grown_bytes = loader.held_bytes
        self._writer = LogWriter(
            path,
            manifest,
            previous=loader.ending,
            syncs=self._durability == "fsync",
            on_kept=self._on_kept,
            on_failing=self._set_failing,
            tell=self._tell,
        )
        self._begin_file()
        if skipped:
            self._write(self.journal.encode(skipped), _nobody_waits)
        return state

    def _protect_numbers(self, state: State, *, was_closed: bool) -> list[Record]:
        """Let no delivery number be used again that a client may know though the record of it is lost.

        Returns what is to be kept of that: the next start may find a store that was closed in order. Whether
        the store had synced isn't asked: it may have had another durability then.
        """
        skipped: list[Record] = []
        for client_id, saved in state.sessions.items():
            if self._must_checkpoint:  # nobody knows how many: clients are to see another session
                saved.identity = 0
            elif saved.identity and not was_closed:  # with the operating system, the last seconds
                saved.last_sequence += NUMBERS_OF_SECONDS
                skipped.append(
                    (NUMBERED, client_id, saved.identity, saved.last_sequence, saved.last_packet_id)
                )
        return skipped

    def _run_on_writer(self, action: Callable[[], None]) -> None:
        assert self._writer is not None
        self._writer.run(action)

    def checkpoint_from(self, living: Callable[[], Iterator[list[Record]]]) -> None:
        """Where the living state is to be had: lists of records, each of which rebuilds a part of it."""
        self._living = living
        if self._must_checkpoint:
            self._begin_checkpoint()
            self._go_on_with_checkpoint(float("inf"))

    # ---- the broker's turns --------------------------------------------------------------------------

    def commit(self, turn: bytes, kept: Kept) -> None:
        if not turn and not self._outstanding:
            kept()
            return
        self.pages.flush()
        written = self._write(turn, kept)
        self.pages.end_turn()
        if self._checkpoint is None and self._is_checkpoint_due():
            self._begin_checkpoint()
        if self._checkpoint is not None and not self.is_failing:
            self._go_on_with_checkpoint(max(SLICE_BYTES, 2 * written))

    def flush(self) -> None:
        """Wait until all turns so far are written and files no longer needed are gone (for tests)."""
        assert self._writer is not None
        self._writer.flush()

    def close(self) -> None:
        """Write what waits, and give the directory free."""
        if self._writer is not None and not self._writer.close():
            self._tell(f"{self._directory.path}: the last turns could not be written; none was acknowledged")
        self._directory.close()

    def _write(self, turn: bytes, kept: Kept) -> int:
        """Append a turn (an empty one just waits until it is its turn); how many bytes that takes."""
        assert self._writer is not None, "load() comes first"
        self._outstanding += 1
        self._writer.write(turn, kept)
        written = FRAME_HEAD_BYTES + len(turn) if turn else 0
        self._file_bytes += written
        self._grown_bytes += written
        self._segment_bytes += written
        if self._file_bytes >= self._file_bytes_max:
            self._begin_file()
        elif self._segment_bytes >= SEGMENT_BYTES:
            self._segment_bytes = 0
            self.journal.begin_segment()
        return written

    def _begin_file(self) -> None:
        assert self._writer is not None
        if len(self.journal):  # noted by the restored broker, before its first turn
            self.pages.flush()
            self._write(self.journal.take(), _nobody_waits)
        self._number += 1
        self._file_bytes = HEADER.size
        self._segment_bytes = 0
        self.journal.begin_file()
        self._writer.begin_file(self._number, self._oldest)

    def _set_failing(self, is_failing: bool) -> None:
        self.journal.is_failing = is_failing

    def _on_kept(self, reports: list[Kept]) -> None:
        self._post(lambda: self._report(reports))

    def _report(self, reports: list[Kept]) -> None:
        self._outstanding -= len(reports)
        for kept in reports:
            kept()

    # ---- checkpoints ---------------------------------------------------------------------------------

    def _is_checkpoint_due(self) -> bool:
        if self._living is None:
            return False
        due_bytes = max(self._file_bytes_max, self._living_bytes)
        return self._grown_bytes >= due_bytes or self._number - self._oldest >= FILES_MAX

    def _begin_checkpoint(self) -> None:
        assert self._living is not None
        self._begin_file()
        self._checkpoint = self._living()
        self._checkpoint_from = self._number
        self._checkpoint_bytes = 0

    def _go_on_with_checkpoint(self, budget_bytes: float) -> None:
        assert self._checkpoint is not None
        assert self._writer is not None
        spent_bytes = 0
        for records in self._checkpoint:
            spent_bytes += self._write(self.journal.encode(records), _nobody_waits)
            if spent_bytes >= budget_bytes:
                self._checkpoint_bytes += spent_bytes
                return
        self._write(self.journal.encode([(CHECKPOINTED, self._checkpoint_from)]), _nobody_waits)
        self._writer.drop_before(self._checkpoint_from)
        self._oldest = self._checkpoint_from
        self._living_bytes = self._checkpoint_bytes + spent_bytes
        self._grown_bytes = 0
        self._checkpoint = None


def open_log(around: Surroundings) -> DurableStore:
    """The engine `log`."""
    return DurableStore(
        around.directory,
        post=around.post,
        wall_offset_s=around.wall_offset_s,
        durability=around.durability,
        salvage=around.salvage,
        tell=around.tell,
        queue_memory_bytes_max=around.queue_memory_bytes_max,
    )


def _nobody_waits() -> None:
    """A part of a checkpoint promises nothing to anybody."""
