"""The data directory: made if absent, usable by this user, and used by one broker at a time.

The directory itself is locked, so that removing a file in it lets nobody in. The file `lock` names the
process, and is locked too: earlier versions know no other lock.
"""

import errno
import fcntl
import os
from pathlib import Path

from braidmq.errors import StoreError

LOCK_NAME = "lock"


class DataDirectory:
    """An opened directory; it is ours until `close`, or until the process ends, however it does."""

    def __init__(self, path: Path) -> None:
        self.path = path
        _make(path)
        self._locks = _lock(path)

    def close(self) -> None:
        for descriptor in self._locks:
            os.close(descriptor)


def _make(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise StoreError(f"--data-dir {path}: can't be made: {error.strerror}") from error


def _lock(directory: Path) -> tuple[int, int]:
    """Descriptors of the directory and of its lock file, both locked."""
    path = directory / LOCK_NAME
    try:
        named = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreError(
            f"{path}: can't be written: {error.strerror}; make the data directory writable for this user, or "
            "name another with --data-dir"
        ) from error
    whole = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for descriptor in (whole, named):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(named, 0)
        os.write(named, f"{os.getpid()}\n".encode())
    except OSError as error:
        holder = os.pread(named, 32, 0).decode(errors="replace").strip()
        os.close(whole)
        os.close(named)
        raise _explained(path, holder, error) from error
    return whole, named


def _explained(path: Path, holder: str, error: OSError) -> StoreError:
    if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
        return StoreError(
            f"{path}: another broker (process {holder or 'unknown'}) uses this data directory; "
            "stop it, or name another with --data-dir"
        )
    if error.errno != errno.ENOSPC:
        return StoreError(f"{path}: can't be locked: {error.strerror}")
    return StoreError(f"{path}: can't be written: {error.strerror}; make room on the disk")
