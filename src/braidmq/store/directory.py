"""The data directory: made if absent, usable by this user, and used by one broker at a time."""

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
        self._lock = _lock(path / LOCK_NAME)

    def close(self) -> None:
        os.close(self._lock)


def _make(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise StoreError(f"--data-dir {path}: can't be made: {error.strerror}") from error


def _lock(path: Path) -> int:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreError(
            f"{path}: can't be written: {error.strerror}; make the data directory writable for this user, or "
            "name another with --data-dir"
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
    except OSError as error:
        holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
        os.close(descriptor)
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            raise StoreError(
                f"{path}: another broker (process {holder or 'unknown'}) uses this data directory; "
                "stop it, or name another with --data-dir"
            ) from error
        if error.errno != errno.ENOSPC:
            raise StoreError(f"{path}: can't be locked: {error.strerror}") from error
        raise StoreError(f"{path}: can't be written: {error.strerror}; make room on the disk") from error
    return descriptor
