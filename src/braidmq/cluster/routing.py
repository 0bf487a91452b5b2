"""Which peers a message goes to: four modes behind one small interface, `hops.Routing`.

    bloom   to the peers whose interest filter may match; some ten bytes a subscription, rarely a wrong one
    full    to the peers that have a matching filter, by an exact trie of all their filters
    flood   to all neighbours, and from each to all of its neighbours but the sender; for experiments
    tree    along the edges of a tree with three children a node, over the sorted ids; for experiments

The first two keep a copy of each peer's interest, by announcements: deltas, and snapshots for who has missed
something. A peer whose interest isn't known gets everything: nothing here says "no" wrongly.
"""

from collections.abc import Callable
from typing import Final

from braidmq.cluster.hops import Change, Hop, Receipt
from braidmq.cluster.hops import Routing as Routing
from braidmq.cluster.relaying import FloodRouting, TreeRouting
from braidmq.cluster.settings import Routing as Mode
from braidmq.cluster.text_interest import TextInterest, read_delta, read_snapshot
from braidmq.topics import FilterTrie
from braidmq.topics.bloom import InterestError, InterestIndex, LocalInterest, Outcome
from braidmq.topics.bloom.index import ROWS_BYTES_MAX
from braidmq.topics.bloom.local import REBUILD_KEYS_PER_FLUSH
from braidmq.topics.bloom.messages import Kind, may_widen, open_message
from braidmq.topics.bloom.stream import Position, StreamPosition

# Below this, rows of 64 bits for all peers cost many times what the filters by themselves do (96 bytes a
# subscription with 7 peers against 10), and searching one filter after the other takes 2 us at most.
PEERS_FOR_ROWS: Final = 16


def make_routing(mode: Mode, *, me: int, seed: int, is_neighbour: Callable[[int], bool]) -> Routing:
    """The routing of node `me`. `seed` is the same in the whole cluster; `is_neighbour` is for `flood`."""
    match mode:
        case "bloom":
            return BloomRouting(seed)
        case "full":
            return FullRouting()
        case "flood":
            return FloodRouting(is_neighbour)
        case "tree":
            return TreeRouting(me)


def _changed(was_in_step: bool, is_in_step: bool, outcome: Outcome, widens: bool) -> Change:
    """Who is out of step gets everything: getting there widens, and leaving it narrows."""
    if was_in_step and not is_in_step:
        return Change.WIDER
    if is_in_step and not was_in_step:
        return Change.NARROWER
    if outcome is not Outcome.APPLIED or not is_in_step:
        return Change.NONE
    return Change.WIDER if widens else Change.NARROWER


class BloomRouting:
    """Interest filters of all peers in one index."""

    relays = False
    announces = True

    def __init__(self, seed: int) -> None:
        self.local = LocalInterest(seed=seed)
        self.index = InterestIndex(seed=seed, rows_bytes_max=0)
        self._hops: dict[object, Hop] = {}

    @property
    def position(self) -> Position:
        return self.local.position

    @property
    def dirty(self) -> bool:
        return self.local.dirty

    @property
    def memory_bytes(self) -> int:
        """Of what is known of the peers."""
        return self.index.memory_bytes

    def wanted(self, filter: bytes) -> None:
        self.local.subscribe(filter)

    def unwanted(self, filter: bytes) -> None:
        self.local.unsubscribe(filter)

    def announcement(self) -> bytes | None:
        return self.local.flush()

    def snapshot(self) -> bytes:
        return self.local.snapshot()

    def advance(self) -> bool:
        is_resizing = self.local.advance(REBUILD_KEYS_PER_FLUSH)
        return self.index.advance() or is_resizing

    def joined(self, peer: int) -> None:
        if peer not in self._hops:
            self._hops[peer] = Hop(peer)
            self.index.join(peer)
            self._fit()

    def restarted(self, peer: int) -> None:
        self.gone(peer)
        self.joined(peer)

    def in_step(self, peer: int) -> bool:
        return self.index.in_step(peer)

    def died(self, peer: int) -> None:
        """Lasting sessions there want what comes: it waits for them in the peer's queue."""

    def gone(self, peer: int) -> None:
        if self._hops.pop(peer, None) is not None:
            self.index.drop(peer)
            self._fit()

    def _fit(self) -> None:
        self.index.bound_rows(ROWS_BYTES_MAX if len(self.index) >= PEERS_FOR_ROWS else 0)

    def receive(self, peer: int, announcement: bytes) -> Receipt:
        was_in_step = self.index.in_step(peer)
        outcome = self.index.receive(peer, announcement)
        widens = outcome is Outcome.APPLIED and may_widen(open_message(announcement))
        return Receipt(outcome, _changed(was_in_step, self.index.in_step(peer), outcome, widens))

    def compare(self, peer: int, position: Position) -> Receipt:
        was_in_step = self.index.in_step(peer)
        outcome = self.index.compare(peer, position)
        return Receipt(outcome, _changed(was_in_step, self.index.in_step(peer), outcome, widens=False))

    def hops(self, topic: bytes) -> tuple[Hop, ...]:
        return tuple([self._hops[peer] for peer in self.index.interested(topic)])

    def onward(self, topic: bytes, sender: int) -> tuple[Hop, ...]:
        return ()


