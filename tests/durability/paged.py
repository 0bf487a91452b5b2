"""A store for a broker core in one thread: turns are kept at once, as bytes, and deliveries are paged out."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from braidmq.broker.broker import Broker
from braidmq.store import MemoryStore
from braidmq.store.decoding import Decoder
from braidmq.store.encoding import Encoder
from braidmq.store.pages import PageFiles
from braidmq.store.records import GROUP_PAGED, GROUP_QUEUED, PAGED, QUEUED, Record
from braidmq.store.state import State

WALL_OFFSET_S = 1_700_000_000.0


class PagingStore(MemoryStore):
    """`read` lets happen what would happen on the store's thread and come back from it."""

    def __init__(self, directory: Path, *, memory_bytes_max: int = 0, file_bytes: int = 300) -> None:
        self.journal = Encoder(WALL_OFFSET_S)  # type: ignore[assignment]
        self.turns: list[bytes] = []
        self.told: list[str] = []
        self.directory = directory
        self._posted: list[Callable[[], None]] = []
        self.pages = PageFiles(  # type: ignore[assignment]
            directory,
            partial(Decoder, WALL_OFFSET_S),
            Encoder(WALL_OFFSET_S),
            memory_bytes_max=memory_bytes_max,
            run=lambda action: action(),
            post=self._posted.append,
            syncs=False,
            tell=self.told.append,
            file_bytes=file_bytes,
        )

    def commit(self, turn: bytes, kept: Callable[[], None]) -> None:
        self.pages.flush()  # type: ignore[attr-defined]
        self.turns.append(turn)
        self.pages.end_turn()  # type: ignore[attr-defined]
        kept()

    def read(self) -> bool:
        """Whether anything was there to be read."""
        posted, self._posted[:] = self._posted[:], []
        for report in posted:
            report()
        return bool(posted)

    def state(self) -> State:
        """What a restart would find."""
        decoder = Decoder(WALL_OFFSET_S)
        state = State()
        for turn in self.turns:
            state.apply(decoder.decode(turn))
        return state


def settle(broker: Broker, store: PagingStore) -> None:
    """Read pages until nobody wants any more of them."""
    while store.read():
        broker.hub.end_turn()


def unfolded(store: PagingStore, part: list[Record]) -> list[Record]:
    """The records with those of each page in the place of the page."""
    found: list[Record] = []
    for record in part:
        if record[0] == PAGED:
            found += page_of(store, *record[5:8])
        elif record[0] == GROUP_PAGED:
            found += [kept for kept in page_of(store, *record[6:9]) if kept[4].qos]
        else:
            found.append(record)
    return found


def page_of(store: PagingStore, file: int, offset: int, size: int) -> list[Record]:
    got: list[list[Record] | None] = []
    store.pages.fetch(file, offset, size, got.append)  # type: ignore[attr-defined]
    store._posted.pop()()
    assert got[0] is not None
    assert all(record[0] in (QUEUED, GROUP_QUEUED) for record in got[0])
    return got[0]
