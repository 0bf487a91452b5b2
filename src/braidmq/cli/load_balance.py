"""`braidmq load balance`: shared subscriptions, live."""

from pathlib import Path
from typing import Annotated, Final, Literal

from cyclopts import Parameter
from rich.console import Console

from braidmq.load.balance.experiment import ALL, Settings, run

FILE_COLUMNS: Final = 110
Scenario = Literal["all", "1", "2", "slow", "pause", "death", "kept-session", "join"]
Policy = Literal["random", "round_robin", "status", "status2", "least_inflight", "adaptive", "mosquitto"]


def balance(
    *,
    scenario: Annotated[tuple[Scenario, ...], Parameter(negative=())] = ("all",),
    policy: Annotated[tuple[Policy, ...], Parameter(negative=())] = (),
    seconds: float = 15.0,
    json: Path | None = None,
    figure: Path | None = None,
) -> int:
    """Shared subscriptions live: how long messages wait, with real brokers and real clients.

    Starts brokers of its own on free ports of this machine, and a process for each subscriber, whose work is
    waiting. Takes about ten minutes in full; with less on a busy machine the waits mean little.

    Parameters
    ----------
    scenario
        1 and 2 are the thesis's; in the others a member slows down tenfold, pauses, is killed (its session
        ends with it, or is kept), or joins late. Can be given several times.
    policy
        Of our broker, or `mosquitto`. Can be given several times; those that the scenario is for by default.
    seconds
        How long messages are published. Only runs of 15 s are held against the goals.
    json
        Write the results to this file.
    figure
        Draw the results into this PNG file; needs the extra `sim`.
    """
    trials = ALL if "all" in scenario else tuple(name for name in ALL if name in scenario)
    settings = Settings(trials, tuple(policy), seconds)
    return 0 if run(settings, _console(), json, figure) else 1


def _console() -> Console:
    """The tables are wider than the 80 columns that a file is taken for."""
    console = Console()
    return console if console.is_terminal else Console(width=FILE_COLUMNS)
