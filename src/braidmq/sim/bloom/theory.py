"""What the averages should be, and the two that the paper prints.

For a topic that nothing matches, with w wildcard subscriptions among the N patterns that have a literal
level: BF asks 2^(n+1) - 1 times; BFP 1 + N (1 - (1 - 1/N)^w) times, the expected number of patterns in use;
the proposal 3 (1 + sum of P_k) times, P_k being the chance that some filter begins with k times `+`.
"""

import math
from typing import NamedTuple


class Printed(NamedTuple):
    """A number that the paper prints."""

    method: str
    levels: int
    value: float
    text: str


PRINTED = (
    Printed("prefix", 10, 29.7, "proposed method, figure 6(b), n_lv = 10"),
    Printed("BFP", 10, 1570.0, "BF with patterns, figure 6(b), n_lv = 10"),
)
RUNS_OF_THE_PAPER = 10


def patterns_with_a_literal(levels: int) -> int:
    return (2 << levels) - 3 - levels


def naive_queries(levels: int) -> float:
    return 2.0 ** (levels + 1) - 1


def pattern_queries(levels: int, wildcard_topics: float, first_wildcard_level: int = 0) -> float:
    if first_wildcard_level:
        patterns = (2 << (levels - first_wildcard_level)) - 2
    else:
        patterns = patterns_with_a_literal(levels)
    return 1 + patterns * (1 - math.pow(1 - 1 / patterns, wildcard_topics))


def prefix_queries(levels: int, wildcard_topics: float, first_wildcard_level: int = 0) -> float:
    if first_wildcard_level:
        return 3.0
    return 3 * (1 + sum(_plus_path(levels, depth, wildcard_topics) for depth in range(1, levels)))


def printed_queries(levels: int, wildcard_topics: float, first_wildcard_level: int = 0) -> float:
    """The algorithm as printed: after `+` is found, `#` and `+` are asked and the literal never is."""
    if first_wildcard_level:
        return 3.0
    return 3 + 2 * sum(_plus_path(levels, depth, wildcard_topics) for depth in range(1, levels))


def _plus_path(levels: int, depth: int, wildcard_topics: float) -> float:
    """Chance that some filter begins with `depth` times `+`."""
    beginning = (2 << (levels - depth)) - 2 - levels + depth
    return 1 - math.pow(1 - beginning / patterns_with_a_literal(levels), wildcard_topics)
