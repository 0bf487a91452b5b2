"""The named scenarios of the reference tables: 15 s each, and one of them random only where it says so.

Service times of S1 and S2 have 0.1 ms of overhead, and their interval is the 10.34 ms that the thesis's
table 7 implies; S2x is the same at the nominal 10 ms and 50 ms, which is a load of exactly 1.
"""

from collections.abc import Callable
from random import Random
from typing import Final

from braidmq.sim.balance.scenario import MemberModel, Scenario, every, poisson

DURATION_S: Final = 15.0
THESIS_INTERVAL_S: Final = 0.01034
THESIS_OVERHEAD_S: Final = 0.0001
TAIL_SHAPE: Final = 1.5
TAIL_SERVICE_MAX_S: Final = 1.0


def _members(*service_ms: float) -> tuple[MemberModel, ...]:
    return tuple(MemberModel(service / 1000) for service in service_ms)


def _steady(name: str, interval_s: float, members: tuple[MemberModel, ...], about: str) -> Scenario:
    times = every(interval_s, DURATION_S)
    return Scenario(name, times, [1.0] * len(times), members, about=about)


def s1(_rng: Random) -> Scenario:
    return _steady("S1", THESIS_INTERVAL_S, _members(25.1, 25.1, 25.1), "3 x 25 ms, every 10.34 ms")


def s2(_rng: Random) -> Scenario:
    return _steady("S2", THESIS_INTERVAL_S, _members(25.1, 25.1, 50.1), "25/25/50 ms, every 10.34 ms")


def s2x(_rng: Random) -> Scenario:
    return _steady("S2x", 0.010, _members(25, 25, 50), "25/25/50 ms, every 10 ms: load 1")


def slow(_rng: Random) -> Scenario:
    members = (MemberModel(0.025, slow=(5.0, 10.0, 0.1)), *_members(25, 25))
    return _steady("slow", 0.012, members, "3 x 25 ms, every 12 ms; one takes 100 ms from 5 to 10 s")


def join(_rng: Random) -> Scenario:
    members = (*_members(30, 30, 30), MemberModel(0.03, joins_at_s=5.0))
    return _steady("join", 0.0105, members, "3 x 30 ms, every 10.5 ms; a fourth at 5 s")


def pause(_rng: Random) -> Scenario:
    members = (MemberModel(0.03, pause=(5.0, 7.0)), *_members(30, 30, 30))
    return _steady("pause", 0.010, members, "4 x 30 ms, every 10 ms; one stops from 5 to 7 s")


def mixed(rng: Random) -> Scenario:
    times = poisson(750, DURATION_S, rng)
    members = _members(*[10] * 5, *[20] * 5, *[40] * 5, *[80] * 5)
    return Scenario("mixed", times, [1.0] * len(times), members, about="5 each of 10/20/40/80 ms, 750/s")


def burst(_rng: Random) -> Scenario:
    times = [second + number * 0.0002 for second in range(int(DURATION_S)) for number in range(60)]
    return Scenario("burst", times, [1.0] * len(times), _members(25, 25, 25), about="60 at once each second")


def tail(rng: Random) -> Scenario:
    times = poisson(90, DURATION_S, rng)
    mean_s, least = 0.025, (TAIL_SHAPE - 1) / TAIL_SHAPE
    work = [min(least * rng.paretovariate(TAIL_SHAPE), TAIL_SERVICE_MAX_S / mean_s) for _ in times]
    return Scenario("tail", times, work, _members(25, 25, 25), about="3 x Pareto(1.5) of mean 25 ms, 90/s")


def net(rng: Random) -> Scenario:
    times = poisson(60, DURATION_S, rng)
    members = tuple(MemberModel(0.025, delay_s=delay_ms / 1000) for delay_ms in (1, 20, 100))
    return Scenario("net", times, [1.0] * len(times), members, about="3 x 25 ms, 1/20/100 ms away, 60/s")


def join_overload(_rng: Random) -> Scenario:
    members = (*_members(25, 25), *[MemberModel(0.025, joins_at_s=5.0)] * 2)
    return _steady("join overload", 0.010, members, "2 x 25 ms, every 10 ms; two more at 5 s")


RANDOM_PUBLICATIONS: Final = ("mixed", "tail", "net")
NAMED: Final[dict[str, Callable[[Random], Scenario]]] = {
    "S1": s1, "S2": s2, "S2x": s2x, "slow": slow, "join": join, "pause": pause, "mixed": mixed,
    "burst": burst, "tail": tail, "net": net, "join overload": join_overload,
}  # fmt: skip
