"""`braidmq sim`: the papers' experiments, and clusters that are broken on purpose."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter, validators
from rich.console import Console

from braidmq.cli.sim_balance import balance
from braidmq.cli.sim_cluster import cluster
from braidmq.cli.sim_overlay import overlay
from braidmq.cli.spark import trial_runner
from braidmq.sim.bloom.experiment import FIGURES, Settings, run

sim = App(name="sim", help="Run an experiment of the papers.", help_flags=["--help"])
sim.command(balance)
sim.command(cluster)
sim.command(overlay)

Figure = Literal["4", "5", "6", "matching", "hierarchy", "all"]


@sim.command
def bloom(
    *,
    figure: Annotated[tuple[Figure, ...], Parameter(negative=())] = ("all",),
    quick: Annotated[bool, Parameter(negative=())] = False,
    seed: int = 1,
    out: Path = Path("braidmq-bloom"),
    processes: Annotated[int | None, Parameter(validator=validators.Number(gte=1))] = None,
    spark: str | None = None,
) -> int:
    """Wildcard subscriptions in Bloom filters: how many questions a published topic costs.

    Parameters
    ----------
    figure
        A figure of the paper; `matching` (a match exists) and `hierarchy` (shared levels) are not in it.
        Can be given several times.
    quick
        Fewer runs a point: done in a minute.
    seed
        The same seed gives the same results.
    out
        Directory for the tables (CSV, Parquet) and figures (PNG, SVG).
    processes
        Worker processes; as many as there are cores by default.
    spark
        Run on this Spark master instead, as in `local[4]` or `spark://host:7077`.
    """
    figures = FIGURES if "all" in figure else tuple(name for name in FIGURES if name in figure)
    runner = trial_runner(processes, spark)
    console = Console()
    holds = run(Settings(figures, seed, quick), runner, out, console)
    console.print(f"Tables and figures are in {out}.")
    return 0 if holds else 1
