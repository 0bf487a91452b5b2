"""Results as CSV and on the terminal."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from braidmq.sim.balance import printed
from braidmq.sim.balance.thesis import SteadyRow
from braidmq.sim.balance.trial import Summary
from braidmq.sim.balance.verdicts import Named, Ratios, Verdict

SCENARIOS_PER_TABLE = 4  # fits a terminal of 80 columns


def write_rows(path: Path, heading: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(heading)
        writer.writerows([_short(value) for value in row] for row in rows)


def write_values(path: Path, values: Sequence[Any]) -> None:
    """Dataclass values, a column a field."""
    names = [field.name for field in fields(values[0])]
    write_rows(path, names, [[getattr(value, name) for name in names] for value in values])


def write_named(path: Path, results: Named) -> None:
    measures = [field.name for field in fields(Summary)]
    rows = []
    for (scenario, method), summary in results.items():
        reference = printed.WAITS_MS.get(method, {}).get(scenario, ("", ""))
        rows.append([scenario, method, *asdict(summary).values(), *reference])
    heading = ["scenario", "method", *measures, "reference_wait_mean_ms", "reference_wait_p99_ms"]
    write_rows(path, heading, rows)


def print_named(console: Console, results: Named) -> None:
    scenarios = list(dict.fromkeys(scenario for scenario, _ in results))
    for start in range(0, len(scenarios), SCENARIOS_PER_TABLE):
        print_waits(console, results, scenarios[start : start + SCENARIOS_PER_TABLE])


def print_waits(console: Console, results: Named, scenarios: Sequence[str]) -> None:
    table = Table(title="Wait in ms, mean/p99; dim: the reference", title_justify="left", box=SIMPLE_HEAD)
    for heading in ("method", *scenarios):
        table.add_column(heading, justify="left" if heading == "method" else "right", no_wrap=True)
    for method in dict.fromkeys(method for _, method in results):
        cells = [results[scenario, method] for scenario in scenarios]
        table.add_row(method, *(pair(cell.wait_mean_ms, cell.wait_p99_ms) for cell in cells))
        reference = printed.WAITS_MS.get(method, {})
        known = (f"[dim]{pair(*reference[name])}" if name in reference else "" for name in scenarios)
        table.add_row("", *known)
    console.print(table)


def print_ratios(console: Console, ratios: Mapping[str, Ratios], scenarios: int) -> None:
    title = f"Completion over that of the ideal queue, {scenarios} random scenarios"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    for heading in ("method", "mean", "ref.", "worst", "p99", "beats\nstatus"):
        table.add_column(heading, justify="left" if heading == "method" else "right", no_wrap=True)
    for row in ratios.values():
        reference = printed.RATIOS.get(row.method)
        table.add_row(
            row.method, f"{row.geometric_mean:.2f}", "" if reference is None else f"[dim]{reference[0]:.2f}",
            _three(row.worst), f"{row.p99_geometric_mean:.2f}", f"{row.better_than_status:.0%}",
        )  # fmt: skip
    console.print(table)


def print_steady(
    console: Console, title: str, ours: Sequence[SteadyRow], theirs: Sequence[SteadyRow]
) -> None:
    table = Table(title=f"{title}; dim: the thesis", title_justify="left", box=SIMPLE_HEAD)
    for heading in ("subscriber", "messages", "least", "most", "mean", "deviation"):
        table.add_column(heading, justify="right")
    for mine, its in zip(ours, theirs, strict=True):
        values = zip(list(asdict(mine).values())[1:], list(asdict(its).values())[1:], strict=True)
        table.add_row(str(mine.subscriber), *(f"{a:.4g} [dim]{b:g}" for a, b in values))
    console.print(table)


def print_verdicts(console: Console, verdicts: Sequence[Verdict]) -> None:
    table = Table(title="Verdicts", title_justify="left", box=SIMPLE_HEAD)
    for heading in ("claim", "found", "verdict"):
        table.add_column(heading)
    for verdict in verdicts:
        table.add_row(verdict.claim, verdict.found, "[green]holds" if verdict.holds else "[red]fails")
    console.print(table)


def pair(mean: float, p99: float) -> str:
    return f"{_three(mean)}/{_three(p99)}"


def _three(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.2g}" if value < 10 else f"{value:.3g}"


def _short(value: object) -> object:
    return f"{value:.6g}" if isinstance(value, float) else value
