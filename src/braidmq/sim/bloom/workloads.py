"""Subscriptions and topics to experiment with: the paper's random ones, and a hierarchy as in a building.

The paper's topics are levels of ten random characters, so no two topics share a literal level. A wildcard
subscription is drawn uniformly from all that match its random topic: every level literal or `+`, or `#` in
place of the last levels (never after all of them): 2^(n+1) - 2 for n levels, of which n + 1 consist of
wildcards alone.
"""

import base64
import random
from collections.abc import Iterator
from dataclasses import dataclass

LEVEL_CHARACTERS = 10
_TOPICS_PER_DRAW = 512


@dataclass(frozen=True, slots=True)
class Subscription:
    """A filter and the plain topic it was made from."""

    filter: bytes
    topic: bytes


def random_topics(rng: random.Random, levels: int) -> Iterator[list[bytes]]:
    """An endless supply of topics of random levels."""
    topic_characters = levels * LEVEL_CHARACTERS
    while True:
        # 3 random bytes are 4 characters of the URL-safe alphabet, which has no wildcards and no slash.
        text = base64.urlsafe_b64encode(rng.randbytes(_TOPICS_PER_DRAW * topic_characters * 3 // 4))
        for start in range(0, _TOPICS_PER_DRAW * topic_characters, topic_characters):
            stop = start + topic_characters
            yield [text[at:at + LEVEL_CHARACTERS] for at in range(start, stop, LEVEL_CHARACTERS)]


@dataclass(frozen=True, slots=True)
class RandomSubscriptions:
    """The paper's subscriptions: so many levels, wildcards with a probability and from some level on."""

    levels: int
    wildcard_probability: float
    first_wildcard_level: int = 0
    wildcard_only: bool = True
    """Whether filters of nothing but wildcards may be drawn."""

    def draw(self, rng: random.Random, topics: Iterator[list[bytes]]) -> Subscription:
        levels = next(topics)
        plain = b"/".join(levels)
        if rng.random() >= self.wildcard_probability:
            return Subscription(plain, plain)
        while True:
            filter = self._with_wildcards(levels, rng.randrange(self.wildcard_patterns))
            if self.wildcard_only or any(level not in (b"+", b"#") for level in filter):
                return Subscription(b"/".join(filter), plain)

    @property
    def wildcard_patterns(self) -> int:
        """How many different wildcard filters match a topic, those of wildcards alone included."""
        return (2 << (self.levels - self.first_wildcard_level)) - 2

    def _with_wildcards(self, levels: list[bytes], pattern: int) -> list[bytes]:
        """Patterns are numbered: first the sets of `+` without `#`, then those below `#` at each level."""
        free = self.levels - self.first_wildcard_level
        plus_sets = (1 << free) - 1
        if pattern < plus_sets:
            return self._with_plus(levels, pattern + 1)
        rest = pattern - plus_sets + 1
        hash_level = rest.bit_length() - 1
        kept = levels[: self.first_wildcard_level + hash_level]
        return [*self._with_plus(kept, rest - (1 << hash_level)), b"#"]

    def _with_plus(self, levels: list[bytes], plus_set: int) -> list[bytes]:
        first = self.first_wildcard_level
        return [b"+" if index >= first and plus_set >> (index - first) & 1 else level
                for index, level in enumerate(levels)]


HIERARCHY = ((b"site", 50), (b"bld", 20), (b"floor", 10), (b"room", 40), (b"dev", 50), (b"metric", 10))
PLAIN_SHARE, PLUS_SHARE = 0.5, 0.3  # the rest have `#`
DEEP_LEVEL = 3
ANYWHERE_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class HierarchySubscriptions:
    """site/bld/floor/room/dev/metric: half plain, 30 % with one or two `+`, 20 % with `#` at level 3 to 5.

    `plus_anywhere` is the share of `+` that may stand at any level; the others stand at level 3 to 5.
    """

    plus_anywhere: float = ANYWHERE_SHARE

    def topic(self, rng: random.Random) -> bytes:
        return b"/".join(self._levels(rng))

    def draw(self, rng: random.Random) -> Subscription:
        levels = self._levels(rng)
        plain = b"/".join(levels)
        kind = rng.random()
        if kind < PLAIN_SHARE:
            return Subscription(plain, plain)
        if kind < PLAIN_SHARE + PLUS_SHARE:
            for _ in range(rng.randint(1, 2)):
                lowest = 0 if rng.random() < self.plus_anywhere else DEEP_LEVEL
                levels[rng.randrange(lowest, len(levels))] = b"+"
            return Subscription(b"/".join(levels), plain)
        kept = levels[: rng.randrange(DEEP_LEVEL, len(levels))]
        return Subscription(b"/".join([*kept, b"#"]), plain)

    def _levels(self, rng: random.Random) -> list[bytes]:
        return [b"%s%d" % (name, rng.randrange(count)) for name, count in HIERARCHY]
