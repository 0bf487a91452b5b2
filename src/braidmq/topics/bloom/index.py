"""Which peers may want a topic: the filters of all of them in one index, kept up to date by their messages.

A peer is in one of three states. Unknown (it has just joined, or a message was lost): every topic goes to it.
Staged (its snapshot came): its filter is searched by itself, exactly as it is. Loaded: its filter is a column
of the rows, and one search answers for all such peers. Loading goes in steps, so that a large snapshot stops
nothing; changes that come meanwhile go to the staged filter and to the rows.

The hot path can go past Python: SlicedFilter.search in sliced.pxd fills a bit mask of slots; `labels[slot]`
is the peer.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field

from braidmq.topics.bloom.local import HASHES
from braidmq.topics.bloom.messages import (
    Delta,
    DepthMasks,
    Envelope,
    InterestError,
    Kind,
    apply_delta,
    masks_of,
    open_message,
    read_delta,
    read_snapshot,
    set_masks,
)
from braidmq.topics.bloom.prefix import PrefixFilter
from braidmq.topics.bloom.sizing import BLOCK_BITS, BLOCK_BYTES
from braidmq.topics.bloom.sliced import SlicedFilter
from braidmq.topics.bloom.stream import Outcome, StreamPosition

# A column of 64 KiB at a time: a few milliseconds.
LOAD_BYTES_MAX = 65_536
# A filter for which the rows would take more stays staged: right, but searched by itself. With up to 64 peers
# this holds filters of a million subscriptions.
ROWS_BYTES_MAX = 512 << 20
_WORD_BYTES = 8
NO_DEPTHS = DepthMasks(0, 0, 0)


@dataclass(slots=True)
class Column:
    """What is known about one peer."""

    slot: int
    stream: StreamPosition = field(default_factory=StreamPosition)
    blocks: int = 0
    masks: DepthMasks = NO_DEPTHS
    known_false: list[int] = field(default_factory=list)
    staged: PrefixFilter | None = None
    rows_written: int = 0
    """Blocks of rows that hold the staged filter already."""


class InterestIndex(SlicedFilter):
    """The interest of many peers; `interested(topic)` gives those that may want a topic."""

    def __init__(self, *, seed: int, hashes: int = HASHES, rows_bytes_max: int = ROWS_BYTES_MAX) -> None:
        super().__init__(hashes, seed)
        self._columns: dict[Hashable, Column] = {}
        self._rows_bytes_max = rows_bytes_max

    def __len__(self) -> int:
        return len(self._columns)

    @property
    def memory_bytes(self) -> int:
        """Of the rows, and of the filters that are searched by themselves."""
        staged = (column.staged for column in self._columns.values())
        return self.nbytes + sum([filter.nbytes for filter in staged if filter is not None])

    def join(self, peer: Hashable) -> None:
        """A peer is there, its interest isn't known yet: every topic goes to it."""
        if peer is None:
            raise ValueError("None can't be a peer's name")
        if peer not in self._columns:
            if None not in self.labels:
                self._fit_rows(2 * self.width)
            self._columns[peer] = Column(self.occupy(peer))
            self._refresh_known_false()

    def drop(self, peer: Hashable) -> None:
        """The peer has left; nothing goes to it any more."""
        column = self._columns.pop(peer)
        self.release(column.slot)
        self._refresh_known_false()
        if self._largest_loaded() * 4 <= self.blocks:
            self._resize_rows(self._largest_loaded())

    def receive(self, peer: Hashable, message: bytes) -> Outcome:
        """Take a peer's snapshot or delta. InterestError if it is damaged: that, too, takes a snapshot."""
        self.join(peer)
        column = self._columns[peer]
        try:
            envelope = open_message(message)
            read = self._receive_snapshot if envelope.kind is Kind.SNAPSHOT else self._receive_delta
            return read(column, envelope)
        except InterestError:
            column.stream.damaged()
            raise
        finally:
            self.set_unknown(column.slot, not column.stream.in_step)

    def compare(self, peer: Hashable, position: tuple[int, int]) -> Outcome:
        """Hold a peer's position against ours: SNAPSHOT_NEEDED if its last message never came."""
        column = self._columns[peer]
        outcome = column.stream.judge_position(position)
        self.set_unknown(column.slot, not column.stream.in_step)
        return outcome

    def in_step(self, peer: Hashable) -> bool:
        return self._columns[peer].stream.in_step

    def advance(self, bytes_max: int = LOAD_BYTES_MAX) -> bool:
        """Go on loading a staged filter; False if there is none that can be loaded."""
        for column in self._columns.values():
            if column.staged is not None and self._fits(column.blocks, self.width):
                self._load(column, column.staged, max(1, bytes_max // BLOCK_BYTES))
                return True
        return False

    def bound_rows(self, bytes_max: int) -> None:
        """Let the rows take so much: what no longer fits is staged, what now fits `advance` will load."""
        self._rows_bytes_max = bytes_max
        self._fit_rows(self.width)
        self._refresh_known_false()

    def bits(self, peer: Hashable) -> bytes:
        """The bits held for a peer, wherever they are."""
        column = self._columns[peer]
        return self.read_column(column.slot, column.blocks) if column.staged is None else column.staged.bits

    def _receive_snapshot(self, column: Column, envelope: Envelope) -> Outcome:
        filter = read_snapshot(envelope).filter
        position = envelope.epoch, envelope.sequence
        if filter.seed != self.seed or filter.hashes != self.hashes:
            raise InterestError("the peer's filter has another seed or number of hashes than this index")
        outcome = column.stream.judge_snapshot(position)
        if outcome is Outcome.APPLIED:
            self.stage(column.slot, filter)
            column.staged, column.blocks, column.rows_written = filter, filter.blocks, 0
            column.stream.moved_to(position, by_snapshot=True)
            if self._fits(column.blocks, self.width):
                self._load(column, filter, LOAD_BYTES_MAX // BLOCK_BYTES)
        return outcome

    def _receive_delta(self, column: Column, envelope: Envelope) -> Outcome:
        position = envelope.epoch, envelope.sequence
        outcome = column.stream.judge_delta(position)
        if outcome is Outcome.APPLIED:
            self._apply(column, read_delta(envelope, column.blocks))
            column.stream.moved_to(position, by_snapshot=False)
        return outcome

    def _apply(self, column: Column, delta: Delta) -> None:
        if column.staged is not None:
            apply_delta(delta, column.staged)
        elif delta.false_added or delta.false_removed:
            column.known_false = delta.known_false_after(column.known_false)
            self._refresh_known_false()
        if column.staged is None or column.rows_written:
            self.write_keys(column.slot, column.blocks, delta.added_keys)
            self.write_positions(column.slot, column.blocks, delta.set_positions, True)
            self.write_positions(column.slot, column.blocks, delta.cleared_positions, False)
        if column.staged is None and delta.masks is not None:
            self._set_masks(column, delta.masks)

    def _load(self, column: Column, filter: PrefixFilter, blocks_max: int) -> None:
        if filter.blocks > self.blocks:
            self._resize_rows(filter.blocks)
        self.load_rows(column.slot, column.rows_written, blocks_max)
        column.rows_written = min(column.rows_written + blocks_max, self.blocks)
        if column.rows_written == self.blocks:
            self._set_masks(column, masks_of(filter))
            self.finish_load(column.slot)
            column.staged, column.known_false = None, filter.known_false
            self._refresh_known_false()

    def _unload(self, column: Column) -> None:
        """Back from the rows into a filter of its own."""
        filter = PrefixFilter(column.blocks, self.hashes, self.seed)
        filter.bits = self.read_column(column.slot, column.blocks)
        filter.known_false = column.known_false
        set_masks(filter, column.masks)
        self.stage(column.slot, filter)
        column.staged, column.rows_written = filter, 0

    def _fit_rows(self, width: int) -> None:
        """Unload what takes too much in rows of that width, and shorten the rows to what is left."""
        for column in self._columns.values():
            if not self._fits(column.blocks, width):
                column.rows_written = 0
                if column.staged is None and column.blocks:
                    self._unload(column)
        if not self._fits(self.blocks, width):
            self._resize_rows(self._largest_loaded())

    def _fits(self, blocks: int, width: int) -> bool:
        return blocks * BLOCK_BITS * width * _WORD_BYTES <= self._rows_bytes_max

    def _largest_loaded(self) -> int:
        loaded = (column.blocks for column in self._columns.values() if column.staged is None)
        return max(1, max(loaded, default=1))

    def _set_masks(self, column: Column, masks: DepthMasks) -> None:
        column.masks = masks
        self.set_depths(column.slot, masks.plus, masks.hash, masks.end)

    def _resize_rows(self, blocks: int) -> None:
        self.reshape(blocks, self.width)
        for column in self._columns.values():
            column.rows_written = 0

    def _refresh_known_false(self) -> None:
        slots_by_key: dict[int, int] = {}
        for column in self._columns.values():
            if column.staged is None:
                for key in column.known_false:
                    slots_by_key[key] = slots_by_key.get(key, 0) | 1 << column.slot
        self.replace_known_false(slots_by_key)
