"""Reads a data directory into a State: which files count, where the newest was torn, what is damaged.

Invariant: the State holds every turn that was kept, in order, and no other. If that can't be had, StoreError
says which file is at fault; with `salvage` only what is damaged is given up, and a copy of the file is kept.

What is missing is noticed by what others say: the manifest names the newest log (and how long it was, if the
broker was stopped in order), each log names the oldest that is needed and how the one before it ended.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from braidmq.errors import StoreError
from braidmq.store.decoding import Decoder
from braidmq.store.log import (
    HEADER,
    NO_ENDING,
    NO_SALT,
    UNSALTED_HEADER,
    Ending,
    Framing,
    Header,
    damaged,
    numbers_in,
    path_of,
    read_header,
)
from braidmq.store.log_reader import LogReader
from braidmq.store.manifest import Manifest, Newest
from braidmq.store.pages import numbers_in as page_numbers_in
from braidmq.store.state import State


class Loader:
    """`load` fills `state`; afterwards the other fields say what the directory holds."""

    def __init__(self, directory: Path, decoder: Decoder, manifest: Manifest, *, salvage: bool) -> None:
        self.state = State()
        self.newest = 0  # number of the newest log there ever was, also if it is missing
        self.ending = NO_ENDING  # of that one
        self.oldest = 1  # the first one that is needed
        self.held_bytes = 0
        self.notes: list[str] = []  # what an operator should know
        self.has_salvaged = False
        self._directory = directory
        self._decoder = decoder
        self._manifest = manifest
        self._salvage = salvage

    def load(self) -> State:
        if self._salvage:
            self._set_aside_what_is_no_file()
        self._remove_unfinished()
        present = numbers_in(self._directory)
        headers = {number: self._header(number) for number in present}
        self._check_newest(present, headers)
        for number in present:
            self._check_follows(number, headers[number])
            with LogReader(path_of(self._directory, number)) as log:
                salt = _salt_of(number, headers, self._manifest.newest)
                self._load_file(log, number, salt, is_newest=number == present[-1])
        self.oldest = max(self.oldest, self.state.oldest_needed)
        if present and present[0] > self.oldest:
            self._refuse_gap(self.oldest)
        if self._manifest.newest is not None and self._manifest.newest.number > self.newest:
            self.newest, self.ending = self._manifest.newest.number, NO_ENDING
        return self.state

    # ---- what is there -------------------------------------------------------------------------------

    def _set_aside_what_is_no_file(self) -> None:
        """A directory, or a link that leads nowhere, under the name of a log: that log is missing."""
        for path in (path_of(self._directory, number) for number in numbers_in(self._directory)):
            if path.is_file():
                continue
            aside = path.with_suffix(".damaged")
            try:
                path.rename(aside)
            except OSError as error:
                raise StoreError(
                    f"{path}: is no file, and can't be renamed: {error.strerror}; move it away"
                ) from error
            self.has_salvaged = True
            self.notes.append(f"{path}: is no file; it is now {aside}")

    def _remove_unfinished(self) -> None:
        """A newest log that ends within its header was being made when the crash came: nothing was in it."""
        for number in numbers_in(self._directory)[-1:]:
            path = path_of(self._directory, number)
            if self._manifest.newest is not None and number <= self._manifest.newest.number:
                return  # it had been made
            with LogReader(path) as log, suppress(StoreError):  # what isn't a log is told below
                if read_header(bytes(log.view(0, HEADER.size)), path) is None:
                    path.unlink()

    def _header(self, number: int) -> Header | None:
        """The header of a log; None if it can't be read and that may be."""
        path = path_of(self._directory, number)
        try:
            with LogReader(path) as log:
                found = read_header(bytes(log.view(0, HEADER.size)), path)
            if found is None:
                raise damaged(path, 0)
            if found.number != number:
                raise StoreError(f"{path}: is file {found.number} under another name; rename it back")
        except StoreError:
            if not self._salvage:
                raise
            self._note_damage(path, 0)
            return None
        self.oldest = max(self.oldest, found.oldest)
        return found

    def _check_follows(self, number: int, header: Header | None) -> None:
        """Whether the log before this one is there, and is as long as when this one was begun."""
        if self.newest and number != self.newest + 1:
            self._refuse_gap(self.newest + 1)
        elif self.newest and header is not None and header.previous is not None:
            self._check_size(self.newest, header.previous.size_bytes)
            if header.previous.salt != self.ending.salt != NO_SALT:
                previous = path_of(self._directory, self.newest).name
                self._refuse(path_of(self._directory, number), f"doesn't follow {previous} as it is")

    def _check_size(self, number: int, size_bytes: int) -> None:
        path = path_of(self._directory, number)
        found_bytes = path.stat().st_size
        if found_bytes < size_bytes:
            self._refuse(path, f"was cut: {found_bytes} of its {size_bytes} bytes are there")

    def _check_newest(self, present: list[int], headers: dict[int, Header | None]) -> None:
        """Whether the newest log is there, and as long as when the broker was stopped."""
        known = self._manifest.newest
        if known is None:
            if not present and page_numbers_in(self._directory):
                self._refuse(self._manifest.path, "is missing, and so are all logs; there are only pages")
            if any(header is not None and self._needs_manifest(header) for header in headers.values()):
                self._refuse(self._manifest.path, "is missing or damaged")
        elif not present or present[-1] < known.number:
            self._refuse_gap(known.number)
        elif present[-1] == known.number and known.size_bytes is not None:
            self._check_size(known.number, known.size_bytes)

    def _needs_manifest(self, header: Header) -> bool:
        """Whether turns are in a log, which are only written when the manifest names it."""
        size_bytes = path_of(self._directory, header.number).stat().st_size
        return header.salt != NO_SALT and size_bytes > HEADER.size

    def _refuse_gap(self, number: int) -> None:
        self._refuse(path_of(self._directory, number), "is missing")

    def _refuse(self, path: Path, why: str) -> None:
        if not self._salvage:
            raise StoreError(
                f"{path}: {why}. Put it back, or start once with --salvage to go on with what there is"
            )
        self.has_salvaged = True
        self.notes.append(f"{path}: {why}; going on with what there is")

    # ---- what is in it -------------------------------------------------------------------------------

    def _load_file(self, log: LogReader, number: int, salt: bytes | None, *, is_newest: bool) -> None:
        self._decoder.begin_file()
        self.newest = number
        self.held_bytes += log.size_bytes
        if salt is not None:
            for payload in self._sound_payloads(log, salt, is_newest=is_newest):
                self._apply(payload, log.path)
        self.ending = Ending(salt or NO_SALT, log.path.stat().st_size)

    def _apply(self, payload: memoryview, path: Path) -> None:
        try:
            self.state.apply(self._decoder.decode(payload))
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{path}: holds what this version can't read: {error}") from error

    def _sound_payloads(self, log: LogReader, salt: bytes, *, is_newest: bool) -> Iterator[memoryview]:
        framing = Framing(salt)
        offset = UNSALTED_HEADER.size if salt == NO_SALT else HEADER.size
        while True:
            for end, payload in log.payloads(framing, offset):
                yield payload
                offset = end
            if offset >= log.size_bytes:
                return
            following = log.next_frame(framing, offset)
            if following is None and is_newest:
                self._cut_off(log.path, offset, log.size_bytes)
                return
            if not self._salvage:
                raise damaged(log.path, offset)
            self._note_damage(log.path, offset)
            if following is None:
                return
            offset = following

    def _cut_off(self, path: Path, offset: int, size: int) -> None:
        """The crash came while a turn was being written: it was never acknowledged."""
        os.truncate(path, offset)
        self.notes.append(f"{path}: its last {size - offset} bytes were cut short by a crash; removed")

    def _note_damage(self, path: Path, offset: int) -> None:
        self.has_salvaged = True
        copy = path.with_suffix(".damaged")
        try:
            if not copy.exists():
                shutil.copy2(path, copy)
        except OSError as error:
            raise StoreError(f"{path}: can't be copied to {copy}: {error.strerror}") from error
        self.notes.append(f"{path}: damaged at byte {offset}; what could be read is kept, the file is {copy}")


def _salt_of(number: int, headers: dict[int, Header | None], newest: Newest | None) -> bytes | None:
    """The salt of a log, which others know as well if its header is damaged; None: nobody knows it."""
    own, following = headers[number], headers.get(number + 1)
    if own is not None:
        return own.salt
    if following is not None:
        return following.previous.salt if following.previous is not None else NO_SALT
    return newest.salt if newest is not None and newest.number == number else None
