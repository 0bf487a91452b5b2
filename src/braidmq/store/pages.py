"""Pages: what waits for absent clients and in shared groups and left the memory, in files beside the logs.

A page is one frame (see `log`), written once and read once, on the store's thread; the log says which page
belongs to which owner, and where it is: frames are never searched for here, so they need no salt. A body
that several sessions wait for is written once a file: later pages refer to the page that has it. A page
counts from the turn that speaks of it: pages are written before that turn, and a file is removed after the
turn in which the last of its pages was given up. What a crash leaves in between is a file that nobody
speaks of; the next start removes it. Files are never written again after a restart.

Cost: about as much as the log, once when a delivery goes and once when it comes back. A file stays as long
as one of its pages is needed; with each checkpoint, pages in files of which little is needed are written
anew. Bodies that only other pages refer to are not counted as needed: such a file may look emptier than it
is.
"""

import os
import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from braidmq.errors import StoreError
from braidmq.store.decoding import Decoder
from braidmq.store.disk import sync_directory, write_all
from braidmq.store.encoding import Encoder
from braidmq.store.log import UNSALTED
from braidmq.store.records import Record
from braidmq.store.state import Page, State

NAME: Final = re.compile(r"page-(\d{10})\.braid")
FILE_BYTES: Final = 16 * 1024 * 1024
SPARSE_SHARE: Final = 0.25  # of a file's bytes that are needed; below it they are written anew
UNWRITTEN_BYTES_MAX: Final = 1024 * 1024  # in memory; a turn may make many pages
DECODED_PAGES_MAX: Final = 16  # at hand, since others refer to the bodies in them

Then = Callable[[list[Record] | None], None]


def path_of(directory: Path, number: int) -> Path:
    return directory / f"page-{number:010}.braid"


def numbers_in(directory: Path) -> list[int]:
    """The numbers of the page files that are there, in order."""
    found = (NAME.fullmatch(path.name) for path in directory.iterdir())
    return sorted(int(match[1]) for match in found if match)


def _told(lost: Counter[str]) -> str:
    """How much of whom."""
    others = f" and {len(lost) - 1} others" if len(lost) > 1 else ""
    return f"{lost.total()} messages that wait for {next(iter(lost))}{others} are"


