"""What this broker wants: the owner's side of its interest filter.

Subscriptions come and go one by one and are told to the peers in batches: flush() turns all that happened
since the last one into one message, a delta or (when that is shorter, or the size has changed) a snapshot.
The caller flushes before it acknowledges a subscription, or within a bound that it states: a late delta means
messages that peers don't forward yet.

Invariant: the filter's bits are those of a filter rebuilt from the live subscriptions, as of the last flush.
Cost: a few microseconds a subscription. Growing and shrinking don't stop anything: the new filter is counted
aside in steps of `advance`, changes that come meanwhile are caught up at the end, and the new size goes out
as a snapshot of a new epoch. One pass over the key table at the start isn't split (about 1 ms for 300,000
keys).

Bits that are set by accident stay set: one unlucky pattern under a path that every topic visits would make
the filter match everything for as long as it lives. So the owner tests the ends that a search may meet below
every path it holds (`#`, the path's own end, `+`), and sends the false ones by name. What can't be tested is
a topic's own last level; that, and little else, is where wrong answers come from.
"""

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field

from braidmq.topics.bloom.counted import CountedFilter
from braidmq.topics.bloom.hashing import path_key
from braidmq.topics.bloom.keycounts import KeyCounts
from braidmq.topics.bloom.messages import (
    BLOCKS_MAX,
    KNOWN_FALSE_MAX,
    Delta,
    DepthMasks,
    encode_delta,
    encode_snapshot,
    masks_of,
    set_masks,
)
from braidmq.topics.bloom.prefix import PrefixFilter
from braidmq.topics.bloom.sizing import blocks_for, keys_capacity

# A filter has between these and twice as many bits a key.
BITS_PER_KEY = 18
HASHES = 10
# Keys that one flush moves to a filter of a new size.
REBUILD_KEYS_PER_FLUSH = 4096
_SEQUENCE_MAX = 0xFFFF_FFFF


@dataclass(slots=True)
class NetChange:
    """Keys that appeared and vanished, without those that did both."""

    added: set[int] = field(default_factory=set)
    removed: set[int] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.added or self.removed)

    def appear(self, keys: Iterable[int]) -> None:
        for key in keys:
            if key in self.removed:
                self.removed.discard(key)
            else:
                self.added.add(key)

    def vanish(self, keys: Iterable[int]) -> None:
        for key in keys:
            if key in self.added:
                self.added.discard(key)
            else:
                self.removed.add(key)


@dataclass(slots=True)
class Rebuild:
    """A filter of another size, on its way to replace the present one."""

    target: CountedFilter
    counts: KeyCounts
    keys: "array[int]"
    done: int = 0
    """Keys that were counted, and after the last of them, on top of that, keys that were checked."""
    meanwhile: NetChange = field(default_factory=NetChange)
    known_false: set[int] = field(default_factory=set)

    def advance(self, keys_max: int) -> bool:
        """Count or check some keys; True once the target holds what the owner holds."""
        checked = self.done - len(self.keys)
        if checked < 0:
            step = self.keys[self.done:self.done + keys_max]
            self.target.apply(step, (), report=False)
        else:
            step = self.keys[checked:checked + keys_max]
            self.known_false.update(self.target.false_ends(self.counts, self.counts.paths(step)))
        self.done += len(step)
        if self.done < 2 * len(self.keys):
            return False
        self.target.apply(self.meanwhile.added, self.meanwhile.removed, report=False)
        return True


