"""What a publisher was promised: the names of the messages whose acknowledgement it has seen.

One line of JSON for each group of messages, written after their acknowledgements came. A line that a crash
cut short is left out when the file is read, so what is read was acknowledged.
"""

from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from braidmq.demo.plan import Name


class Ledger:
    def __init__(self, path: Path) -> None:
        self._file = path.open("ab")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def acknowledged(self, names: Iterable[Name]) -> None:
        self._file.write(msgspec.json.encode(list(names)) + b"\n")
        self._file.flush()


def read_ledger(path: Path) -> set[Name]:
    names: set[Name] = set()
    for line in path.read_bytes().splitlines():
        try:
            names.update(msgspec.json.decode(line, type=list[Name]))
        except msgspec.DecodeError:
            continue
    return names
