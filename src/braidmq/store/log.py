"""The files of the store: numbered logs of turns, each turn a frame with its length and checksum.

A file is a header and then frames. A frame is there wholly or not at all, so a turn is too. Only the end
of the newest file can be torn by a crash, because a file is never written again once there is a newer one;
anything else that can't be read is damage. Nothing acknowledged can be in a torn end: it had not been
written.

What clients send is in these files, and may be made to look like frames. So each file has a salt, random
bytes that no client knows: frames begin with a part of it, and their checksum starts from all of it.
Behind a torn or damaged part only frames that we wrote are found. A header also says which salt and length
the file before it had when it was finished, so that one that was cut or exchanged since is noticed.

Rejected: SQLite and LMDB, which cost several times as much a message (docs/decisions/store-engine.md).
"""

import re
import struct
import zlib
from pathlib import Path
from typing import Final, NamedTuple

from braidmq.errors import StoreError

MAGIC: Final = b"BRAIDLOG"
VERSION: Final = 4
EARLIER_VERSIONS: Final = (1, 2, 3)  # only read; 3 has neither peers' positions nor stamps of messages
UNSALTED_VERSIONS: Final = (1, 2)  # as earlier versions of BraidMQ wrote them; only read
BEGINNING: Final = struct.Struct("<8sI")  # magic, version
# Magic, version, number, oldest file needed with it, salt, salt and length of the file before, CRC of these.
HEADER: Final = struct.Struct("<8sIQQ16s16sQI")
UNSALTED_HEADER: Final = struct.Struct("<8sIQQI")
NUMBERS: Final = struct.Struct("<II")  # of a frame, behind its mark: payload length, checksum
SALT_BYTES: Final = 16
MARK_BYTES: Final = 8  # of the salt, at the beginning of each frame
NO_SALT: Final = bytes(SALT_BYTES)
UNSALTED_MARK: Final = b"TURN"
NAME: Final = re.compile(r"log-(\d{10})\.braid")


class Ending(NamedTuple):
    """What a file was when it was finished."""

    salt: bytes
    size_bytes: int


NO_ENDING: Final = Ending(NO_SALT, 0)


class Header(NamedTuple):
    number: int
    oldest: int
    salt: bytes  # NO_SALT in files of earlier versions
    previous: Ending | None  # None: an earlier version didn't say


def path_of(directory: Path, number: int) -> Path:
    return directory / f"log-{number:010}.braid"


def numbers_in(directory: Path) -> list[int]:
    """The numbers of the logs that are there, in order."""
    found = (NAME.fullmatch(path.name) for path in directory.iterdir())
    return sorted(int(match[1]) for match in found if match)


def header(number: int, oldest: int, salt: bytes, previous: Ending) -> bytes:
    return sealed(HEADER.pack(MAGIC, VERSION, number, oldest, salt, *previous, 0))


def sealed(packed: bytes) -> bytes:
    """The same with a CRC in its last four bytes."""
    return packed[:-4] + zlib.crc32(packed[:-4]).to_bytes(4, "little")


def version_in(data: bytes, path: Path) -> int | None:
    """The format of a file that begins with `data`, or None if it ends before it says so."""
    if len(data) < BEGINNING.size:
        return None
    magic, version = BEGINNING.unpack_from(data)
    if magic != MAGIC:
        raise StoreError(f"{path}: isn't a log of BraidMQ; move it out of the data directory")
    if version != VERSION and version not in EARLIER_VERSIONS:
        raise StoreError(
            f"{path}: has format {version}, this version of BraidMQ reads up to {VERSION}; "
            "start the version that wrote it"
        )
    return int(version)


def read_header(data: bytes, path: Path) -> Header | None:
    """The header that a file begins with, or None if the file ends within it."""
    version = version_in(data, path)
    layout = UNSALTED_HEADER if version in UNSALTED_VERSIONS else HEADER
    if version is None or len(data) < layout.size:
        return None
    packed = data[: layout.size]
    if sealed(packed) != packed:
        raise damaged(path, 0)
    _, _, number, oldest, *rest = layout.unpack(packed)
    if version in UNSALTED_VERSIONS:
        return Header(number, oldest, NO_SALT, None)
    salt, previous_salt, previous_bytes, _ = rest
    return Header(number, oldest, salt, Ending(previous_salt, previous_bytes))


class Framing:
    """How the frames of a file look that has this salt."""

    def __init__(self, salt: bytes) -> None:
        is_salted = salt != NO_SALT
        self.mark = salt[:MARK_BYTES] if is_salted else UNSALTED_MARK
        self.head_bytes = len(self.mark) + NUMBERS.size
        self._seed = zlib.crc32(salt) if is_salted else 0

    def head(self, payload: bytes) -> bytes:
        """What stands before the payload in its frame."""
        length = len(payload).to_bytes(4, "little")
        checksum = zlib.crc32(payload, zlib.crc32(length, self._seed))
        return self.mark + length + checksum.to_bytes(4, "little")

    def length_in(self, head: memoryview) -> int | None:
        """How long the payload behind this head is, or None if it isn't one."""
        if len(head) < self.head_bytes or head[: len(self.mark)] != self.mark:
            return None
        length: int = NUMBERS.unpack_from(head, len(self.mark))[0]
        return length

    def is_sound(self, head: memoryview, payload: memoryview) -> bool:
        length: int
        checksum: int
        length, checksum = NUMBERS.unpack_from(head, len(self.mark))
        begins = zlib.crc32(head[len(self.mark) : len(self.mark) + 4], self._seed)
        return len(payload) == length and zlib.crc32(payload, begins) == checksum

    def payload_in(self, frame: memoryview) -> memoryview | None:
        """The payload of a frame, or None if that is not sound."""
        if self.length_in(frame) is None:
            return None
        payload = frame[self.head_bytes :]
        return payload if self.is_sound(frame, payload) else None


UNSALTED: Final = Framing(NO_SALT)


def damaged(path: Path, offset: int) -> StoreError:
    return StoreError(
        f"{path}: damaged at byte {offset}. Restore the data directory from a copy, or start once with "
        "--salvage to keep what can be read (the file is kept as .damaged)"
    )
