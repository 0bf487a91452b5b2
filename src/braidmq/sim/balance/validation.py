"""Random scenarios that no policy was shaped on.

Two to ten members of very different speed, four kinds of work, any load, slow and shaky networks, speeds
that drift, publications in batches. A scenario is a function of its number and the seed of the experiment.
"""

from collections.abc import Callable
from math import exp, log
from random import Random
from typing import Final

from braidmq.sim.balance.scenario import MemberModel, Scenario, poisson

DURATION_S: Final = 15.0
MESSAGES_MAX: Final = 8000  # faster scenarios are shorter
WORK_MAX: Final = 40.0
BATCH: Final = 10

WORK: Final[dict[str, Callable[[Random], float]]] = {
    "deterministic": lambda _rng: 1.0,
    "exponential": lambda rng: rng.expovariate(1.0),
    "lognormal": lambda rng: rng.lognormvariate(-0.5, 1.0),
    "pareto": lambda rng: rng.paretovariate(1.5) / 3.0,
}


def validation_scenario(number: int, rng: Random) -> Scenario:
    members = _members(rng)
    kind = rng.choice(list(WORK))
    load = rng.uniform(0.40, 0.95)
    rate = load * sum(1 / member.service_s for member in members)
    is_batched = rng.random() < 0.25
    jitter_s = rng.choice((0.0, 0.001, rng.uniform(0, 0.005)))
    spike_share = 0.01 if rng.random() < 0.25 else 0.0
    duration_s = min(DURATION_S, MESSAGES_MAX / rate)
    times = poisson(rate / BATCH, duration_s, rng) if is_batched else poisson(rate, duration_s, rng)
    if is_batched:
        times = [time for time in times for _ in range(BATCH)]
    work = [min(WORK[kind](rng), WORK_MAX) for _ in times]
    about = f"{len(members)} members, {kind}, load {load:.2f}{', batches' if is_batched else ''}"
    return Scenario(f"v{number}", times, work, members, jitter_s, spike_share, about)


def _members(rng: Random) -> tuple[MemberModel, ...]:
    mean_s, spread = _log_uniform(rng, 0.004, 0.080), _log_uniform(rng, 1.0, 25.0)
    drifts = rng.random() < 0.33
    return tuple(
        MemberModel(
            service_s=mean_s * spread ** (rng.random() - 0.5),
            delay_s=_log_uniform(rng, 0.0002, 0.030),
            drift=(rng.uniform(0.1, 0.5), rng.uniform(2.0, 10.0), rng.uniform(0.0, 6.28)) if drifts else None,
        )
        for _ in range(rng.randint(2, 10))
    )


def _log_uniform(rng: Random, least: float, most: float) -> float:
    return exp(rng.uniform(log(least), log(most)))
