"""One trial: a scenario and a method, run once and summed up. Tasks are plain data, for any runner."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from statistics import fmean

from braidmq.sim.balance.ideal import run_ideal
from braidmq.sim.balance.methods import IDEAL, METHODS
from braidmq.sim.balance.named import NAMED
from braidmq.sim.balance.scenario import Scenario
from braidmq.sim.balance.validation import validation_scenario
from braidmq.sim.balance.world import Outcome, World
from braidmq.sim.runner import derive_seed

MS = 1000.0


@dataclass(frozen=True, slots=True)
class Task:
    """`scenario`: a name, or the number of a validation scenario.

    Methods of one (scenario, repetition) meet the same publications and the same luck.
    """

    scenario: str | int
    method: str
    repetition: int
    seed: int


@dataclass(frozen=True, slots=True)
class Summary:
    wait_mean_ms: float
    wait_p99_ms: float
    completion_mean_ms: float
    completion_p99_ms: float
    reports_per_member_s: float
    messages: int


def run_trial(task: Task) -> Summary:
    scenario = make_scenario(task)
    if task.method == IDEAL:
        return summed_up(scenario, run_ideal(scenario))
    rng = Random(derive_seed(task.seed, "run", task.scenario, task.repetition))
    return summed_up(scenario, World(scenario, METHODS[task.method], rng).run())


def make_scenario(task: Task) -> Scenario:
    rng = Random(derive_seed(task.seed, "scenario", task.scenario, task.repetition))
    if isinstance(task.scenario, int):
        return validation_scenario(task.scenario, rng)
    return NAMED[task.scenario](rng)


def summed_up(scenario: Scenario, outcome: Outcome) -> Summary:
    duration_s = max(scenario.publish_s[-1], 1e-9)
    return Summary(
        fmean(outcome.wait_s) * MS,
        percentile(outcome.wait_s, 0.99) * MS,
        fmean(outcome.completion_s) * MS,
        percentile(outcome.completion_s, 0.99) * MS,
        len(outcome.reports) / len(scenario.members) / duration_s,
        len(outcome.wait_s),
    )


def percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[int(share * len(values))]


def averaged(summaries: Sequence[Summary]) -> Summary:
    return Summary(
        fmean(summary.wait_mean_ms for summary in summaries),
        fmean(summary.wait_p99_ms for summary in summaries),
        fmean(summary.completion_mean_ms for summary in summaries),
        fmean(summary.completion_p99_ms for summary in summaries),
        fmean(summary.reports_per_member_s for summary in summaries),
        round(fmean(summary.messages for summary in summaries)),
    )
