"""Four ways to remember what a broker wants, behind one interface: the paper's three and the exact trie.

    NaiveBloom    BF: stores filters, asks for every wildcard variant of a topic
    PatternBloom  BFP: stores filters, asks for the variants whose wildcard pattern some filter uses
    PrefixBloom   the paper's proposal, as the broker runs it: stores prefixes, walks them like a trie
    ExactTrie     no Bloom filter: what exactness costs

All follow MQTT's rules, also where the paper doesn't: `P/#` matches P (its end is stored along), a leading
wildcard matches no `$`-topic, empty levels are levels, `$share/group/` is left out. None ever says "no"
wrongly.
"""

from collections import Counter
from dataclasses import dataclass
from itertools import islice
from typing import Protocol, TypeVar

from braidmq.topics.bloom.classic import ClassicBloom
from braidmq.topics.bloom.hashing import strip_shared
from braidmq.topics.bloom.local import BITS_PER_KEY, HASHES, LocalInterest
from braidmq.topics.bloom.patterns import Pattern, pattern_of, variants
from braidmq.topics.trie import FilterTrie

_K = TypeVar("_K")

# A topic of n levels has 2^(n+1) - 1 variants: after so many questions the answer is "maybe".
QUERIES_MAX = 1 << 16
_REBUILD_STEP_KEYS = 65_536


@dataclass(slots=True)
class QueryCounter:
    """Counts the questions put to a Bloom filter."""

    queries: int = 0


class InterestMethod(Protocol):
    """Filters in, "may any of them match this topic?" out."""

    @property
    def nbytes(self) -> int:
        """What would have to be sent to a peer, in bytes."""

    def add(self, filter: bytes) -> None: ...

    def discard(self, filter: bytes) -> None:
        """Take back one `add`. KeyError if there was none."""

    def may_match(self, topic: bytes, counter: QueryCounter | None = None) -> bool: ...


class _Counts:
    """How often each text was added."""

    def __init__(self) -> None:
        self._counts: dict[bytes, int] = {}

    def add(self, text: bytes) -> bool:
        """Whether it is new."""
        before = self._counts.get(text, 0)
        self._counts[text] = before + 1
        return before == 0

    def discard(self, text: bytes) -> bool:
        """Whether it is gone now. KeyError if it wasn't there."""
        self._counts[text] -= 1
        if self._counts[text]:
            return False
        del self._counts[text]
        return True


class _WholeFilters:
    """The text of whole filters in a counting Bloom filter; what BF and BFP share."""

    def __init__(self, elements: int, rate: float) -> None:
        self._held = _Counts()
        self._elements = _Counts()
        self._bloom = ClassicBloom.sized(elements, rate, counting=True)

    @property
    def nbytes(self) -> int:
        return self._bloom.nbytes

    def add(self, filter: bytes) -> None:
        inner = strip_shared(filter)
        if self._held.add(inner):
            self._remember(inner)

    def discard(self, filter: bytes) -> None:
        inner = strip_shared(filter)
        if self._held.discard(inner):
            self._forget(inner)

    def _remember(self, filter: bytes) -> None:
        for element in _elements(filter):
            if self._elements.add(element):
                self._bloom.add(element)

    def _forget(self, filter: bytes) -> None:
        for element in _elements(filter):
            if self._elements.discard(element):
                self._bloom.remove(element)


def _parent(filter: bytes) -> bytes | None:
    """P of `P/#`."""
    return filter[:-2] if filter.endswith(b"/#") else None


def _elements(filter: bytes) -> list[bytes]:
    parent = _parent(filter)
    return [filter] if parent is None else [filter, parent]


class NaiveBloom(_WholeFilters):
    """BF: all 2^(n+1) - 1 variants of a topic are asked for until one is there."""

    def may_match(self, topic: bytes, counter: QueryCounter | None = None) -> bool:
        queries, found = 0, False
        for candidate in islice(variants(topic), QUERIES_MAX):
            queries += 1
            if candidate in self._bloom:
                found = True
                break
        if counter is not None:
            counter.queries += queries
        return found or queries == QUERIES_MAX


