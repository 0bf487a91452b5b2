"""What survives: the store that the broker tells what to remember."""

from collections.abc import Callable
from typing import Protocol

from braidmq.store.encoding import Encoder


class Store(Protocol):
    """Where the broker's changes are kept."""

    @property
    def journal(self) -> Encoder | None:
        """Where the broker notes what is to be remembered; None if nothing is promised beyond the process."""

    @property
    def is_failing(self) -> bool:
        """Nothing can be kept at present: whatever would have to be kept is to be refused."""

    def commit(self, turn: bytes, kept: Callable[[], None]) -> None:
        """Keep what the journal had of one turn, all or none; then call `kept` on the broker's thread.

        Turns are kept in the order in which they were committed. An empty one only waits for those before it.
        """

    def close(self) -> None: ...


class MemoryStore:
    """Keeps nothing beyond the process: the broker's own objects are the store."""

    journal = None
    is_failing = False

    def commit(self, turn: bytes, kept: Callable[[], None]) -> None:
        kept()

    def close(self) -> None:
        pass