class LocalInterest:
    """The counted filter of one broker and the stream of messages about it."""

    def __init__(
        self,
        *,
        seed: int,
        epoch: int = 1,
        expected_keys: int = 0,
        bits_per_key: float = BITS_PER_KEY,
        hashes: int = HASHES,
    ) -> None:
        self._counts = KeyCounts(seed)
        self._bits_per_key = bits_per_key
        self._blocks_min = blocks_for(expected_keys, bits_per_key)
        self._counted = CountedFilter(self._blocks_min, hashes, seed)
        self._pending = NetChange()
        self._known_false: set[int] = set()
        self._rebuild: Rebuild | None = None
        self._epoch = epoch
        self._sequence = 0
        self._snapshot_due = True

    @property
    def filter(self) -> PrefixFilter:
        """The filter as of the last flush. It is replaced when the size changes: don't keep it."""
        return self._counted.filter

    @property
    def position(self) -> tuple[int, int]:
        """(epoch, sequence) of the last message; peers compare it with theirs."""
        return self._epoch, self._sequence

    @property
    def keys(self) -> int:
        return len(self._counts)

    @property
    def filters(self) -> int:
        """Subscriptions held, each as often as it was added."""
        return self._counts.filters

    @property
    def dirty(self) -> bool:
        """Whether flush() would have something to say."""
        return bool(self._pending) or self._snapshot_due

    @property
    def resizing(self) -> bool:
        return self._rebuild is not None

    def subscribe(self, filter: bytes) -> None:
        self._pending.appear(self._counts.add(filter))

    def unsubscribe(self, filter: bytes) -> None:
        """KeyError if the filter isn't held; nothing has changed then."""
        self._pending.vanish(self._counts.discard(filter))

    def flush(self) -> bytes | None:
        """All changes since the last flush as one message for every peer; None if there are none."""
        delta = self.settle()
        self.advance(REBUILD_KEYS_PER_FLUSH)
        if self._snapshot_due:
            self._snapshot_due = False
            return self.snapshot()
        return None if delta is None else encode_delta(delta, self.filter.blocks)

    def settle(self) -> Delta | None:
        """Bring the filter up to date and say what has changed; None if nothing has or a snapshot is due."""
        if not self._pending:
            return None
        change, self._pending = self._pending, NetChange()
        self._step_sequence()
        if self._rebuild is not None:
            self._rebuild.meanwhile.appear(change.added)
            self._rebuild.meanwhile.vanish(change.removed)
        if self.keys > 2 * self._capacity and self.filter.blocks < BLOCKS_MAX:
            # A filter that full says "maybe" to nearly everything: better to pause than to flood.
            self._rebuild_now()
            return None
        delta = self._apply(change)
        self._resize_if_due()
        return None if self._snapshot_due else delta

    def snapshot(self) -> bytes:
        """The state as of the last flush, for a peer that joins or has lost a message."""
        return encode_snapshot(self._epoch, self._sequence, self.filter)

    def advance(self, keys_max: int) -> bool:
        """Go on with a change of size, for idle moments; False if there is nothing to do."""
        if self._rebuild is None:
            return False
        if self._rebuild.advance(keys_max):
            self._adopt(self._rebuild)
        return self._rebuild is not None

    def check(self) -> None:
        """Assert the invariant by building the filter anew, for tests and post-mortems."""
        assert not self._pending, "flush first"
        fresh = PrefixFilter(self.filter.blocks, self.filter.hashes, self.filter.seed)
        fresh.add_keys(self._counts.keys())
        assert fresh.bits == self.filter.bits, "bits differ from a rebuild"
        assert masks_of(self.filter) == self._masks(), "depth masks differ"
        assert not any(map(self._counts.has_key, self.filter.known_false)), "a known-false key is true"

    def _apply(self, change: NetChange) -> Delta:
        # Ten positions of two bytes and more a key: beyond this the snapshot is shorter.
        report = (len(change.added) + len(change.removed)) * 16 < self.filter.nbytes
        self._snapshot_due |= not report
        raised, cleared = self._counted.apply(change.added, change.removed, report=report)
        masks = self._update_masks()
        false_added, false_removed = self._update_known_false(change)
        added = sorted(change.added) if report else []
        return Delta(*self.position, added, raised, cleared, masks, false_added, false_removed)

    def _step_sequence(self) -> None:
        self._sequence += 1
        if self._sequence > _SEQUENCE_MAX:
            self._start_epoch()

    def _start_epoch(self) -> None:
        self._epoch += 1
        self._sequence = 0
        self._snapshot_due = True

    def _masks(self) -> DepthMasks:
        return DepthMasks(self._counts.plus_depths, self._counts.hash_depths, self._counts.end_depths)

    def _update_masks(self) -> DepthMasks | None:
        masks = self._masks()
        if masks == masks_of(self.filter):
            return None
        set_masks(self.filter, masks)
        return masks

    def _update_known_false(self, change: NetChange) -> tuple[list[int], list[int]]:
        """Keep the list true, and test what the changes bring; what was added to it and what removed."""
        removed = self._known_false & change.added
        paths = self._wildcard_paths() + self._counts.paths(change.added)
        found = set(self._counted.false_ends(self._counts, paths))
        found.update(filter(self.filter.has_key, change.removed))
        found -= self._known_false
        if not found and not removed:
            return [], []
        if len(self._known_false) + len(found) > KNOWN_FALSE_MAX:
            removed |= {key for key in self._known_false if not self.filter.has_key(key)}
        self._known_false -= removed
        added = sorted(found)[: KNOWN_FALSE_MAX - len(self._known_false)]
        self._known_false.update(added)
        self.filter.known_false = list(self._known_false)
        return added, sorted(removed)

    def _wildcard_paths(self) -> list[int]:
        """The root, `+`, `+/+` and so on: paths that every topic visits, even if by accident."""
        masks = self._masks()
        depth_max = (masks.plus | masks.hash | masks.end).bit_length()
        return [path_key([b"+"] * depth, self._counts.seed) for depth in range(depth_max + 1)]

    @property
    def _capacity(self) -> int:
        """Keys that fit before the filter is too full."""
        return keys_capacity(self.filter.blocks, self._bits_per_key)

    def _resize_if_due(self) -> None:
        wanted = self._wanted_blocks()
        if self._rebuild is None and wanted != self.filter.blocks:
            self._rebuild = self._start_rebuild(wanted)

    def _rebuild_now(self) -> None:
        self._rebuild = self._start_rebuild(self._wanted_blocks())
        while self.advance(self.keys):
            pass

    def _start_rebuild(self, blocks: int) -> Rebuild:
        target = CountedFilter(blocks, self.filter.hashes, self.filter.seed)
        return Rebuild(target, self._counts, self._counts.keys())

    def _wanted_blocks(self) -> int:
        """Twice the size when full, half when three quarters are empty; more after a large batch."""
        fitting = blocks_for(self.keys, self._bits_per_key)
        if self.keys > self._capacity:
            return min(fitting, BLOCKS_MAX)
        if self.keys < self._capacity // 4:
            return max(min(2 * fitting, self.filter.blocks), self._blocks_min)
        return self.filter.blocks

    def _adopt(self, rebuild: Rebuild) -> None:
        self._known_false = set(sorted(rebuild.known_false)[:KNOWN_FALSE_MAX])
        self._rebuild = None
        self._counted = rebuild.target
        self._start_epoch()
        self._update_masks()
        self._update_known_false(rebuild.meanwhile)
        self.filter.known_false = list(self._known_false)
