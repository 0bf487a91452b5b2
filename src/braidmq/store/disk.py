"""Writing so that it is there: whole, and lasting when it must be."""

import os
from pathlib import Path


def write_all(descriptor: int, data: bytes, offset: int) -> None:
    """Write all of it; a disk that is nearly full may take less at a time."""
    rest = memoryview(data)
    while rest:
        written = os.pwrite(descriptor, rest, offset)
        offset += written
        rest = rest[written:]


def sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_directory(directory: Path) -> None:
    """Make new and removed names in it last."""
    sync_file(directory)
