"""`braidmq sim balance`: runs what is asked for, writes and draws what was found, and judges it."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from rich.console import Console

from braidmq.sim.balance import plot, printed, tables, thesis, trial, verdicts
from braidmq.sim.balance.methods import IDEAL, METHODS, TABLE, VALIDATION
from braidmq.sim.balance.named import NAMED, RANDOM_PUBLICATIONS
from braidmq.sim.balance.trial import Summary, Task
from braidmq.sim.balance.verdicts import Verdict
from braidmq.sim.balance.world import Outcome
from braidmq.sim.runner import Runner, run_all

THESIS: Final = "thesis"
RANDOM: Final = "validation"
SCENARIOS: Final = (THESIS, *NAMED, RANDOM)


@dataclass(frozen=True, slots=True)
class Effort:
    repetitions: int  # of scenarios with random publications
    steady_repetitions: int  # of the others, where chance is only in the method
    validation_scenarios: int
    phases: int  # of the thesis's scenario 2


FULL: Final = Effort(repetitions=8, steady_repetitions=64, validation_scenarios=60, phases=160)
QUICK: Final = Effort(repetitions=2, steady_repetitions=8, validation_scenarios=12, phases=20)


@dataclass(frozen=True, slots=True)
class Settings:
    """What a run is a function of, besides where its results go."""

    scenarios: tuple[str, ...]
    seed: int
    quick: bool

    @property
    def effort(self) -> Effort:
        return QUICK if self.quick else FULL

    @property
    def command(self) -> str:
        chosen = "" if self.scenarios == SCENARIOS else "".join(f" --scenario '{s}'" for s in self.scenarios)
        return f"braidmq sim balance{chosen} --seed {self.seed}{' --quick' if self.quick else ''}"


def run(settings: Settings, runner: Runner, out: Path, console: Console) -> bool:
    """True if every verdict holds."""
    out.mkdir(parents=True, exist_ok=True)
    found: list[Verdict] = []
    if THESIS in settings.scenarios:
        found += run_thesis(settings, runner, out, console)
    names = [name for name in settings.scenarios if name in NAMED]
    if names:
        found += run_named(names, settings, runner, out, console)
    if RANDOM in settings.scenarios:
        found += run_validation(settings, runner, out, console)
    tables.print_verdicts(console, found)
    write_record(settings, found, out)
    return all(verdict.holds for verdict in found)


def run_thesis(settings: Settings, runner: Runner, out: Path, console: Console) -> list[Verdict]:
    outcomes = {(number, policy): thesis.run_thesis(number, policy, settings.seed)
                for number in thesis.SERVICE_S for policy in thesis.POLICIES}  # fmt: skip
    means = {key: thesis.mean_waits_ms(outcome) for key, outcome in outcomes.items()}
    for number, figure in ((1, "figure43"), (2, "figure44")):
        by_policy = {policy: means[number, policy] for policy in thesis.POLICIES}
        heading = ["policy", "subscriber_0_ms", "subscriber_1_ms", "subscriber_2_ms", "all_ms", "thesis_ms"]
        rows = [[policy, *values, printed.OVERALL_MS[policy] if number == 2 else ""]
                for policy, values in by_policy.items()]  # fmt: skip
        tables.write_rows(out / f"{figure}.csv", heading, rows)
        title = f"Figure {figure[-2:]}: mean latency, scenario {number}"
        plot.draw_latencies(title, by_policy, out / figure, thesis=number == 2)
    draw_status_run(outcomes[2, "status"], out)
    table_7 = thesis.steady_rows(outcomes[2, "round_robin"])
    table_8 = thesis.steady_rows(outcomes[2, "status"])
    for name, ours, theirs in (("table7", table_7, printed.TABLE_7), ("table8", table_8, printed.TABLE_8)):
        tables.write_values(out / f"{name}.csv", ours)
        tables.print_steady(console, f"Table {name[-1]}, ms", ours, theirs)

    tasks = [thesis.PhaseTask(policy, number, settings.seed)
             for policy in ("status", "random") for number in range(settings.effort.phases)]  # fmt: skip
    waits_ms = run_all(runner, thesis.run_phase, tasks, "Scenario 2 with other phases")
    status_ms, random_ms = waits_ms[: settings.effort.phases], waits_ms[settings.effort.phases :]
    tables.write_rows(out / "phases.csv", ["status_ms", "random_ms"], zip(status_ms, random_ms, strict=True))
    overall = {policy: means[2, policy][-1] for policy in thesis.POLICIES}
    return [
        *verdicts.thesis_means(overall, random_ms),
        verdicts.phases(status_ms),
        *verdicts.steady_tables(table_7, table_8),
    ]


def draw_status_run(outcome: Outcome, out: Path) -> None:
    scenario = thesis.thesis_scenario(2)
    counts = thesis.given_per_second(outcome, scenario)
    heading = ["second", "subscriber_0", "subscriber_1", "subscriber_2"]
    tables.write_rows(out / "figure45.csv", heading, zip(range(1, 16), *counts, strict=True))
    plot.draw_given("Figure 45: messages given, status, scenario 2", counts, out / "figure45")
    known = [(time, index, mean_s * trial.MS) for time, index, mean_s in outcome.reports]
    tables.write_rows(out / "figure46.csv", ["time_s", "subscriber", "known_processing_ms"], known)
    plot.draw_processing("Figure 46: processing time known to the broker", outcome, out / "figure46")
    waits_ms = [wait_s * trial.MS for wait_s in outcome.wait_s]
    rows = zip(range(len(waits_ms)), outcome.member, waits_ms, strict=True)
    tables.write_rows(out / "figure47.csv", ["message", "subscriber", "latency_ms"], rows)
    plot.draw_messages("Figure 47: latency of each message, status", outcome, out / "figure47")


def run_named(
    names: Sequence[str], settings: Settings, runner: Runner, out: Path, console: Console
) -> list[Verdict]:
    cells = [(name, method) for method in TABLE for name in names]
    tasks = [Task(*cell, repetition, settings.seed)
             for cell in cells for repetition in range(repetitions(*cell, settings.effort))]  # fmt: skip
    runs: dict[tuple[str, str], list[Summary]] = {cell: [] for cell in cells}
    for task, summary in zip(tasks, run_all(runner, trial.run_trial, tasks, "Named scenarios"), strict=True):
        runs[str(task.scenario), task.method].append(summary)
    results = {cell: trial.averaged(of_cell) for cell, of_cell in runs.items()}
    errors = {cell: verdicts.error_ms(of_cell) for cell, of_cell in runs.items()}
    tables.write_named(out / "named.csv", results)
    tables.print_named(console, results)
    plot.draw_named("Named scenarios", results, out / "named")
    return verdicts.named(results, errors)


def repetitions(scenario: str, method: str, effort: Effort) -> int:
    if scenario in RANDOM_PUBLICATIONS:
        return effort.repetitions
    is_certain = method == IDEAL or not METHODS[method].depends_on_chance
    return 1 if is_certain else effort.steady_repetitions


def run_validation(settings: Settings, runner: Runner, out: Path, console: Console) -> list[Verdict]:
    numbers = range(settings.effort.validation_scenarios)
    methods = (*VALIDATION, IDEAL)
    tasks = [Task(number, method, 0, settings.seed) for number in numbers for method in methods]
    summaries = run_all(runner, trial.run_trial, tasks, "Random scenarios")
    by_scenario: list[dict[str, Summary]] = []
    for number in numbers:
        of_one = summaries[number * len(methods) : (number + 1) * len(methods)]
        by_scenario.append(dict(zip(methods, of_one, strict=True)))
    write_validation(tasks, summaries, out)
    ratios = {method: verdicts.ratios_of(method, by_scenario) for method in VALIDATION}
    tables.write_values(out / "ratios.csv", list(ratios.values()))
    tables.print_ratios(console, ratios, len(numbers))
    plot.draw_ratios(f"{len(numbers)} random scenarios", ratios, out / "ratios")
    return verdicts.validation(ratios)


def write_validation(tasks: Sequence[Task], summaries: Sequence[Summary], out: Path) -> None:
    abouts = {task.scenario: trial.make_scenario(task).about for task in tasks if task.method == IDEAL}
    rows = [[task.scenario, abouts[task.scenario], task.method, summary.completion_mean_ms,
             summary.completion_p99_ms, summary.messages]
            for task, summary in zip(tasks, summaries, strict=True)]  # fmt: skip
    heading = ["scenario", "about", "method", "completion_mean_ms", "completion_p99_ms", "messages"]
    tables.write_rows(out / "validation.csv", heading, rows)


def write_record(settings: Settings, found: Sequence[Verdict], out: Path) -> None:
    """What made these results, so that anyone can make them again."""
    record = {
        "command": settings.command,
        "seed": settings.seed,
        "effort": asdict(settings.effort),
        "verdicts": [asdict(verdict) for verdict in found],
    }
    (out / "run.json").write_text(json.dumps(record, indent=2) + "\n")