class PageFiles:
    """The pages of one data directory.

    `make_decoder(lenient)` makes one. `run` does something on the store's thread, after all that was given to
    it before, and again until it works; `post` runs a callable on the broker's thread.
    """

    def __init__(
        self,
        directory: Path,
        make_decoder: Callable[[bool], Decoder],
        encoder: Encoder,
        *,
        memory_bytes_max: int,
        run: Callable[[Callable[[], None]], None],
        post: Callable[[Callable[[], None]], object],
        syncs: bool,
        tell: Callable[[str], None],
        file_bytes: int = FILE_BYTES,
    ) -> None:
        self.memory_bytes_max = memory_bytes_max
        self.encoder = encoder
        self._directory = directory
        self._make_decoder = make_decoder
        self._run = run
        self._post = post
        self._syncs = syncs
        self._file_bytes_max = file_bytes
        self._tell = tell
        self._number = max(numbers_in(directory), default=0) + 1
        self._offset = 0
        self._unwritten: list[bytes] = []
        self._unwritten_bytes = 0
        self._unwritten_from = 0
        self._needed_bytes: Counter[int] = Counter()  # of pages, by file
        self._file_bytes: dict[int, int] = {}  # of files that are finished
        self._given_up: list[int] = []  # files that go after the present turn
        self._decoded: dict[tuple[int, int], Decoder] = {}  # by file and offset; for the store's thread only

    # ---- at the start --------------------------------------------------------------------------------

    def adopt(self, state: State, *, salvage: bool) -> list[str]:
        """Take over the pages that a state speaks of, and remove files that it doesn't.

        Returns what an operator should know; pages that are lost are taken out of the state if `salvage`.
        """
        self._file_bytes = {
            number: path_of(self._directory, number).stat().st_size for number in numbers_in(self._directory)
        }
        lost: dict[int, Counter[str]] = {}  # by file: messages of each client or group
        for client_id, session in state.sessions.items():
            if session.pages:
                session.pages = self._adopt_pages(client_id, session.pages, lost, checks=salvage)
        for group, pages in state.group_pages.items():
            owner = f"group {group.name}/{group.filter.decode()}"
            state.group_pages[group] = self._adopt_pages(owner, pages, lost, checks=salvage)
        problems = [f"{path_of(self._directory, number)}: {_told(lost[number])}" for number in sorted(lost)]
        if problems and not salvage:
            cure = "Put the file back, or start once with --salvage to go on without them"
            raise StoreError(f"{problems[0]} missing. {cure}")
        for number in self._file_bytes.keys() - self._needed_bytes.keys():
            path_of(self._directory, number).unlink()
            del self._file_bytes[number]
        return [f"{problem} lost" for problem in problems]

    def _adopt_pages(
        self, owner: str, pages: list[Page], lost: dict[int, Counter[str]], *, checks: bool
    ) -> list[Page]:
        """Those that are there; `checks` reads them, too."""
        kept = []
        for page in pages:
            _, _, _, number, offset, size, count = page
            is_there = self._file_bytes.get(number, 0) >= offset + size
            if is_there and not (checks and self._payload(page) is None):
                self._needed_bytes[number] += size
                kept.append(page)
            else:
                lost.setdefault(number, Counter())[owner] += count
        return kept

    def _payload(self, page: Page) -> memoryview | None:
        _, _, _, number, offset, size, _ = page
        return self._read(number, offset, size)

    # ---- from the broker's thread --------------------------------------------------------------------

    def write(self, payload: bytes) -> tuple[int, int, int]:
        offset, size = self._offset, UNSALTED.head_bytes + len(payload)
        place = (self._number, offset, size)
        self.encoder.placed(offset, size)
        self._unwritten += (UNSALTED.head(payload), payload)
        self._needed_bytes[self._number] += size
        self._offset += size
        self._unwritten_bytes += size
        if self._offset >= self._file_bytes_max:
            self._begin_file()
        elif self._unwritten_bytes >= UNWRITTEN_BYTES_MAX:
            self.flush()
        return place

    def _begin_file(self) -> None:
        self.flush()
        self._file_bytes[self._number] = self._offset
        if not self._needed_bytes[self._number]:
            self._give_up(self._number)
        self._number += 1
        self._offset = self._unwritten_from = 0
        self.encoder.forget_places()

    def flush(self) -> None:
        """Have written what is not yet."""
        if self._unwritten:
            data, self._unwritten, self._unwritten_bytes = b"".join(self._unwritten), [], 0
            self._run(partial(self._append, self._number, self._unwritten_from, data))
            self._unwritten_from += len(data)

    def fetch(self, file: int, offset: int, size: int, then: Then) -> None:
        self.flush()
        self._run(partial(self._fetch, file, offset, size, then))

    def free(self, file: int, size: int) -> None:
        self._needed_bytes[file] -= size
        if not self._needed_bytes[file] and file != self._number:
            self._give_up(file)

    def _give_up(self, file: int) -> None:
        del self._needed_bytes[file], self._file_bytes[file]
        self._given_up.append(file)

    def is_sparse(self, file: int) -> bool:
        return self._needed_bytes[file] < self._file_bytes.get(file, 0) * SPARSE_SHARE

    def end_turn(self) -> None:
        """The turn is on its way to the log: remove, behind it, what it gave up."""
        for file in self._given_up:
            self._run(partial(path_of(self._directory, file).unlink, missing_ok=True))
        self._given_up.clear()

    # ---- on the store's thread -----------------------------------------------------------------------

    def _append(self, number: int, offset: int, data: bytes) -> None:
        path, is_new = path_of(self._directory, number), offset == 0
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            write_all(descriptor, data, offset)
            if self._syncs:
                os.fdatasync(descriptor)
                if is_new:
                    sync_directory(self._directory)
        finally:
            os.close(descriptor)

    def _fetch(self, file: int, offset: int, size: int, then: Then) -> None:
        decoder = self._make_decoder(False)
        decoder.find_elsewhere = partial(self._find_elsewhere, file)
        try:
            records: list[Record] | None = self._decode(decoder, file, offset, size)
        except (OSError, ValueError) as error:
            self._tell(f"{path_of(self._directory, file)}: what waited at byte {offset} is lost: {error}")
            records = None
        self._post(partial(then, records))

    def _find_elsewhere(self, file: int, offset: int, size: int, number: int) -> Any:
        """The message that another page has under that number."""
        decoder = self._decoded.get((file, offset))
        if decoder is None:
            decoder = self._make_decoder(True)  # only for its own bodies: what is elsewhere stays there
            self._decode(decoder, file, offset, size)
        return decoder.body_of(number)

    def _decode(self, decoder: Decoder, file: int, offset: int, size: int) -> list[Record]:
        payload = self._read(file, offset, size)
        if payload is None:
            raise ValueError("it is damaged")
        records = decoder.decode(payload)
        self._decoded[file, offset] = decoder
        if len(self._decoded) > DECODED_PAGES_MAX:
            del self._decoded[next(iter(self._decoded))]
        return records

    def _read(self, number: int, offset: int, size: int) -> memoryview | None:
        """The payload of a page; None if it isn't sound."""
        descriptor = os.open(path_of(self._directory, number), os.O_RDONLY | os.O_CLOEXEC)
        try:
            return UNSALTED.payload_in(memoryview(os.pread(descriptor, size, offset)))
        finally:
            os.close(descriptor)
