"""What survives: the store that the broker tells what to remember."""

from collections.abc import Callable
from typing import Protocol

from braidmq.store.records import Record


class Store(Protocol):
    """Where the broker's changes are kept."""

    immediate: bool
    """Nothing has to wait: what the process holds in memory is all that is promised. No records are made."""

    @property
    def is_failing(self) -> bool:
        """Nothing can be kept at present: whatever would have to be kept is to be refused."""

    def commit(self, records: list[Record], kept: Callable[[], None]) -> None:
        """Keep the records of one turn, all or none; when they are, call `kept` on the broker's thread.

        Turns are kept in the order in which they were committed.
        """

    def close(self) -> None: ...


class MemoryStore:
    """Keeps nothing beyond the process: the broker's own objects are the store."""

    immediate = True
    is_failing = False

    def commit(self, records: list[Record], kept: Callable[[], None]) -> None:
        kept()

    def close(self) -> None:
        pass
