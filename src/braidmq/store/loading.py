"""Reads a data directory into a State: which files count, where the newest was torn, what is damaged.

Invariant: the State holds every turn that was kept, in order, and no other. If that can't be had, StoreError
says which file is at fault; with `salvage` only what is damaged is given up, and a copy of the file is kept.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from braidmq.errors import StoreError
from braidmq.store.decoding import Decoder
from braidmq.store.log import (
    HEADER,
    damaged,
    next_frame,
    numbers_in,
    path_of,
    payloads,
    read_header,
)
from braidmq.store.state import State


class Loader:
    """`load` fills `state`; afterwards the other fields say what the directory holds."""

    def __init__(self, directory: Path, decoder: Decoder, *, salvage: bool = False) -> None:
        self.state = State()
        self.numbers: list[int] = []  # of the files that are there
        self.oldest = 1  # the first one that is needed
        self.held_bytes = 0
        self.notes: list[str] = []  # what an operator should know
        self.has_salvaged = False
        self._directory = directory
        self._decoder = decoder
        self._salvage = salvage

    def load(self) -> State:
        present = numbers_in(self._directory)
        for number in present:
            self._check_follows(number)
            self._load_file(number, is_newest=number == present[-1])
        self.oldest = max(self.oldest, self.state.oldest_needed)
        if self.numbers and self.numbers[0] > self.oldest:
            self._refuse_gap(self.oldest)
        return self.state

    def _check_follows(self, number: int) -> None:
        if self.numbers and number != self.numbers[-1] + 1:
            self._refuse_gap(self.numbers[-1] + 1)

    def _refuse_gap(self, number: int) -> None:
        path = path_of(self._directory, number)
        if not self._salvage:
            raise StoreError(
                f"{path}: is missing. Put it back, or start once with --salvage to go on "
                "with what the other files hold"
            )
        self.has_salvaged = True
        self.notes.append(f"{path}: is missing; what it held is lost")

    def _load_file(self, number: int, *, is_newest: bool) -> None:
        path = path_of(self._directory, number)
        data = memoryview(_read(path))
        self._decoder.begin_file()
        if len(data) < HEADER.size and is_newest:
            path.unlink()  # the crash came while it was made: nothing was in it
            return
        self.numbers.append(number)
        self.held_bytes += len(data)
        try:
            self._check_header(data, path, number)
        except StoreError:
            if not self._salvage:
                raise
            self._note_damage(path, 0)
        for payload in self._sound_payloads(data, path, is_newest=is_newest):
            try:
                self.state.apply(self._decoder.decode(payload))
            except (ValueError, KeyError, TypeError) as error:
                raise StoreError(f"{path}: holds what this version can't read: {error}") from error

    def _check_header(self, data: memoryview, path: Path, number: int) -> None:
        found = read_header(data, path)
        if found is None:
            raise damaged(path, 0)
        if found.number != number:
            raise StoreError(f"{path}: is file {found.number} under another name; rename it back")
        self.oldest = max(self.oldest, found.oldest)

    def _sound_payloads(self, data: memoryview, path: Path, *, is_newest: bool) -> Iterator[memoryview]:
        offset = HEADER.size
        while True:
            for end, payload in payloads(data, offset):
                yield payload
                offset = end
            if offset == len(data):
                return
            following = next_frame(data, offset)
            if following is None and is_newest:
                self._cut_off(path, offset, len(data))
                return
            if not self._salvage:
                raise damaged(path, offset)
            self._note_damage(path, offset)
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
        if not copy.exists():
            shutil.copy2(path, copy)
        self.notes.append(f"{path}: damaged at byte {offset}; what could be read is kept, the file is {copy}")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise StoreError(f"{path}: can't be read: {error.strerror}") from error
