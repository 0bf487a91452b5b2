"""The files of the store: numbered logs of turns, each with its length and checksum.

A file is a header and then frames: a marker, the payload's length, a CRC-32 over length and payload, the
payload. A frame is there wholly or not at all, so a turn is too. Only the end
of the newest file can be torn by a crash, because a file is never written again once there is a newer one;
anything else that can't be read is damage. Nothing that was acknowledged can be in a torn end: it had not
been written.

Rejected: SQLite and LMDB, which cost several times as much a message (docs/decisions/store-engine.md).
"""

import re
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from braidmq.errors import StoreError

MAGIC: Final = b"BRAIDLOG"
VERSION: Final = 2
READABLE: Final = (1, 2)  # 2 has more kinds of records
HEADER: Final = struct.Struct("<8sIQQI")  # magic, version, number, oldest file needed with it, CRC of these
FRAME: Final = struct.Struct("<4sII")  # marker, payload length, CRC of length and payload
MARKER: Final = b"TURN"
NAME: Final = re.compile(r"log-(\d{10})\.braid")


class Header(NamedTuple):
    number: int
    oldest: int


def path_of(directory: Path, number: int) -> Path:
    return directory / f"log-{number:010}.braid"


def numbers_in(directory: Path) -> list[int]:
    """The numbers of the logs that are there, in order."""
    found = (NAME.fullmatch(path.name) for path in directory.iterdir())
    return sorted(int(match[1]) for match in found if match)


def header(number: int, oldest: int) -> bytes:
    plain = HEADER.pack(MAGIC, VERSION, number, oldest, 0)[:-4]
    return plain + struct.pack("<I", zlib.crc32(plain))


def read_header(data: memoryview, path: Path) -> Header | None:
    """The header, or None if the file ends within it."""
    if len(data) < HEADER.size:
        return None
    magic, version, number, oldest, checksum = HEADER.unpack_from(data)
    if magic != MAGIC:
        raise StoreError(f"{path}: isn't a log of BraidMQ; move it out of the data directory")
    if version not in READABLE:
        raise StoreError(
            f"{path}: has format {version}, this version of BraidMQ reads up to {VERSION}; "
            "start the version that wrote it"
        )
    if checksum != zlib.crc32(data[: HEADER.size - 4]):
        raise damaged(path, 0)
    return Header(number, oldest)


def frame_head(payload: bytes) -> bytes:
    """What stands before the payload in its frame."""
    length = len(payload).to_bytes(4, "little")
    return MARKER + length + zlib.crc32(payload, zlib.crc32(length)).to_bytes(4, "little")


def frame_at(data: memoryview, offset: int) -> memoryview | None:
    """The payload of the frame that begins at `offset`, or None if there is no sound one."""
    if len(data) - offset < FRAME.size:
        return None
    marker, length, checksum = FRAME.unpack_from(data, offset)
    begin = offset + FRAME.size
    if marker != MARKER or length > len(data) - begin:
        return None
    payload = data[begin : begin + length]
    return payload if zlib.crc32(payload, zlib.crc32(data[offset + 4 : offset + 8])) == checksum else None


def payloads(data: memoryview, offset: int) -> Iterator[tuple[int, memoryview]]:
    """The payloads from `offset` to the first frame that isn't sound, each with its end's offset."""
    while (payload := frame_at(data, offset)) is not None:
        offset += FRAME.size + len(payload)
        yield offset, payload


def next_frame(data: memoryview, offset: int) -> int | None:
    """Where the next sound frame begins, at `offset` or behind it."""
    raw = data.obj
    assert isinstance(raw, bytes)
    while (offset := raw.find(MARKER, offset)) >= 0:
        if frame_at(data, offset) is not None:
            return offset
        offset += 1
    return None


def damaged(path: Path, offset: int) -> StoreError:
    return StoreError(
        f"{path}: damaged at byte {offset}. Restore the data directory from a copy, or start once with "
        "--salvage to keep what can be read (the file is kept as .damaged)"
    )
