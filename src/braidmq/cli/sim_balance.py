"""`braidmq sim balance`: the experiments on shared subscriptions."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter, validators
from rich.console import Console

from braidmq.cli.spark import trial_runner
from braidmq.sim.balance.experiment import SCENARIOS, Settings, run

Scenario = Literal[
    "all", "thesis", "S1", "S2", "S2x", "slow", "join", "pause", "mixed", "burst", "tail", "net",
    "join overload", "validation",
]  # fmt: skip


def balance(
    *,
    scenario: Annotated[tuple[Scenario, ...], Parameter(negative=())] = ("all",),
    quick: Annotated[bool, Parameter(negative=())] = False,
    seed: int = 1,
    out: Path = Path("braidmq-balance"),
    processes: Annotated[int | None, Parameter(validator=validators.Number(gte=1))] = None,
    spark: str | None = None,
) -> int:
    """Shared subscriptions: how long messages wait under each policy.

    Parameters
    ----------
    scenario
        `thesis` (its figures and tables), a named scenario, or `validation` (random ones). Can be given
        several times.
    quick
        Fewer repetitions: done in a minute.
    seed
        The same seed gives the same results.
    out
        Directory for the tables (CSV) and figures (PNG, SVG).
    processes
        Worker processes; as many as there are cores by default.
    spark
        Run on this Spark master instead, as in `local[4]` or `spark://host:7077`.
    """
    chosen = SCENARIOS if "all" in scenario else tuple(name for name in SCENARIOS if name in scenario)
    runner = trial_runner(processes, spark)
    console = Console()
    holds = run(Settings(chosen, seed, quick), runner, out, console)
    console.print(f"Tables and figures are in {out}.")
    return 0 if holds else 1
