"""What experiments say: verdicts, tables as CSV and on the terminal, and figures that are the same byte by
byte.
"""

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from braidmq.sim.optional import load


@dataclass(frozen=True, slots=True)
class Verdict:
    """One claim, what was found, and whether they agree."""

    claim: str
    found: str
    holds: bool


def write_rows(path: Path, heading: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(heading)
        writer.writerows([_short(value) for value in row] for row in rows)


def write_values(path: Path, values: Sequence[Any]) -> None:
    """Dataclass values, a column a field."""
    names = [field.name for field in fields(values[0])]
    write_rows(path, names, [[getattr(value, name) for name in names] for value in values])


def write_record(path: Path, about: Mapping[str, object], verdicts: Sequence[Verdict]) -> None:
    """What made these results, so that anyone can make them again."""
    record = {**about, "verdicts": [asdict(verdict) for verdict in verdicts]}
    path.write_text(json.dumps(record, indent=2) + "\n")


def print_table(
    console: Console, title: str, heading: Sequence[str], rows: Iterable[Sequence[object]]
) -> None:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    for number, name in enumerate(heading):
        table.add_column(name, justify="right" if number else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(f"{cell:.2f}" if isinstance(cell, float) else str(cell) for cell in row))
    console.print(table)


def print_verdicts(console: Console, verdicts: Sequence[Verdict]) -> None:
    table = Table(title="Verdicts", title_justify="left", box=SIMPLE_HEAD)
    for heading in ("claim", "found", "verdict"):
        table.add_column(heading)
    for verdict in verdicts:
        table.add_row(verdict.claim, verdict.found, "[green]holds" if verdict.holds else "[red]fails")
    console.print(table)


def pyplot() -> Any:
    matplotlib = load("matplotlib", "The figures", "'braidmq[sim]'")
    matplotlib.use("Agg")
    matplotlib.rcParams.update({"font.size": 9})
    return load("matplotlib.pyplot", "The figures", "'braidmq[sim]'")


def save_png(plt: Any, figure: Any, path: Path) -> None:
    figure.savefig(path.with_suffix(".png"), dpi=80, metadata={"Software": None})
    plt.close(figure)


def _short(value: object) -> object:
    return f"{value:.6g}" if isinstance(value, float) else value
