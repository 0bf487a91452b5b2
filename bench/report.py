"""Turns what was measured into a table for people and JSON for programs."""

import datetime
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import msgspec
from rich.table import Table

from bench.contenders import find_mosquitto
from bench.measure import Measured, Settings, Side

GENERATOR_BOUND = 0.97  # the generator had this share of the time something to do …
BROKER_IDLE = 0.95  # … and the broker had not
SPREAD_NOTED = 0.15
DISTURBED_NOTED = 0.05
UNITS = {"throughput": "/s", "latency": " µs", "memory": " KiB", "match": " µs"}


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the table, ready to be shown or stored."""

    name: str
    title: str
    kind: str
    goal: str
    verdict: str
    ours: float
    theirs: float | None
    ratio: float | None
    ours_cpu_s_per_million: float
    theirs_cpu_s_per_million: float | None
    cpu_ratio: float | None
    relay_per_s: float | None
    ceiling_per_s: float | None
    rate_per_s: float
    notes: tuple[str, ...]
    samples: dict[str, Side]


def quotient(above: float, below: float | None) -> float | None:
    return above / below if below else None


def verdict(measured: Measured, ratio: float | None) -> str:
    row = measured.row
    figure = measured.ours.median() if row.kind in ("memory", "match") else ratio
    if figure is None:
        return "unknown"
    return "reached" if (figure >= row.goal if row.at_least else figure <= row.goal) else "short"


def faults(side: Side) -> list[str]:
    """What a run must be read with: messages that did not come, came twice, out of order or were refused."""
    ratio = min(sample.delivery_ratio for sample in side.samples)
    sums = {kind: int(sum(getattr(sample, kind) for sample in side.samples))
            for kind in ("duplicates", "order_faults", "refused", "foreign", "broken_links")}
    found = [f"{side.name} delivered {ratio:.2%}"] if ratio < 1 else []
    return found + [f"{side.name}: {count} {kind.replace('_', ' ')}" for kind, count in sums.items() if count]


def doubts(side: Side) -> list[str]:
    """What makes the figure itself less certain."""
    found = []
    if side.median("generator_busy") > GENERATOR_BOUND and side.median("broker_busy") < BROKER_IDLE:
        found.append(f"{side.name}: the generator is the limit")
    if side.spread > SPREAD_NOTED:
        found.append(f"{side.name} ±{side.spread:.0%}")
    if side.median("disturbed") > DISTURBED_NOTED:
        found.append(f"{side.name} disturbed {side.median('disturbed'):.0%} of the time")
    return found


def summarise(measured: Measured) -> Summary:
    row, ours, theirs = measured.row, measured.ours, measured.theirs
    ratio = quotient(ours.median(), theirs.median()) if theirs else None
    cpu, their_cpu = ours.median("cpu_s_per_million"), theirs.median("cpu_s_per_million") if theirs else None
    sides = {
        key: side
        for key, side in
        (("ours", ours), ("mosquitto", theirs), ("relay", measured.relay), ("ceiling", measured.ceiling))
        if side is not None
    }
    return Summary(
        name=row.name, title=row.title, kind=row.kind, goal=row.goal_text, verdict=verdict(measured, ratio),
        ours=ours.median(), theirs=theirs.median() if theirs else None, ratio=ratio,
        ours_cpu_s_per_million=cpu, theirs_cpu_s_per_million=their_cpu, cpu_ratio=quotient(cpu, their_cpu),
        relay_per_s=measured.relay.median() if measured.relay else None,
        ceiling_per_s=measured.ceiling.median() if measured.ceiling else None,
        rate_per_s=measured.rate_per_s, samples=sides,
        notes=tuple(note for side in sides.values() if side in (ours, theirs)
                    for note in (*faults(side), *doubts(side))),
    )


def number(value: float | None, unit: str = "") -> str:
    """Three figures, with M and k; a dash for what was not measured."""
    if value is None or value == 0:
        return "-"
    for size, letter in ((1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:.3g}{letter}{unit}"
    return f"{value:.3g}{unit}"


def table(summaries: list[Summary], peer: str = "Mosquitto") -> Table:
    shown = Table(title=f"ours ÷ {peer}, medians", title_justify="left")
    headings = ("case", "ours", peer, "ratio", "goal", "", "CPU s per M: ours", peer, "ratio",
                "bare relay", "generator's ceiling")
    for heading in headings:
        shown.add_column(heading, justify="left" if heading in ("case", "") else "right")
    for one in summaries:
        unit = UNITS[one.kind]
        shown.add_row(
            one.title, number(one.ours, unit), number(one.theirs, unit), number(one.ratio), one.goal,
            f"[{'green' if one.verdict == 'reached' else 'red'}]{one.verdict}[/]",
            number(one.ours_cpu_s_per_million), number(one.theirs_cpu_s_per_million), number(one.cpu_ratio),
            number(one.relay_per_s, "/s"), number(one.ceiling_per_s, "/s"),
        )
    return shown


def machine() -> dict[str, Any]:
    """Enough to tell two machines apart, and nothing that names one."""
    models = [line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
              if line.startswith("model name")]
    asked = [find_mosquitto() or "true", "-h"]
    said = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
    return {
        "processor": models[0] if models else platform.machine(),
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "mosquitto": said.splitlines()[0] if said else "",
    }


def store(path: Path, settings: Settings, summaries: list[Summary]) -> None:
    write(path, settings, summaries)


def write(path: Path, settings: object, rows: object) -> None:
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    whole = {"measured_at": now, "machine": machine(), "settings": settings, "rows": rows}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(whole), indent=1) + b"\n")