class PatternBloom(_WholeFilters):
    """BFP: the patterns in use are shared along with the filter, and only their variants are asked for."""

    def __init__(self, elements: int, rate: float) -> None:
        super().__init__(elements, rate)
        self._patterns: Counter[Pattern] = Counter()
        # Wildcards of the P of `P/#`, with its depth: such an end matters to topics of that depth alone.
        self._parents: Counter[tuple[Pattern, int]] = Counter()
        self._ordered: list[tuple[Pattern, int | None]] | None = None

    @property
    def patterns(self) -> set[Pattern]:
        """The patterns to share."""
        return set(self._patterns)

    def may_match(self, topic: bytes, counter: QueryCounter | None = None) -> bool:
        queries, found = 0, False
        for candidate in self.candidates(topic):
            queries += 1
            if candidate in self._bloom:
                found = True
                break
        if counter is not None:
            counter.queries += queries
        return found

    def candidates(self, topic: bytes) -> list[bytes]:
        """What to ask for, in this order: the variants of all patterns in use, then the topic itself."""
        levels = topic.split(b"/")
        dollar = topic.startswith(b"$")
        fitting = [
            pattern.applied(levels)
            for pattern, depth in self._in_order()
            if depth in (None, len(levels)) and pattern.fits(len(levels), dollar=dollar)
        ]
        return [*fitting, topic]

    def _in_order(self) -> list[tuple[Pattern, int | None]]:
        if self._ordered is None:
            found: list[tuple[Pattern, int | None]] = [(pattern, None) for pattern in self._patterns]
            found += self._parents
            self._ordered = sorted(found, key=lambda entry: entry[0].order)
        return self._ordered

    def _remember(self, filter: bytes) -> None:
        super()._remember(filter)
        self._count_patterns(filter, 1)

    def _forget(self, filter: bytes) -> None:
        super()._forget(filter)
        self._count_patterns(filter, -1)

    def _count_patterns(self, filter: bytes, change: int) -> None:
        pattern = pattern_of(filter)
        if pattern != Pattern((), -1):
            self._count(self._patterns, pattern, change)
        if pattern.plus_levels and pattern.hash_level >= 0:
            self._count(self._parents, (Pattern(pattern.plus_levels, -1), pattern.hash_level), change)

    def _count(self, counts: Counter[_K], entry: _K, change: int) -> None:
        before = counts[entry]
        counts[entry] += change
        if not counts[entry]:
            del counts[entry]
        if not before or entry not in counts:
            self._ordered = None


class PrefixBloom:
    """The paper's proposal in the broker's form: counted at the owner, searched in the blocked filter.

    `as_in_paper` asks the paper's questions in the paper's order; the broker skips those that its depth masks
    rule out and asks for the literal level first.
    """

    def __init__(
        self,
        expected_keys: int = 0,
        *,
        seed: int = 0,
        bits_per_key: float = BITS_PER_KEY,
        hashes: int = HASHES,
        as_in_paper: bool = False,
    ) -> None:
        self._interest = LocalInterest(
            seed=seed, expected_keys=expected_keys, bits_per_key=bits_per_key, hashes=hashes)
        self.as_in_paper = as_in_paper

    @property
    def nbytes(self) -> int:
        return self._interest.filter.nbytes

    def add(self, filter: bytes) -> None:
        self._interest.subscribe(filter)

    def discard(self, filter: bytes) -> None:
        self._interest.unsubscribe(filter)

    def may_match(self, topic: bytes, counter: QueryCounter | None = None) -> bool:
        self._interest.settle()
        while self._interest.advance(_REBUILD_STEP_KEYS):
            pass
        found, queries = self._interest.filter.count_queries(
            topic, plus_first=self.as_in_paper, masked=not self.as_in_paper)
        if counter is not None:
            counter.queries += queries
        return found


class ExactTrie:
    """The broker's own trie. It asks no Bloom filter, and would be sent as the filters' text."""

    def __init__(self) -> None:
        self._held = _Counts()
        self._trie = FilterTrie()
        self._text_bytes = 0

    @property
    def nbytes(self) -> int:
        return self._text_bytes

    def add(self, filter: bytes) -> None:
        inner = strip_shared(filter)
        if self._held.add(inner):
            self._trie.set(inner, True)
            self._text_bytes += len(inner) + 2

    def discard(self, filter: bytes) -> None:
        inner = strip_shared(filter)
        if self._held.discard(inner):
            self._trie.pop(inner)
            self._text_bytes -= len(inner) + 2

    def may_match(self, topic: bytes, counter: QueryCounter | None = None) -> bool:
        return bool(self._trie.match(topic))
