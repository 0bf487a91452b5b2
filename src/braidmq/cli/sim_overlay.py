"""`braidmq sim overlay`: the experiments on the overlay between brokers."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter, validators
from rich.console import Console

from braidmq.cli.spark import trial_runner
from braidmq.errors import ConfigError
from braidmq.sim.overlay.parts import CHEAP_PARTS, PARTS

Part = Literal["figures", "scale", "picture", "messages", "churn", "all"]


def overlay(
    *,
    part: Annotated[tuple[Part, ...], Parameter(negative=())] = CHEAP_PARTS,
    quick: Annotated[bool, Parameter(negative=())] = False,
    seed: int = 1,
    out: Path = Path("braidmq-overlay"),
    processes: Annotated[int | None, Parameter(validator=validators.Number(gte=1))] = None,
    spark: str | None = None,
) -> int:
    """One topic's deliveries among many brokers: how many hops they take, by method.

    Parameters
    ----------
    part
        `figures` (the paper's), `scale` (100,000 brokers), `picture` (a tree that grows, as a web page);
        `messages` (10,000 brokers message by message, minutes) and `churn` (brokers come, leave and crash).
        Can be given several times.
    quick
        Fewer runs and smaller networks: done in seconds.
    seed
        The same seed gives the same results.
    out
        Directory for the tables (CSV), figures (PNG) and the page (HTML).
    processes
        Worker processes; as many as there are cores by default.
    spark
        Run on this Spark master instead, as in `local[4]` or `spark://host:7077`.
    """
    try:
        from braidmq.sim.overlay.experiment import Settings, run
    except ImportError as error:
        raise ConfigError(f"The experiments need {error.name}: pip install 'braidmq[sim]'") from error
    chosen = PARTS if "all" in part else tuple(name for name in PARTS if name in part)
    console = Console()
    holds = run(Settings(chosen, seed, quick), trial_runner(processes, spark), out, console)
    console.print(f"Tables and figures are in {out}.")
    return 0 if holds else 1
