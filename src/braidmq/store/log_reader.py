"""Reads a log from its file, a slice at a time: its size doesn't matter to the memory."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from braidmq.errors import StoreError
from braidmq.store.log import Framing

SLICE_BYTES: Final = 1024 * 1024


class LogReader:
    """An opened log; a larger slice than usual is read for a larger frame, and given up after it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._slice = memoryview(b"")
        self._slice_at = 0
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise _unreadable(path, error) from error
        self.size_bytes = os.fstat(self._descriptor).st_size

    def __enter__(self) -> "LogReader":
        return self

    def __exit__(self, *exception: object) -> None:
        os.close(self._descriptor)

    def view(self, offset: int, size: int) -> memoryview:
        """The bytes from there on; fewer at the end of the file."""
        begin = offset - self._slice_at
        if begin < 0 or begin + size > len(self._slice):
            self._slice, self._slice_at, begin = self._read(offset, max(size, SLICE_BYTES)), offset, 0
        return self._slice[begin : begin + size]

    def _read(self, offset: int, size: int) -> memoryview:
        try:
            return memoryview(os.pread(self._descriptor, size, offset))
        except OSError as error:
            raise _unreadable(self.path, error) from error

    def payload_at(self, framing: Framing, offset: int) -> memoryview | None:
        """The payload of the frame that begins there, or None if there is no sound one."""
        length = framing.length_in(self.view(offset, framing.head_bytes))
        if length is None or length > self.size_bytes - offset - framing.head_bytes:
            return None
        return framing.payload_in(self.view(offset, framing.head_bytes + length))

    def payloads(self, framing: Framing, offset: int) -> Iterator[tuple[int, memoryview]]:
        """The payloads from `offset` to the first frame that isn't sound, each with its end's offset."""
        while (payload := self.payload_at(framing, offset)) is not None:
            offset += framing.head_bytes + len(payload)
            yield offset, payload

    def next_frame(self, framing: Framing, offset: int) -> int | None:
        """Where the next sound frame begins, at `offset` or behind it."""
        while offset < self.size_bytes:
            found = bytes(self.view(offset, SLICE_BYTES)).find(framing.mark)
            if found < 0:
                offset += SLICE_BYTES - len(framing.mark) + 1  # one may begin at the end of the slice
            elif self.payload_at(framing, offset + found) is not None:
                return offset + found
            else:
                offset += found + 1
        return None


def _unreadable(path: Path, error: OSError) -> StoreError:
    return StoreError(f"{path}: can't be read: {error.strerror}")
