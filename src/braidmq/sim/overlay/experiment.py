"""`braidmq sim overlay`: runs the parts that are asked for, writes and draws results, and judges them."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Final

from rich.console import Console

from braidmq.sim import report
from braidmq.sim.overlay import picture, plot, printed, verdicts
from braidmq.sim.overlay.churn import ChurnResult, ChurnTask, run_churn
from braidmq.sim.overlay.messages import MessageTask, run_messages
from braidmq.sim.overlay.parts import CHEAP_PARTS, CHURN, FIGURES, MESSAGES, PARTS, PICTURE, SCALE
from braidmq.sim.overlay.paths import SG_TBPS, Measured, PathRow, PathTask, averaged, run_paths
from braidmq.sim.report import Verdict
from braidmq.sim.runner import Runner, run_all

CHURN_COLUMNS: Final = (
    "expected", "missed", "repeated", "hops_mean", "hops_max", "delay_mean_ms", "delay_max_ms",
    "messages_per_publication", "delegated_again_per_publication",
)  # fmt: skip
_SHOWN: Final = (SG_TBPS, "P, L=60", "P, L=120", "F, L=60", "F, L=120", "Scribe b=4", "Scribe b=1")


@dataclass(frozen=True, slots=True)
class Effort:
    runs: int
    can_runs: int  # CAN-MC's floods are the slow part
    scale_brokers: int
    scale_runs: int
    message_brokers: int
    message_subscribers: tuple[int, ...]
    churn_rates: tuple[float, ...]  # events a second of each kind
    churn_runs: int
    churn_brokers: int = 200
    churn_subscribers: int = 80
    churn_seconds: float = 60.0


FULL: Final = Effort(
    runs=24,
    can_runs=printed.RUNS,
    scale_brokers=100_000,
    scale_runs=2,
    message_brokers=printed.BROKERS,
    message_subscribers=printed.SUBSCRIBERS,
    churn_rates=(0.0, 0.25, 0.5, 1.0, 2.0),
    churn_runs=6,
)
QUICK: Final = Effort(
    runs=4,
    can_runs=1,
    scale_brokers=20_000,
    scale_runs=1,
    message_brokers=400,
    message_subscribers=(10, 20, 40, 80, 160),
    churn_rates=(0.0, 1.0),
    churn_runs=1,
)


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
    steps = {
        FIGURES: run_figures,
        SCALE: run_scale,
        PICTURE: run_picture,
        MESSAGES: run_by_message,
        CHURN: run_under_churn,
    }
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


def run_picture(settings: Settings, _: Runner, out: Path, console: Console) -> list[Verdict]:
    (out / "tree.html").write_text(picture.page(settings.seed))
    console.print(f"A tree that grows: {out / 'tree.html'}")
    return []


def run_by_message(settings: Settings, runner: Runner, out: Path, console: Console) -> list[Verdict]:
    """Every message of every broker, for both table sizes."""
    effort = settings.effort
    tasks = [
        MessageTask(effort.message_brokers, effort.message_subscribers, size, settings.seed)
        for size in printed.TABLE_SIZES
    ]
    results = run_all(runner, run_messages, tasks, "Message by message")
    rows = [row for result in results for row in result.rows]
    report.write_values(out / "messages.csv", rows)
    lines = [
        [f"L={row.entries_max}, {row.subscribers}", row.hops_first, row.hops_mean, row.hops_max, row.missed,
         row.repeated, row.messages] for row in rows
    ]  # fmt: skip
    heading = ["", "first", "third", "longest", "missed", "repeated", "messages"]
    report.print_table(console, f"{effort.message_brokers:,} brokers: hops by message", heading, lines)
    return verdicts.by_message(results)


def run_under_churn(settings: Settings, runner: Runner, out: Path, console: Console) -> list[Verdict]:
    """Joins, leaves and crashes a second against misses, repeats, paths and messages."""
    effort = settings.effort
    tasks = [
        ChurnTask(
            settings.seed * 1000 + number,
            brokers=effort.churn_brokers,
            subscribers=effort.churn_subscribers,
            publishers=1,
            entries_max=60,
            seconds=effort.churn_seconds,
            joins_per_s=2 * rate,
            leaves_per_s=rate,
            crashes_per_s=rate,
        )
        for rate in effort.churn_rates
        for number in range(effort.churn_runs)
    ]
    results = run_all(runner, run_churn, tasks, "Churn")
    by_rate = {
        rate: [result for task, result in zip(tasks, results, strict=True) if task.crashes_per_s == rate]
        for rate in effort.churn_rates
    }
    rows = [[str(rate), *churn_row(ones)] for rate, ones in by_rate.items()]
    report.write_rows(out / "churn.csv", ["rate_per_s", *CHURN_COLUMNS], rows)
    heading = ["rate", *(name.replace("_", "\n") for name in CHURN_COLUMNS)]
    report.print_table(console, "Leaves and crashes a second, and twice as many joins", heading, rows)
    return [verdicts.under_churn(results)]


def churn_row(results: Sequence[ChurnResult]) -> list[object]:
    """Sums and averages of all runs with the same rate."""
    publications = sum(result.publications for result in results)
    return [
        sum(result.expected for result in results),
        sum(result.missed for result in results),
        sum(result.repeated for result in results),
        fmean(result.hops_mean for result in results),
        max(result.hops_max for result in results),
        fmean(result.delay_mean_ms for result in results),
        max(result.delay_max_ms for result in results),
        sum(result.messages for result in results) / publications,
        sum(result.delegated_again for result in results) / publications,
    ]


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
