"""The manifest: which log is the newest, so that one that is missing is noticed.

It is written when a log begins, before the first turn in it, and when the store is closed; then it also
says how long the newest log is. Two places in the file take turns, so a crash while it is written doesn't
spoil what it said before. It may be behind by one write, never ahead.
"""

import os
import struct
from pathlib import Path
from typing import Final, NamedTuple

from braidmq.errors import StoreError
from braidmq.store.disk import write_all
from braidmq.store.log import sealed

NAME: Final = "manifest.braid"
MAGIC: Final = b"BRAIDMAN"
VERSION: Final = 1
# Magic, version, how often it was written, newest log, its salt and its length (or OPEN), CRC of these.
ENTRY: Final = struct.Struct("<8sIQQ16sQI")
OPEN: Final = 2**64 - 1  # it may have grown since
PLACE_BYTES: Final = 4096  # apart, so that a disk doesn't write both with one sector


class Newest(NamedTuple):
    """The newest log."""

    number: int
    salt: bytes
    size_bytes: int | None  # None: it may have grown since


class Manifest:
    """The manifest of one directory; `newest` is what it says, None if it isn't there or can't be read."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / NAME
        self.newest: Newest | None = None
        self._writes = 0
        for place in (0, 1):
            self._take(self._read(place))

    @property
    def is_closed(self) -> bool:
        """Whether the broker was stopped in order."""
        return self.newest is not None and self.newest.size_bytes is not None

    def _read(self, place: int) -> bytes:
        try:
            with self.path.open("rb") as file:
                file.seek(place * PLACE_BYTES)
                return file.read(ENTRY.size)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise StoreError(f"{self.path}: can't be read: {error.strerror}") from error

    def _take(self, packed: bytes) -> None:
        if len(packed) < ENTRY.size or sealed(packed) != packed:
            return
        magic, version, writes, number, salt, size_bytes, _ = ENTRY.unpack(packed)
        if magic == MAGIC and version == VERSION and writes > self._writes:
            self._writes = writes
            self.newest = Newest(number, salt, None if size_bytes == OPEN else size_bytes)

    def write(self, newest: Newest, *, syncs: bool) -> None:
        """Say which log is the newest; OSError leaves what it said before."""
        size_bytes = OPEN if newest.size_bytes is None else newest.size_bytes
        writes = self._writes + 1
        packed = sealed(ENTRY.pack(MAGIC, VERSION, writes, newest.number, newest.salt, size_bytes, 0))
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            write_all(descriptor, packed, writes % 2 * PLACE_BYTES)
            if syncs:
                os.fdatasync(descriptor)
        finally:
            os.close(descriptor)
        self._writes, self.newest = writes, newest
