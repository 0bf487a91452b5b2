"""What the averages should be, and the two that the paper prints.

Each of n_t subscriptions has wildcards with probability p, and then one of the N patterns that have a literal
level. For a topic that nothing matches, BF asks 2^(n+1) - 1 times; BFP once, and once for every pattern in
use; the proposal three times, and three times more for every k such that some filter begins with k times `+`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

RUNS_OF_THE_PAPER = 10


@dataclass(frozen=True, slots=True)
class Setting:
    """The paper's parameters."""

    levels: int
    topics: int = 6000
    wildcard_probability: float = 0.5
    first_wildcard_level: int = 0

    @property
    def patterns(self) -> int:
        """Wildcard patterns that can be drawn; those of wildcards alone are left out."""
        free = self.levels - self.first_wildcard_level
        return (2 << free) - 2 if self.first_wildcard_level else (2 << free) - 3 - free

    def absent(self, patterns: int) -> float:
        """Chance that no subscription has one of so many patterns."""
        return math.pow(1 - self.wildcard_probability * patterns / self.patterns, self.topics)

    def plus_paths(self) -> list[float]:
        """For k = 1 .. n-1: the chance that some filter begins with k times `+` and goes on."""
        if self.first_wildcard_level:
            return []
        free = range(self.levels - 1, 0, -1)
        return [1 - self.absent((2 << levels) - 2 - levels) for levels in free]


def naive_queries(setting: Setting) -> float:
    return float((2 << setting.levels) - 1)


def pattern_queries(setting: Setting) -> float:
    return 1 + setting.patterns * (1 - setting.absent(1))


def prefix_queries(setting: Setting) -> float:
    return 3 * (1 + sum(setting.plus_paths()))


def printed_queries(setting: Setting) -> float:
    """The algorithm as printed: after `+` is found, `#` and `+` are asked and the literal never is."""
    return 3 + 2 * sum(setting.plus_paths())


def pattern_deviation(setting: Setting) -> float:
    """Standard deviation of BFP's queries from run to run: that of the number of patterns in use."""
    unused = setting.patterns * setting.absent(1)
    pairs_unused = setting.patterns * (setting.patterns - 1) * setting.absent(2)
    return math.sqrt(max(0.0, unused + pairs_unused - unused**2))


def prefix_deviation(setting: Setting) -> float:
    """Standard deviation of the proposal's queries: three times that of the longest path of `+`."""
    reached = setting.plus_paths()
    mean_square = sum((2 * depth - 1) * chance for depth, chance in enumerate(reached, 1))
    return 3 * math.sqrt(max(0.0, mean_square - sum(reached) ** 2))


@dataclass(frozen=True, slots=True)
class Printed:
    """A number that the paper prints: an average over ten runs."""

    method: str
    levels: int
    value: float
    text: str
    deviation: Callable[[Setting], float]
    """Of a single run."""


PRINTED = (
    Printed("prefix", 10, 29.7, "proposed method, figure 6(b), n_lv = 10", prefix_deviation),
    Printed("BFP", 10, 1570.0, "BF with patterns, figure 6(b), n_lv = 10", pattern_deviation),
)
