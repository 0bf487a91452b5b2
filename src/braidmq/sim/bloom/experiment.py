"""`braidmq sim bloom`: runs the figures that are asked for, writes what they found, and judges it."""

import json
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from rich.console import Console

from braidmq.sim.bloom import figure4, figure5, figure6, hierarchy, matching, plot, tables, trial, verdicts
from braidmq.sim.bloom.sweeps import FULL, QUICK, Effort, Row, SweepFigure
from braidmq.sim.bloom.trial import TrialResult
from braidmq.sim.runner import Runner, run_all

SWEEP_FIGURES: dict[str, SweepFigure] = {
    "4": figure4.FIGURE, "5": figure5.FIGURE, "6": figure6.FIGURE, "matching": matching.FIGURE}
FIGURES = (*SWEEP_FIGURES, hierarchy.NAME)


@dataclass(frozen=True, slots=True)
class Settings:
    """What a run is a function of, besides where its results go."""

    figures: tuple[str, ...]
    seed: int
    quick: bool

    @property
    def effort(self) -> Effort:
        return QUICK if self.quick else FULL

    @property
    def command(self) -> str:
        figure = "all" if self.figures == FIGURES else " --figure ".join(self.figures)
        return f"braidmq sim bloom --figure {figure} --seed {self.seed}{' --quick' if self.quick else ''}"


_P = TypeVar("_P", bound=Hashable)
_P_co = TypeVar("_P_co", bound=Hashable, covariant=True)


class _Task(Protocol[_P_co]):
    @property
    def parameters(self) -> _P_co: ...


def run(settings: Settings, runner: Runner, out: Path, console: Console) -> bool:
    """True if every verdict holds."""
    out.mkdir(parents=True, exist_ok=True)
    found: list[verdicts.Verdict] = []
    for name in settings.figures:
        if name == hierarchy.NAME:
            run_hierarchy(settings, runner, out, console)
        else:
            found += run_sweeps(SWEEP_FIGURES[name], settings, runner, out, console)
    if found:
        tables.print_verdicts(console, found)
    write_record(settings, found, out)
    return all(verdict.holds for verdict in found)


def run_sweeps(
    figure: SweepFigure, settings: Settings, runner: Runner, out: Path, console: Console
) -> list[verdicts.Verdict]:
    tasks = figure.tasks(settings.seed, settings.effort)
    results = by_parameters(tasks, run_all(runner, trial.run_trial, tasks, figure.title))
    rows = figure.rows(results)
    write_tables(rows, out / figure.name)
    plot.draw_sweeps(figure.title, rows, out / figure.name)
    tables.print_figure(console, figure.title, rows)
    found = verdicts.closed_forms(rows)
    return found + verdicts.printed_numbers(results) if figure is figure6.FIGURE else found


def run_hierarchy(settings: Settings, runner: Runner, out: Path, console: Console) -> None:
    effort = settings.effort
    tasks = hierarchy.tasks(settings.seed, max(1, effort.matching_sets // 3), 10 * effort.matching_published)
    results = by_parameters(tasks, run_all(runner, hierarchy.run_trial, tasks, hierarchy.TITLE))
    rows = hierarchy.rows(results)
    write_tables(rows, out / hierarchy.NAME)
    plot.draw_hierarchy(hierarchy.TITLE, rows, out / hierarchy.NAME)
    tables.print_figure(console, hierarchy.TITLE, rows)


def by_parameters(
    tasks: Sequence[_Task[_P]], results: Sequence[TrialResult]
) -> Mapping[_P, list[TrialResult]]:
    grouped: dict[_P, list[TrialResult]] = defaultdict(list)
    for task, result in zip(tasks, results, strict=True):
        grouped[task.parameters].append(result)
    return grouped


def write_tables(rows: Sequence[Row], path: Path) -> None:
    tables.write_csv(rows, path.with_suffix(".csv"))
    tables.write_parquet(rows, path.with_suffix(".parquet"))


def write_record(settings: Settings, found: Sequence[verdicts.Verdict], out: Path) -> None:
    """What made these results, so that anyone can make them again."""
    record = {
        "command": settings.command,
        "seed": settings.seed,
        "effort": asdict(settings.effort),
        "verdicts": [asdict(verdict) for verdict in found],
    }
    (out / "run.json").write_text(json.dumps(record, indent=2) + "\n")
