"""Results as CSV, as Parquet and on the terminal."""

import csv
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path

from rich.console import Console
from rich.table import Table

from braidmq.sim.bloom.sweeps import Row
from braidmq.sim.bloom.trial import METHODS
from braidmq.sim.bloom.verdicts import Verdict
from braidmq.sim.optional import load


def write_csv(rows: Sequence[Row], path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)], lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({name: _short(value) for name, value in asdict(row).items()})


def write_parquet(rows: Sequence[Row], path: Path) -> None:
    pyarrow = load("pyarrow", "The Parquet tables", "'braidmq[sim]'")
    parquet = load("pyarrow.parquet", "The Parquet tables", "'braidmq[sim]'")
    parquet.write_table(pyarrow.Table.from_pylist([asdict(row) for row in rows]), path, compression="zstd")


def print_figure(console: Console, title: str, rows: Sequence[Row]) -> None:
    table = Table(title=title, title_justify="left")
    table.add_column("setting")
    for method in METHODS:
        table.add_column(method, justify="right")
    table.add_column("lost as printed", justify="right")
    for key in dict.fromkeys((row.mode, row.parameter, row.value) for row in rows):
        point = {row.method: row for row in rows if (row.mode, row.parameter, row.value) == key}
        lost = max(row.missed_share for row in point.values())
        modes = {row.mode for row in rows}
        setting = f"{key[1]} = {key[2]:g}" + (f", {key[0]}" if len(modes) > 1 else "")
        averages = [f"{point[method].queries:,.1f}" for method in METHODS]
        table.add_row(setting, *averages, f"{lost:.1%}" if lost else "")
    console.print(table)


def print_verdicts(console: Console, verdicts: Sequence[Verdict]) -> None:
    table = Table(title="Verdicts", title_justify="left")
    for heading in ("claim", "found", "verdict"):
        table.add_column(heading)
    for verdict in verdicts:
        table.add_row(verdict.claim, verdict.found, "[green]holds" if verdict.holds else "[red]fails")
    console.print(table)


def _short(value: object) -> object:
    return f"{value:.6g}" if isinstance(value, float) else value
