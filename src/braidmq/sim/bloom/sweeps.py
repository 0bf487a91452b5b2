"""The paper's four sweeps: each parameter is varied while the others keep their default."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev

from braidmq.sim.bloom import theory
from braidmq.sim.bloom.trial import BF, BFP, METHODS, PREFIX, PRINTED, Mode, Parameters, Task, TrialResult
from braidmq.sim.runner import derive_seed


@dataclass(frozen=True, slots=True)
class Sweep:
    """One panel of a figure."""

    symbol: str
    values: tuple[float, ...]
    vary: Callable[[Parameters, float], Parameters]


SWEEPS = (
    Sweep(
        "n_t", tuple(range(1000, 10_001, 1000)), lambda default, value: replace(default, topics=int(value))
    ),
    Sweep("n_lv", tuple(range(2, 11)), lambda default, value: replace(default, levels=int(value))),
    Sweep(
        "p_wc",
        (0.0, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0),
        lambda default, value: replace(default, wildcard_probability=value),
    ),
    Sweep("l_wc", tuple(range(6)), lambda default, value: replace(default, first_wildcard_level=int(value))),
)
# From 9 levels on there are more patterns than wildcard subscriptions, and chance begins to matter.
RANDOM_FROM_LEVELS = 9


@dataclass(frozen=True, slots=True)
class Effort:
    """How many sets of subscriptions a point gets, and how many topics each when a match exists."""

    sets: int
    random_sets: int
    matching_sets: int
    matching_published: int

    def sets_for(self, parameters: Parameters) -> int:
        if parameters.mode is Mode.MATCH_EXISTS:
            return self.matching_sets
        return self.random_sets if parameters.levels >= RANDOM_FROM_LEVELS else self.sets

    def published_for(self, parameters: Parameters) -> int:
        return self.matching_published if parameters.mode is Mode.MATCH_EXISTS else 1


FULL = Effort(sets=10, random_sets=100, matching_sets=15, matching_published=20)
QUICK = Effort(sets=1, random_sets=10, matching_sets=1, matching_published=20)


@dataclass(frozen=True, slots=True)
class Row:
    """One method at one point, as it goes into the tables."""

    figure: str
    mode: str
    parameter: str
    value: float
    method: str
    queries: float
    standard_error: float
    expected: float | None
    """By the closed form, where there is one."""
    sets: int
    published: int
    matched_share: float
    missed_share: float
    """Of the topics with a match: those that this method loses."""


@dataclass(frozen=True, slots=True)
class SweepFigure:
    """A figure of four panels, all in one mode."""

    name: str
    title: str
    mode: Mode

    def points(self) -> list[tuple[Sweep, float, Parameters]]:
        default = Parameters(self.mode)
        return [(sweep, value, sweep.vary(default, value)) for sweep in SWEEPS for value in sweep.values]

    def tasks(self, seed: int, effort: Effort) -> list[Task]:
        """One for every set of every different point; the default is a point of all four sweeps."""
        different = dict.fromkeys(parameters for _, _, parameters in self.points())
        return [
            Task(parameters, derive_seed(seed, parameters, number), effort.published_for(parameters))
            for parameters in different
            for number in range(effort.sets_for(parameters))
        ]

    def rows(self, results: Mapping[Parameters, Sequence[TrialResult]]) -> list[Row]:
        return [
            self._row(sweep, value, parameters, method, results[parameters])
            for sweep, value, parameters in self.points()
            for method in METHODS
        ]

    def _row(
        self, sweep: Sweep, value: float, parameters: Parameters, method: str, results: Sequence[TrialResult]
    ) -> Row:
        return summary(
            results, method, figure=self.name, mode=self.mode.value, parameter=sweep.symbol, value=value,
            expected=expected_queries(parameters, method))


def summary(
    results: Sequence[TrialResult],
    method: str,
    *,
    figure: str,
    mode: str,
    parameter: str,
    value: float,
    expected: float | None = None,
) -> Row:
    """The average of one method over many sets."""
    averages = [result.queries[method] for result in results]
    published = sum(result.published for result in results)
    matched = sum(result.matched for result in results)
    missed = sum(result.missed_as_printed for result in results) if method == PRINTED else 0
    return Row(
        figure, mode, parameter, float(value), method, fmean(averages), standard_error(averages), expected,
        len(results), published, matched / published, missed / matched if matched else 0.0)


def standard_error(values: Sequence[float]) -> float:
    return stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0


def expected_queries(parameters: Parameters, method: str) -> float | None:
    """The closed forms hold where nothing matches; wildcard-only filters, if allowed, nearly always match."""
    if parameters.mode not in (Mode.NO_MATCH, Mode.WITHOUT_WILDCARD_ONLY):
        return None
    closed_form = _CLOSED_FORMS.get(method)
    return None if closed_form is None else closed_form(setting_of(parameters))


def setting_of(parameters: Parameters) -> theory.Setting:
    return theory.Setting(
        parameters.levels,
        parameters.topics,
        parameters.wildcard_probability,
        parameters.first_wildcard_level,
    )


_CLOSED_FORMS = {
    BF: theory.naive_queries,
    BFP: theory.pattern_queries,
    PREFIX: theory.prefix_queries,
    PRINTED: theory.printed_queries,
}
