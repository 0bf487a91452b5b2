"""Wildcard variants of a topic, and the patterns in which a broker's filters use wildcards.

Both are asked in one order: at every level `#` before `+` before the literal, the deepest choice last, so
that the filters that match most are met first.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

_HASH, _PLUS, _LITERAL, _END = range(4)


def variants(topic: bytes) -> Iterator[bytes]:
    """All filters of the topic's own depth that match it: 2^(n+1) - 1 of them, the topic itself last.

    `#` always stands for at least one level here: that `P/#` also matches P is seen to when `P/#` is stored.
    """
    levels = topic.split(b"/")
    dollar = topic.startswith(b"$")
    waiting: list[tuple[int, bytes]] = [(0, b"")]
    while waiting:
        depth, prefix = waiting.pop()
        wildcards = depth > 0 or not dollar  # [MQTT-4.7.2-1]
        if wildcards:
            yield prefix + b"#"
        if depth == len(levels) - 1:
            if wildcards:
                yield prefix + b"+"
            yield prefix + levels[depth]
        else:
            waiting.append((depth + 1, prefix + levels[depth] + b"/"))
            if wildcards:
                waiting.append((depth + 1, prefix + b"+/"))


class Pattern(NamedTuple):
    """Where a filter has wildcards: the levels of its `+`, and that of its `#` or -1."""

    plus_levels: tuple[int, ...]
    hash_level: int

    @property
    def order(self) -> tuple[int, ...]:
        """Sorts patterns as `variants` would come to them."""
        length = self.hash_level if self.hash_level >= 0 else max(self.plus_levels, default=-1) + 1
        steps = [_PLUS if level in self.plus_levels else _LITERAL for level in range(length)]
        return (*steps, _HASH if self.hash_level >= 0 else _END)

    def fits(self, levels: int, *, dollar: bool) -> bool:
        """Whether a filter with these wildcards can match a topic of so many levels."""
        if dollar and (self.hash_level == 0 or 0 in self.plus_levels):
            return False
        return max(self.hash_level, *self.plus_levels, -1) < levels

    def applied(self, levels: Sequence[bytes]) -> bytes:
        """The topic with its levels replaced by the wildcards."""
        kept = list(levels if self.hash_level < 0 else levels[: self.hash_level])
        for level in self.plus_levels:
            kept[level] = b"+"
        if self.hash_level >= 0:
            kept.append(b"#")
        return b"/".join(kept)


def pattern_of(filter: bytes) -> Pattern:
    levels = filter.split(b"/")
    plus_levels = tuple(index for index, level in enumerate(levels) if level == b"+")
    return Pattern(plus_levels, len(levels) - 1 if levels[-1] == b"#" else -1)
