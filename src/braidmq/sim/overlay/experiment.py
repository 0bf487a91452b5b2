"""`braidmq sim overlay`: runs the parts that are asked for, writes and draws results, and judges them."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from rich.console import Console

from braidmq.sim import report
from braidmq.sim.overlay import plot, printed, verdicts
from braidmq.sim.overlay.parts import CHEAP_PARTS, FIGURES, PARTS, SCALE
from braidmq.sim.overlay.paths import SG_TBPS, Measured, PathRow, PathTask, averaged, run_paths
from braidmq.sim.report import Verdict
from braidmq.sim.runner import Runner, run_all

_SHOWN: Final = (SG_TBPS, "P, L=60", "P, L=120", "F, L=60", "F, L=120", "Scribe b=4", "Scribe b=1")


@dataclass(frozen=True, slots=True)
class Effort:
    runs: int
    can_runs: int  # CAN-MC's floods are the slow part
    scale_brokers: int
    scale_runs: int


FULL: Final = Effort(runs=24, can_runs=printed.RUNS, scale_brokers=100_000, scale_runs=2)
QUICK: Final = Effort(runs=4, can_runs=1, scale_brokers=20_000, scale_runs=1)


@dataclass(frozen=True, slots=True)
class Settings:
    """What a run is a function of, besides where its results go."""

    parts: tuple[str, ...]
    seed: int
    quick: bool

    @property
    def effort(self) -> Effort:
        return QUICK if self.quick else FULL

    @property
    def command(self) -> str:
        chosen = "" if self.parts == CHEAP_PARTS else "".join(f" --part {part}" for part in self.parts)
        if self.parts == PARTS:
            chosen = " --part all"
        return f"braidmq sim overlay{chosen} --seed {self.seed}{' --quick' if self.quick else ''}"


def run(settings: Settings, runner: Runner, out: Path, console: Console) -> bool:
    """True if every verdict holds."""
    out.mkdir(parents=True, exist_ok=True)
    found: list[Verdict] = []
    steps = {FIGURES: run_figures, SCALE: run_scale}
    for part in settings.parts:
        found += steps[part](settings, runner, out, console)
    report.print_verdicts(console, found)
    about = {"command": settings.command, "seed": settings.seed, "effort": asdict(settings.effort)}
    report.write_record(out / "run.json", about, found)
    return all(verdict.holds for verdict in found)


def run_figures(settings: Settings, runner: Runner, out: Path, console: Console) -> list[Verdict]:
    effort = settings.effort
    tasks = [
        PathTask(
            printed.BROKERS, printed.SUBSCRIBERS, number, settings.seed, with_can=number < effort.can_runs
        )
        for number in range(effort.runs)
    ]
    runs = run_all(runner, run_paths, tasks, "Figures 5 to 7")
    rows = averaged(runs)
    report.write_values(out / "paths.csv", rows)
    write_runs(runs, out / "runs.csv")
    title = f"{printed.BROKERS:,} brokers, {effort.runs} runs"
    plot.draw_paths(f"Figure 5: average path length; {title}", rows, "hops_mean", "hops", out / "figure5")
    plot.draw_paths(f"Figure 6: longest path; {title}", rows, "hops_max", "hops", out / "figure6")
    plot.draw_delays(rows, out / "figure7")
    print_paths(console, title, rows)
    return verdicts.figures(rows, runs)


def run_scale(settings: Settings, runner: Runner, out: Path, console: Console) -> list[Verdict]:
    """Ten times the brokers and ten times the subscribers: the paper stops at 10,000."""
    effort = settings.effort
    counts = tuple(10 * 4**power for power in range(7) if 10 * 4**power < 0.51 * effort.scale_brokers)
    tasks = [
        PathTask(effort.scale_brokers, counts, number, settings.seed, with_can=False)
        for number in range(effort.scale_runs)
    ]
    rows = averaged(run_all(runner, run_paths, tasks, f"{effort.scale_brokers:,} brokers"))
    report.write_values(out / "scale.csv", rows)
    plot.draw_paths(
        f"{effort.scale_brokers:,} brokers, {effort.scale_runs} runs",
        rows,
        "hops_mean",
        "hops",
        out / "scale",
    )
    print_paths(console, f"{effort.scale_brokers:,} brokers", rows)
    return [verdicts.scale(rows, effort.scale_brokers)]


def write_runs(runs: Sequence[Sequence[Measured]], path: Path) -> None:
    rows = [
        [number, one.subscribers, one.method, one.hops_mean, one.hops_max]
        for number, run in enumerate(runs)
        for one in run
    ]
    report.write_rows(path, ["run", "subscribers", "method", "hops_mean", "hops_max"], rows)


def print_paths(console: Console, title: str, rows: Sequence[PathRow]) -> None:
    cells = verdicts.by_cell(rows)
    counts = list(dict.fromkeys(row.subscribers for row in rows))
    for measure, kind in (("hops_mean", "average path length"), ("hops_max", "longest path")):
        lines = [
            [str(count), *(getattr(cells[count, method], measure) for method in _SHOWN)] for count in counts
        ]
        report.print_table(console, f"{title}: {kind}", ["to", *_SHOWN], lines)
