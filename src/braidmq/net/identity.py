"""Who a node is to the others, and whom it remembers: `node.json` and `members.json` in the data directory.

`node.json` has the node's id and the number of its starts, which is written down before it is used: no two
starts have the same. A node that keeps everything in memory is a new one at each start.
"""

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from braidmq.errors import StoreError

NODE_NAME: Final = "node.json"
MEMBERS_NAME: Final = "members.json"
ID_DIGITS: Final = 16
BOOTS_MAX: Final = 2**24 - 1  # what fits above the sequence numbers of a start

T = TypeVar("T")


class NodeId(NamedTuple):
    """An id among nodes, and which start of it this is."""

    node: int
    boot: int


class _Written(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    node: str  # as 16 hexadecimal digits: not every reader of JSON can take a number of 64 bits
    boot: int


def start_as(directory: Path | None) -> NodeId:
    """Who this node is from now on; in a directory it is who it was, started once more."""
    if directory is None:
        return NodeId(_new_id(), 1)
    path = directory / NODE_NAME
    found = _read_node(path) if path.exists() else NodeId(_new_id(), 0)
    if found.boot >= BOOTS_MAX:
        raise StoreError(f"{path}: started {BOOTS_MAX} times; remove it to start as a new node")
    started = NodeId(found.node, found.boot + 1)
    replace_file(path, msgspec.json.encode(_Written(f"{started.node:016x}", started.boot)))
    return started


def _new_id() -> int:
    return secrets.randbits(64) or 1


def _read_node(path: Path) -> NodeId:
    try:
        written = msgspec.json.decode(path.read_bytes(), type=_Written)
        if len(written.node) != ID_DIGITS or written.boot < 1:
            raise ValueError("no id of a node")
        return NodeId(int(written.node, 16), written.boot)
    except (OSError, ValueError, msgspec.DecodeError) as error:
        raise StoreError(
            f"{path}: can't be read ({error}); restore it, or remove it to be a new node to the others"
        ) from error


class Memory(Generic[T]):
    """The other nodes, as they are remembered; `kind` is the type of what is kept.

    Writing is done aside: only the latest is written, and it may be late.
    """

    def __init__(
        self, directory: Path | None, kind: Any, run_aside: Callable[[Callable[[], None]], Any]
    ) -> None:
        self._path = directory / MEMBERS_NAME if directory is not None else None
        self._kind = kind
        self._run_aside = run_aside
        self._latest: bytes | None = None  # not yet written
        self._changing = Lock()  # of `_latest`, which the thread that writes takes
        self._writing = Lock()  # one at a time, though more may come while a file is written

    def load(self, nobody: T) -> T:
        """Whom the last start remembered."""
        if self._path is None or not self._path.exists():
            return nobody
        try:
            found: T = msgspec.json.decode(self._path.read_bytes(), type=self._kind)
        except (OSError, msgspec.DecodeError) as error:
            raise StoreError(
                f"{self._path}: can't be read ({error}); restore it, or remove it and join the others again"
            ) from error
        return found

    def remember(self, members: T) -> None:
        if self._path is None:
            return
        with self._changing:
            is_under_way = self._latest is not None
            self._latest = msgspec.json.encode(members)
        if not is_under_way:
            self._run_aside(self.write)

    def write(self) -> None:
        """Write what is to be remembered, if it isn't written yet."""
        with self._writing:
            with self._changing:
                latest, self._latest = self._latest, None
            if latest is not None and self._path is not None:
                replace_file(self._path, latest)


def replace_file(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Put a file in the place of another: after a crash there is the one or the other, whole."""
    beside = path.with_suffix(".new")
    try:
        with open(beside, "wb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except OSError as error:
        raise StoreError(f"{path}: can't be written: {error.strerror}") from error
