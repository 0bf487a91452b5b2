"""What happens in a run: when messages are published, how members work, and what the network does to them.

Values only. Times are seconds from the first publication on; a run ends when every message is processed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, pi, sin
from random import Random

NETWORK_DELAY_S = 0.0003  # one way, where a scenario says nothing else


@dataclass(frozen=True, slots=True)
class MemberModel:
    """One subscriber: it works on one message at a time, first come first served."""

    service_s: float
    delay_s: float = NETWORK_DELAY_S  # one way
    joins_at_s: float | None = None  # None: there from the beginning
    slow: tuple[float, float, float] | None = None  # from, to, service time in between
    pause: tuple[float, float] | None = None  # from, to: it takes messages, but its work stands still
    drift: tuple[float, float, float] | None = None  # share by which the speed swings, period, phase

    def finish_s(self, start_s: float, work: float) -> float:
        """When a message of `work` times the usual effort is done that is taken at `start_s`."""
        done_s = start_s + self.service_at(start_s) * work
        if self.pause is not None:
            begins_s, ends_s = self.pause
            if begins_s <= start_s < ends_s:
                done_s += ends_s - start_s
            elif start_s < begins_s < done_s:
                done_s += ends_s - begins_s
        return done_s

    def service_at(self, now: float) -> float:
        if self.slow is not None and self.slow[0] <= now < self.slow[1]:
            return self.slow[2]
        if self.drift is not None:
            share, period_s, phase = self.drift
            return self.service_s * (1 + share * sin(2 * pi * now / period_s + phase))
        return self.service_s


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    publish_s: Sequence[float]
    work: Sequence[float]  # of each message, 1 = the member's service time
    members: tuple[MemberModel, ...]
    jitter_s: float = 0.0  # added to each way, uniformly from 0 on
    spike_share: float = 0.0  # of the ways that take SPIKE_S longer
    about: str = field(default="", compare=False)


SPIKE_S = 0.03


def every(interval_s: float, duration_s: float) -> list[float]:
    return [number * interval_s for number in range(ceil(duration_s / interval_s - 1e-9))]


def poisson(rate: float, duration_s: float, rng: Random) -> list[float]:
    times: list[float] = []
    now = rng.expovariate(rate)
    while now < duration_s:
        times.append(now)
        now += rng.expovariate(rate)
    return times
