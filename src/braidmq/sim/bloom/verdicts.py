"""Do the results say what the paper says, and what theory says?"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from braidmq.sim.bloom import figure6
from braidmq.sim.bloom.sweeps import Row, setting_of
from braidmq.sim.bloom.theory import PRINTED, RUNS_OF_THE_PAPER
from braidmq.sim.bloom.trial import Parameters, TrialResult

_SIGMAS = 3.0
_TOLERANCE = 0.01
_SETS_FOR_TOLERANCE = 10


@dataclass(frozen=True, slots=True)
class Verdict:
    """One claim, what was found, and whether they agree."""

    claim: str
    found: str
    holds: bool


def printed_numbers(results: Mapping[Parameters, Sequence[TrialResult]]) -> list[Verdict]:
    """The paper's two printed averages, within three standard deviations of what chance allows."""
    verdicts = []
    for printed in PRINTED:
        parameters = Parameters(figure6.FIGURE.mode, levels=printed.levels)
        runs = [result.queries[printed.method] for result in results[parameters]]
        spread = printed.deviation(setting_of(parameters)) * math.sqrt(1 / RUNS_OF_THE_PAPER + 1 / len(runs))
        mean, ours = fmean(runs), fmean(runs[:RUNS_OF_THE_PAPER])
        holds = abs(printed.value - mean) <= _SIGMAS * spread
        verdicts.append(Verdict(
            f"{printed.value} ({printed.text})",
            f"{mean:.2f} over {len(runs)} runs, {ours:.1f} over ten; chance allows {_SIGMAS * spread:.1f}",
            holds))
    return verdicts


def closed_forms(rows: Sequence[Row]) -> list[Verdict]:
    """Every average of a figure that has a closed form, within 1 % or three standard errors of it."""
    verdicts = []
    for figure in dict.fromkeys(row.figure for row in rows):
        known = [row for row in rows if row.figure == figure and row.expected is not None]
        apart = [row for row in known if not agrees(row)]
        if known:
            worst = max(known, key=relative_error)
            named = f"{worst.method} at {worst.parameter} = {worst.value:g}"
            verdicts.append(Verdict(
                f"{figure}: {len(known)} averages follow their closed forms",
                f"{len(known) - len(apart)} do; the farthest is {relative_error(worst):.2%} off ({named})",
                not apart))
    return verdicts


def relative_error(row: Row) -> float:
    return 0.0 if not row.expected else abs(row.queries - row.expected) / row.expected


def agrees(row: Row) -> bool:
    if row.expected is None:
        return True
    # Fewer sets than it takes to know their spread: allow for it.
    tolerance = _TOLERANCE * math.sqrt(max(1.0, _SETS_FOR_TOLERANCE / row.sets))
    return abs(row.queries - row.expected) <= max(tolerance * row.expected, _SIGMAS * row.standard_error)
