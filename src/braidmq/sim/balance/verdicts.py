"""Do the results say what the thesis and the reference tables say?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log, sqrt
from statistics import fmean, median, pstdev

from braidmq.sim.balance import printed
from braidmq.sim.balance.thesis import SteadyRow
from braidmq.sim.balance.trial import Summary

Named = Mapping[tuple[str, str], Summary]  # (scenario, method)


@dataclass(frozen=True, slots=True)
class Verdict:
    """One claim, what was found, and whether they agree."""

    claim: str
    found: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Ratios:
    """A method's mean and p99 completion over those of the ideal queue, over the validation scenarios."""

    method: str
    geometric_mean: float
    median: float
    worst: float
    p99_geometric_mean: float
    p99_worst: float
    better_than_status: float
    better_than_least_inflight: float


# -- the thesis ------------------------------------------------------------------------------------------


def thesis_means(overall_ms: Mapping[str, float], random_ms: Sequence[float]) -> list[Verdict]:
    round_robin, status = overall_ms["round_robin"], overall_ms["status"]
    spread = pstdev(random_ms)
    reduction = 1 - status / round_robin
    return [
        Verdict(
            f"round robin {printed.OVERALL_MS['round_robin']} ms within 2 % (fitted)",
            f"{round_robin:.1f} ms",
            abs(round_robin / printed.OVERALL_MS["round_robin"] - 1) <= 0.02,
        ),
        Verdict(
            f"random {printed.OVERALL_MS['random']} ms within two standard deviations of one run",
            f"{fmean(random_ms):.0f} ms, deviation {spread:.0f} over {len(random_ms)} runs",
            abs(fmean(random_ms) - printed.OVERALL_MS["random"]) <= 2 * spread,
        ),
        Verdict(
            f"status cuts the wait by {printed.REDUCTION:.0%}",
            f"{status:.1f} ms, {reduction:.1%} less",
            reduction >= printed.REDUCTION,
        ),
    ]


def phases(waits_ms: Sequence[float]) -> Verdict:
    ordered = sorted(waits_ms)
    tenth, nine_tenths = ordered[len(ordered) // 10], ordered[9 * len(ordered) // 10]
    return Verdict(
        "status stays within 55 ms whenever subscribers report first; the thesis's 27.4 ms is among them",
        f"p10 {tenth:.1f}, median {median(ordered):.1f}, p90 {nine_tenths:.1f}, most {ordered[-1]:.1f} ms",
        ordered[-1] <= 55 and ordered[0] <= printed.OVERALL_MS["status"] <= ordered[-1],
    )


def steady_tables(table_7: Sequence[SteadyRow], table_8: Sequence[SteadyRow]) -> list[Verdict]:
    slow, expected = table_7[2], printed.TABLE_7[2]
    pairs = [(slow.least_ms, expected.least_ms), (slow.most_ms, expected.most_ms),
             (slow.mean_ms, expected.mean_ms), (slow.deviation_ms, expected.deviation_ms)]  # fmt: skip
    counts = [row.messages for row in table_8]
    return [
        Verdict(
            "table 7, slow subscriber: least, most, mean and deviation within 2 % (fitted)",
            ", ".join(f"{ours:.0f}" for ours, _ in pairs),
            all(abs(ours / theirs - 1) <= 0.02 for ours, theirs in pairs),
        ),
        Verdict(
            "table 8: 199/199/102 messages, within 5; mean latency below 10 ms at the fast, 50 at the slow",
            f"{'/'.join(map(str, counts))}; {'/'.join(f'{row.mean_ms:.1f}' for row in table_8)} ms",
            all(abs(row.messages - theirs.messages) <= 5
                for row, theirs in zip(table_8, printed.TABLE_8, strict=True))
            and max(table_8[0].mean_ms, table_8[1].mean_ms) < 10 and table_8[2].mean_ms < 50,
        ),
    ]  # fmt: skip


# -- the reference tables --------------------------------------------------------------------------------


def named(results: Named, errors: Mapping[tuple[str, str], float]) -> list[Verdict]:
    found = []
    for method, tolerance in printed.TOLERANCES.items():
        names = [name for name in printed.JUDGED_SCENARIOS if (name, method) in results]
        apart = []
        for name in names:
            ours, (theirs, _) = results[name, method].wait_mean_ms, printed.WAITS_MS[method][name]
            allowed = tolerance * theirs + max(2 * errors[name, method], printed.TOLERANCE_LEAST_MS)
            if abs(ours - theirs) > allowed:
                apart.append(f"{name} {ours:.3g} for {theirs:g} ms")
        if names:
            claim = f"{method}: mean wait as in the reference, within {tolerance:.0%} and two standard errors"
            found.append(Verdict(claim, ", ".join(apart) or f"in all of {', '.join(names)}", not apart))
    return found


def error_ms(runs: Sequence[Summary]) -> float:
    """Standard error of the difference to the reference, which has as much luck in it as its repetitions."""
    deviation = pstdev(run.wait_mean_ms for run in runs)
    return deviation * sqrt(1 / len(runs) + 1 / printed.REPETITIONS)


# -- validation ------------------------------------------------------------------------------------------


def ratios_of(method: str, by_scenario: Sequence[Mapping[str, Summary]]) -> Ratios:
    means = [of[method].completion_mean_ms / of["ideal"].completion_mean_ms for of in by_scenario]
    p99s = [of[method].completion_p99_ms / of["ideal"].completion_p99_ms for of in by_scenario]

    def better_than(other: str) -> float:
        return fmean(of[method].completion_mean_ms < of[other].completion_mean_ms for of in by_scenario)

    return Ratios(
        method,
        geometric_mean(means),
        median(means),
        max(means),
        geometric_mean(p99s),
        max(p99s),
        better_than("status"),
        better_than("least_inflight"),
    )


def validation(ratios: Mapping[str, Ratios]) -> list[Verdict]:
    def mean_of(method: str) -> float:
        return ratios[method].geometric_mean

    adaptive = ratios["adaptive"]
    order = ("adaptive", "least_inflight", "status", "round_robin")
    receipt, silent = mean_of("adaptive, receipt"), mean_of("adaptive, half receipt")
    return [
        Verdict(
            "adaptive: completion at most 1.35 times the ideal queue's, at worst 4 times",
            f"{adaptive.geometric_mean:.2f}, at worst {adaptive.worst:.2f}",
            adaptive.geometric_mean <= 1.35 and adaptive.worst <= 4,
        ),
        Verdict(
            "status: about 2.4 times the ideal queue's (1.9 to 3.2; other scenarios than the reference's)",
            f"{mean_of('status'):.2f}",
            1.9 <= mean_of("status") <= 3.2,
        ),
        Verdict(
            "better in this order: " + ", ".join(order),
            ", ".join(f"{mean_of(method):.2f}" for method in order),
            sorted(order, key=mean_of) == list(order),
        ),
        Verdict(
            "clients that acknowledge on receipt and declare nothing: not worse than round robin + 10 %",
            f"{receipt:.2f} for {mean_of('round_robin, receipt'):.2f}; every other one: {silent:.2f}",
            max(receipt, silent) <= 1.1 * mean_of("round_robin, receipt"),
        ),
    ]


def geometric_mean(values: Sequence[float]) -> float:
    return exp(fmean(map(log, values)))
