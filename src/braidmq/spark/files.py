"""The few things that a write-ahead log needs of a file system, for local disks and for pyarrow's file
systems.

`write` is all or nothing and, unless told otherwise, durable when it returns. On a local disk: a file of
another name, fsync, rename, fsync of the folder. On others: a file that is closed, which is what object
stores and HDFS make durable, then moved where there is a cheap move.

A claim makes one process the only writer of a folder. Locally that is a lock, which the kernel frees with
the process. Elsewhere it is a token that the newest claimant writes and every writer looks at before it
writes; between looking and writing there is a gap, which the broker closes: it gives a session to one
connection only.
"""

import fcntl
import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyarrow import fs

from braidmq.errors import BraidError

LOCK_NAME = "LOCK"
LOCK_POLL_S = 0.05
UNFINISHED = ".unfinished"


class ClaimError(BraidError):
    """Another process writes where only one may."""


class Claim(Protocol):
    def check(self) -> None:
        """Raises ClaimError if the claim is lost."""

    def release(self) -> None: ...


class Files(Protocol):
    """Paths are relative to the root of the log, with slashes."""

    listing_pause_s: float  # between two listings, at least

    def names(self, folder: str) -> list[str]: ...

    def folders(self) -> list[str]: ...

    def make_folder(self, folder: str) -> None: ...

    def write(self, path: str, fill: Callable[[Any], None], *, durable: bool = True) -> None: ...

    def read(self, path: str) -> Any:
        """A pyarrow file, open for reading; FileNotFoundError if there is none."""

    def delete(self, path: str) -> None:
        """Gone afterwards, whether or not it was there."""

    def claim(self, folder: str, patience_s: float | None) -> Claim: ...


def open_files(location: str) -> Files:
    """A plain path or file:// is a local disk; any other URI is for pyarrow to know."""
    parts = urlsplit(location)
    if "://" not in location or parts.scheme == "file":
        return LocalFiles(Path(unquote(parts.path) if parts.scheme == "file" else location))
    filesystem, path = fs.FileSystem.from_uri(location)
    return RemoteFiles(filesystem, path)


class LocalFiles:
    listing_pause_s = 0.02

    def __init__(self, root: Path) -> None:
        self._root = root

    def names(self, folder: str) -> list[str]:
        try:
            return os.listdir(self._root / folder)  # noqa: PTH208 - names, not a path object each
        except FileNotFoundError:
            return []

    def folders(self) -> list[str]:
        if not self._root.is_dir():
            return []
        return sorted(entry.name for entry in os.scandir(self._root) if entry.is_dir())

    def make_folder(self, folder: str) -> None:
        path = self._root / folder
        path.mkdir(parents=True, exist_ok=True)
        _sync_folder(path.parent)

    def write(self, path: str, fill: Callable[[Any], None], *, durable: bool = True) -> None:
        target = self._root / path
        unfinished = target.with_name(target.name + UNFINISHED)
        with unfinished.open("wb", buffering=0) as file:
            fill(file)
            if durable:
                os.fsync(file.fileno())
        unfinished.rename(target)
        if durable:
            _sync_folder(target.parent)

    def read(self, path: str) -> Any:
        return pa.memory_map(str(self._root / path))

    def delete(self, path: str) -> None:
        (self._root / path).unlink(missing_ok=True)

    def claim(self, folder: str, patience_s: float | None) -> "LocalClaim":
        self.make_folder(folder)
        path = self._root / folder / LOCK_NAME
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        deadline = None if patience_s is None else time.monotonic() + patience_s
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if deadline is not None and time.monotonic() > deadline:
                    os.close(lock)
                    raise ClaimError(f"{path.parent} is being written by another process") from None
                time.sleep(LOCK_POLL_S)
            else:
                return LocalClaim(lock)


def _sync_folder(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


class LocalClaim:
    def __init__(self, lock: int) -> None:
        self._lock = lock

    def check(self) -> None:
        """The kernel keeps the lock as long as we live."""

    def release(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


class RemoteFiles:
    listing_pause_s = 0.5

    def __init__(self, filesystem: Any, root: str) -> None:
        self._filesystem = filesystem
        self._root = root.rstrip("/")

    def _path(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root

    def _entries(self, folder: str) -> list[Any]:
        selector = fs.FileSelector(self._path(folder), allow_not_found=True)
        return list(self._filesystem.get_file_info(selector))

    def names(self, folder: str) -> list[str]:
        return [info.base_name for info in self._entries(folder) if info.type == fs.FileType.File]

    def folders(self) -> list[str]:
        return sorted(info.base_name for info in self._entries("") if info.type == fs.FileType.Directory)

    def make_folder(self, folder: str) -> None:
        self._filesystem.create_dir(self._path(folder), recursive=True)

    def write(self, path: str, fill: Callable[[Any], None], *, durable: bool = True) -> None:
        target = self._path(path)
        with self._filesystem.open_output_stream(target + UNFINISHED) as file:
            fill(file)
        self._filesystem.move(target + UNFINISHED, target)

    def read(self, path: str) -> Any:
        return self._filesystem.open_input_file(self._path(path))

    def delete(self, path: str) -> None:
        try:
            self._filesystem.delete_file(self._path(path))
        except FileNotFoundError:
            return

    def claim(self, folder: str, patience_s: float | None) -> "RemoteClaim":
        self.make_folder(folder)
        path = f"{folder}/{LOCK_NAME}" if folder else LOCK_NAME
        token = secrets.token_hex(16).encode()
        self.write(path, lambda file: file.write(token))
        return RemoteClaim(self, path, token)


class RemoteClaim:
    def __init__(self, files: RemoteFiles, path: str, token: bytes) -> None:
        self._files = files
        self._path = path
        self._token = token

    def check(self) -> None:
        with self._files.read(self._path) as file:
            if file.read() != self._token:
                raise ClaimError(f"{self._path} names another writer: it has taken over")

    def release(self) -> None:
        """The next claimant writes over it."""
