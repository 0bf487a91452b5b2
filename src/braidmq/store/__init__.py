"""What survives: the store that the broker tells what to remember.

A store keeps turns: opaque bytes, in order, each whole or not at all. `MemoryStore` and
`durable.DurableStore` are two; others come from packages, by an entry point of the group `ENTRY_POINTS` that
makes one from its `Surroundings`.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Literal, NamedTuple, Protocol

from braidmq.store.encoding import Encoder
from braidmq.store.records import Record
from braidmq.store.state import State

ENTRY_POINTS: Final = "braidmq.stores"

Durability = Literal["process", "fsync"]


class Surroundings(NamedTuple):
    """What a store is made from."""

    directory: Path
    durability: Durability
    salvage: bool  # go on with what is sound of a damaged directory
    queue_memory_bytes_max: int  # for a store that has pages
    wall_offset_s: float  # the wall clock minus the broker's clock
    post: Callable[[Callable[[], None]], object]  # runs something on the broker's thread, from any thread
    tell: Callable[[str], None]  # a sentence for the operator, from any thread


class Pages(Protocol):
    """Where deliveries wait that would take too much memory. A page is written once and read once."""

    memory_bytes_max: int  # of waiting deliveries in memory; beyond it they are paged out
    encoder: Encoder

    def write(self, payload: bytes) -> tuple[int, int, int]:
        """Where the page will be: file, offset and size. It is there before the turn that says so is kept."""

    def fetch(self, file: int, offset: int, size: int, then: Callable[[list[Record] | None], None]) -> None:
        """Call `then` on the broker's thread, later, with what the page holds; None if it can't be read."""

    def free(self, file: int, size: int) -> None:
        """A page of that file is not needed once the present turn is kept."""

    def is_sparse(self, file: int) -> bool:
        """Little of that file is still needed: pages in it had better be written anew."""


class Store(Protocol):
    """Where the broker's changes are kept."""

    @property
    def journal(self) -> Encoder | None:
        """Where the broker notes what is to be remembered; None if nothing is promised beyond the process."""

    @property
    def pages(self) -> Pages | None:
        """Where deliveries can wait; None: in memory only."""

    @property
    def is_failing(self) -> bool:
        """Nothing can be kept at present: whatever would have to be kept is to be refused."""

    def load(self) -> State:
        """What was kept; called once, before all else."""

    def checkpoint_from(self, living: Callable[[], Iterator[list[Record]]]) -> None:
        """Where all that is to be kept can be had anew, part by part, so that what was kept before can go."""

    def commit(self, turn: bytes, kept: Callable[[], None]) -> None:
        """Keep what the journal had of one turn, all or none; then call `kept` on the broker's thread.

        Turns are kept in the order in which they were committed. An empty one only waits for those before it.
        """

    def close(self) -> None: ...


class MemoryStore:
    """Keeps nothing beyond the process: the broker's own objects are the store."""

    journal = None
    pages = None
    is_failing = False

    def load(self) -> State:
        return State()

    def checkpoint_from(self, living: Callable[[], Iterator[list[Record]]]) -> None:
        pass

    def commit(self, turn: bytes, kept: Callable[[], None]) -> None:
        kept()

    def close(self) -> None:
        pass