class FullRouting:
    """Every filter of every peer in one trie; its value has a bit for each peer that wants it."""

    relays = False
    announces = True

    def __init__(self) -> None:
        self.local = TextInterest()
        self._trie = FilterTrie()
        self._slots: dict[int, int] = {}  # peer -> its bit
        self._streams: dict[int, StreamPosition] = {}
        self._peers: dict[int, Hop] = {}  # bit -> Hop

    @property
    def position(self) -> Position:
        return self.local.position

    @property
    def dirty(self) -> bool:
        return self.local.dirty

    @property
    def memory_bytes(self) -> int:
        """Of what is known of the peers."""
        return self._trie.memory_bytes

    def wanted(self, filter: bytes) -> None:
        self.local.subscribe(filter)

    def unwanted(self, filter: bytes) -> None:
        self.local.unsubscribe(filter)

    def announcement(self) -> bytes | None:
        return self.local.flush()

    def snapshot(self) -> bytes:
        return self.local.snapshot()

    def advance(self) -> bool:
        return False

    def joined(self, peer: int) -> None:
        if peer in self._slots:
            return
        bit = next(
            bit for bit in (1 << slot for slot in range(len(self._peers) + 1)) if bit not in self._peers
        )
        self._slots[peer], self._peers[bit] = bit, Hop(peer)
        self._streams[peer] = StreamPosition()

    def restarted(self, peer: int) -> None:
        self.gone(peer)
        self.joined(peer)

    def in_step(self, peer: int) -> bool:
        return self._streams[peer].in_step

    def died(self, peer: int) -> None:
        """As in BloomRouting: what it wants stays known."""

    def gone(self, peer: int) -> None:
        if peer in self._slots:
            bit = self._slots.pop(peer)
            self._clear(bit)
            del self._streams[peer], self._peers[bit]

    def receive(self, peer: int, announcement: bytes) -> Receipt:
        stream = self._streams[peer]
        was_in_step = stream.in_step
        try:
            outcome, widens = self._receive(peer, stream, announcement)
        except InterestError:
            stream.damaged()
            raise
        return Receipt(outcome, _changed(was_in_step, stream.in_step, outcome, widens))

    def _receive(self, peer: int, stream: StreamPosition, announcement: bytes) -> tuple[Outcome, bool]:
        envelope = open_message(announcement)
        position = envelope.epoch, envelope.sequence
        is_snapshot = envelope.kind is Kind.SNAPSHOT
        outcome = stream.judge_snapshot(position) if is_snapshot else stream.judge_delta(position)
        if outcome is not Outcome.APPLIED:
            return outcome, False
        bit = self._slots[peer]
        if is_snapshot:
            changes = [(filter, True) for filter in read_snapshot(envelope)]
            self._clear(bit)
        else:
            changes = list(read_delta(envelope))
        for filter, is_wanted in changes:
            self._put(filter, bit, is_wanted)
        stream.moved_to(position, by_snapshot=is_snapshot)
        return outcome, any(is_wanted for _, is_wanted in changes)

    def _put(self, filter: bytes, bit: int, is_wanted: bool) -> None:
        before = self._trie.get(filter) or 0
        after = before | bit if is_wanted else before & ~bit
        if after:
            self._trie.set(filter, after)
        elif before:
            self._trie.pop(filter)

    def _clear(self, bit: int) -> None:
        for filter, bits in list(self._trie.items()):
            if bits & bit:
                self._put(filter, bit, False)

    def compare(self, peer: int, position: Position) -> Receipt:
        stream = self._streams[peer]
        was_in_step = stream.in_step
        outcome = stream.judge_position(position)
        return Receipt(outcome, _changed(was_in_step, stream.in_step, outcome, widens=False))

    def hops(self, topic: bytes) -> tuple[Hop, ...]:
        wanting = 0
        for bits in self._trie.match(topic):
            wanting |= bits
        for peer, stream in self._streams.items():
            if not stream.in_step:
                wanting |= self._slots[peer]
        return tuple([hop for bit, hop in self._peers.items() if wanting & bit])

    def onward(self, topic: bytes, sender: int) -> tuple[Hop, ...]:
        return ()
