"""The thread that writes turns: all that wait are written with one call, so clients share its cost.

While one group is being written the next one gathers; small ones gather for a millisecond, since handing a
group over and back takes two changes of threads, which cost more than a small group itself. After a quiet
millisecond, or when there is much to write, a turn waits for nothing.

A write that fails is tried again until it succeeds, at the same place in the file; nothing behind it is
written before, and nothing of it is reported as kept. So a full disk delays promises and breaks none.
"""

import contextlib
import errno
import os
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final

from braidmq.store.disk import sync_directory, sync_file, write_all
from braidmq.store.log import HEADER, SALT_BYTES, UNSALTED, Ending, Framing, header, numbers_in, path_of
from braidmq.store.manifest import Manifest, Newest

RETRY_S: Final = 0.25
GATHER_S: Final = 0.001  # from one small group to the next
SMALL_BYTES: Final = 8 * 1024

Kept = Callable[[], None]


class LogWriter:
    """Writes on its own thread, and calls these on it: `on_kept` with the callbacks of a whole group;
    `on_failing` and `tell` (with a sentence) when writing begins to fail and when it works again.
    """

    def __init__(
        self,
        directory: Path,
        manifest: Manifest,
        *,
        previous: Ending,
        syncs: bool,
        on_kept: Callable[[list[Kept]], None],
        on_failing: Callable[[bool], None],
        tell: Callable[[str], None],
    ) -> None:
        self.is_failing = False
        self._directory = directory
        self._place = _identity(directory)
        self._manifest = manifest
        self._previous = previous  # how the file ended that was there before
        self._syncs = syncs
        self._on_kept = on_kept
        self._on_failing = on_failing
        self._tell = tell
        self._actions: SimpleQueue[Callable[[], object] | tuple[bytes, Kept] | None] = SimpleQueue()
        self._number = 0
        self._salt = b""
        self._framing = UNSALTED
        self._descriptor = -1
        self._path = directory
        self._offset = 0
        self._next_group_at = 0.0  # if it is a small one
        self._is_closing = False
        self._gives_up = threading.Event()
        self._sweeper: threading.Thread | None = None
        self._thread = threading.Thread(target=self._run, name="braidmq-store", daemon=True)
        self._thread.start()

    # ---- from the broker's thread --------------------------------------------------------------------

    def write(self, turn: bytes, kept: Kept) -> None:
        """Append a turn to the present file and report it; of an empty one, only that it has its turn."""
        self._actions.put((turn, kept))

    def run(self, action: Callable[[], None]) -> None:
        """Do something behind all that was given so far, again and again until it works."""
        self._actions.put(partial(self._insist, action))

    def begin_file(self, number: int, oldest: int) -> None:
        """Go on in a new file."""
        self._actions.put(lambda: self._insist(partial(self._open, number, oldest)))

    def drop_before(self, number: int) -> None:
        """Remove the files before this one, once all that replaces them is on the disk itself."""
        self._actions.put(partial(self._sweep, number))

    def flush(self) -> None:
        """Wait until all that was given so far is done."""
        done = threading.Event()
        self._actions.put(done.set)
        done.wait()
        if self._sweeper is not None:
            self._sweeper.join()

    def close(self) -> bool:
        """Write what waits and end, with one attempt at each write; False if one of them failed."""
        self._is_closing = True
        if self.is_failing:
            self._gives_up.set()
        self._actions.put(None)
        self._thread.join()
        if self._sweeper is not None:
            self._sweeper.join()
        return not self._gives_up.is_set()

    # ---- on the writer's thread ----------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:  # a mistake of ours: let nobody wait for what will never be kept
            self._gives_up.set()
            self._on_failing(True)
            self._tell(f"{self._path}: isn't written any more, because of {error!r}; restart the broker")
            raise

    def _work(self) -> None:
        while self._write_group(self._waiting()):
            pass
        if self._descriptor >= 0:
            if not self._gives_up.is_set():
                self._insist(partial(os.fdatasync, self._descriptor))
                newest = Newest(self._number, self._salt, self._offset)
                self._insist(partial(self._manifest.write, newest, syncs=True))
            os.close(self._descriptor)

    def _waiting(self) -> list[Callable[[], object] | tuple[bytes, Kept] | None]:
        """All actions that wait; there is at least one."""
        found = [self._actions.get()]
        if _bytes_of(found[0]) < SMALL_BYTES:
            time.sleep(max(0.0, self._next_group_at - time.monotonic()))
        with contextlib.suppress(Empty):
            while True:
                found.append(self._actions.get_nowait())
        is_small = sum(map(_bytes_of, found)) < SMALL_BYTES
        self._next_group_at = time.monotonic() + GATHER_S if is_small else 0.0
        return found

    def _write_group(self, actions: list[Callable[[], object] | tuple[bytes, Kept] | None]) -> bool:
        parts: list[bytes] = []  # of frames, as they follow each other in the file
        reports: list[Kept] = []
        for action in actions:
            if isinstance(action, tuple):
                turn, kept = action
                if turn:
                    parts += (self._framing.head(turn), turn)
                reports.append(kept)
                continue
            self._append_all(parts, reports)
            parts, reports = [], []
            if action is None:
                return False
            action()
        self._append_all(parts, reports)
        return not self._gives_up.is_set()

    def _append_all(self, parts: list[bytes], reports: list[Kept]) -> None:
        data = b"".join(parts)
        if reports and self._insist(partial(self._append, data)):
            self._on_kept(reports)

    def _append(self, data: bytes) -> None:
        if data:
            self._check_place()
        write_all(self._descriptor, data, self._offset)
        if self._syncs and data:
            os.fdatasync(self._descriptor)
        self._offset += len(data)

    def _check_place(self) -> None:
        """Raise OSError if the directory isn't where the next start would look for it."""
        if _identity(self._directory) != self._place:
            raise OSError(errno.ESTALE, "the data directory was moved away, and another is in its place")

    def _insist(self, action: Callable[[], None]) -> bool:
        """Do it until it works; False if the store is closed before."""
        while not self._gives_up.is_set():
            try:
                action()
            except OSError as error:
                self._failed(error)
                if self._is_closing:
                    self._gives_up.set()
                self._gives_up.wait(RETRY_S)
            else:
                if self.is_failing:
                    self.is_failing = False
                    self._on_failing(False)
                    self._tell(f"{self._path}: can be written again")
                return True
        return False

    def _failed(self, error: OSError) -> None:
        if not self.is_failing:
            self.is_failing = True
            self._on_failing(True)
            self._tell(
                f"{self._path}: can't be written: {error.strerror}. QoS 1 and 2 are refused until it can; "
                "make room on the disk, or look after it"
            )

    def _open(self, number: int, oldest: int) -> None:
        path, salt = path_of(self._directory, number), os.urandom(SALT_BYTES)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            write_all(descriptor, header(number, oldest, salt, self._ending()), 0)
            if self._syncs:  # before the manifest speaks of it, else power loss leaves one that is missing
                os.fdatasync(descriptor)
                sync_directory(self._directory)
            self._manifest.write(Newest(number, salt, None), syncs=self._syncs)
            if self._syncs:  # the manifest may be new, too
                sync_directory(self._directory)
        except OSError:
            os.close(descriptor)
            raise
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._number, self._salt, self._framing = number, salt, Framing(salt)
        self._path, self._descriptor, self._offset = path, descriptor, HEADER.size

    def _ending(self) -> Ending:
        """How the file ends that is written at present."""
        return Ending(self._salt, self._offset) if self._number else self._previous

    # ---- removing what is no longer needed -----------------------------------------------------------

    def _sweep(self, number: int) -> None:
        """Syncing whole files takes long, so nothing waits for it."""
        if self._sweeper is not None:
            self._sweeper.join()
        self._sweeper = threading.Thread(target=self._sync_and_remove, args=(number,), daemon=True)
        self._sweeper.start()

    def _sync_and_remove(self, number: int) -> None:
        present = numbers_in(self._directory)
        try:
            for needed in (found for found in present if found >= number):
                sync_file(path_of(self._directory, needed))
            for page_file in self._directory.glob("page-*.braid"):
                with contextlib.suppress(FileNotFoundError):  # given up meanwhile
                    sync_file(page_file)
            sync_directory(self._directory)
            for unneeded in (found for found in present if found < number):
                path_of(self._directory, unneeded).unlink()
        except OSError as error:
            self._tell(f"{self._directory}: old logs can't be removed: {error}")


def _identity(directory: Path) -> tuple[int, int]:
    found = directory.stat()
    return found.st_dev, found.st_ino


def _bytes_of(action: Callable[[], object] | tuple[bytes, Kept] | None) -> int:
    return len(action[0]) if isinstance(action, tuple) else 0
