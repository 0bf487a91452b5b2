"""`braidmq load balance`: runs what is asked for, one trial after the other, and tells what came of it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import Progress

from braidmq.load.balance import report
from braidmq.load.balance.brokers import find_mosquitto
from braidmq.load.balance.outcome import Outcome, summed_up
from braidmq.load.balance.plan import MOSQUITTO, TRIALS, chosen
from braidmq.load.balance.run import run_trial
from braidmq.sim.balance import tables
from braidmq.sim.balance.named import DURATION_S
from braidmq.sim.balance.verdicts import Verdict

ALL: Final = tuple(TRIALS)


@dataclass(frozen=True, slots=True)
class Settings:
    trials: tuple[str, ...] = ALL
    contenders: tuple[str, ...] = ()  # none: those that each trial is for
    seconds: float = DURATION_S

    @property
    def command(self) -> str:
        trials = "" if self.trials == ALL else "".join(f" --scenario {name}" for name in self.trials)
        contenders = "".join(f" --policy {name}" for name in self.contenders)
        seconds = "" if self.seconds == DURATION_S else f" --seconds {self.seconds:g}"
        return f"braidmq load balance{trials}{contenders}{seconds}"


def run(settings: Settings, console: Console, json_path: Path | None, figure: Path | None) -> bool:
    """True if every goal is met."""
    has_mosquitto = find_mosquitto() is not None
    runs = chosen(settings.trials, settings.contenders, settings.seconds, with_mosquitto=has_mosquitto)
    if not has_mosquitto:
        console.print(f"{MOSQUITTO} isn't installed and is left out. On Debian: apt-get install mosquitto")
    outcomes: list[Outcome] = []
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=len(runs))
        for trial, contender in runs:
            progress.update(task, description=f"{trial.name}, {contender.name}")
            outcomes.append(summed_up(trial, contender, run_trial(trial, contender)))
            progress.advance(task)
    report.print_tables(console, outcomes)
    found: list[Verdict] = report.verdicts(outcomes) if settings.seconds >= DURATION_S else []
    if found:
        tables.print_verdicts(console, found)
    if json_path is not None:
        report.write_json(json_path, settings.command, outcomes, found)
    if figure is not None:
        from braidmq.load.balance.figure import draw

        draw(outcomes, figure)
    return all(verdict.holds for verdict in found)
