"""`braidmq sim cluster`: clusters that are broken on purpose, by seed."""

from typing import Annotated

from cyclopts import Parameter, validators
from rich.console import Console

from braidmq.errors import ConfigError
from braidmq.sim.cluster.hunt import hunt, print_story
from braidmq.sim.cluster.plan import FAULTS, FEATURES, Task
from braidmq.sim.runner import LocalRunner

Positive = Annotated[int, Parameter(validator=validators.Number(gte=1))]


def cluster(
    *,
    seeds: Positive = 1000,
    first: int = 0,
    nodes: Positive = 3,
    faults: str = ",".join(FAULTS),
    features: str | None = None,
    processes: Annotated[int | None, Parameter(validator=validators.Number(gte=1))] = None,
    trace: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Crash, part and cut simulated nodes, and check every promise. One seed is one story.

    Parameters
    ----------
    seeds
        How many stories.
    first
        The seed of the first.
    nodes
        In each cluster.
    faults
        What may break, with commas between, or `none`: crash (of a node), disk (lost in a crash), cut (of a
        link), part (nodes from each other), oneway (one way of a link), lost (a client's connection), away
        (clients), skew (wrong clocks), slow (stores and clients).
    features
        What else there is, or `none`: clean (sessions that don't last), tight (queues that are too short),
        retained (messages), groups (shared), movers (clients that come back at another node). By default all
        that holds in so many nodes.
    processes
        Worker processes; as many as there are cores by default.
    trace
        Print the first story, event by event.
    """
    chosen = _chosen(faults, FAULTS), None if features is None else _chosen(features, FEATURES)
    tasks = [Task(seed, nodes, *chosen) for seed in range(first, first + seeds)]
    console = Console()
    if trace:
        print_story(tasks[0], console)
    return 0 if hunt(tasks, LocalRunner(1 if seeds == 1 else processes), console) else 1


def _chosen(text: str, known: tuple[str, ...]) -> tuple[str, ...]:
    names = [] if text == "none" else text.split(",")
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ConfigError(f"{unknown[0]} is none of {', '.join(known)}")
    return tuple(name for name in known if name in names)
