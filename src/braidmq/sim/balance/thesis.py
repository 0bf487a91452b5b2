"""The thesis's experiment: three subscribers, a message about every 10 ms for 15 s, a report a second.

Table 7 of the thesis tells more than its text: the latency at the slow subscriber under round robin grows
by 19.13 ms a message, which is 50.1 - 3 * 10.34 ms, and is 100 ms lower than that from the first message
on. So the publisher's interval was 10.34 ms and not 10, a message took 0.1 ms longer than the work, and the
publisher lost 120 ms while it warmed up. These three numbers are fitted to table 7; everything else here
follows from them. At exactly 10 ms the load would be 1, and no policy could reach the 27.4 ms that the
thesis reports.

The thesis says that subscriber 0 reported once, with nothing done, just before the first message. When the
others reported first is not said. REPORTS_S is the nearest to the thesis's latencies of 600 random choices.
"""

from dataclasses import dataclass
from random import Random
from statistics import fmean, pstdev
from typing import Final

from braidmq.sim.balance.methods import METHODS
from braidmq.sim.balance.named import DURATION_S, THESIS_INTERVAL_S, THESIS_OVERHEAD_S
from braidmq.sim.balance.scenario import MemberModel, Scenario
from braidmq.sim.balance.trial import MS
from braidmq.sim.balance.world import Outcome, World
from braidmq.sim.runner import derive_seed

WARM_UP_MESSAGES: Final = 16
WARM_UP_LOST_S: Final = 0.12
REPORTS_S: Final = (-0.036, 0.877, 1.192)
STEADY: Final = range(500, 1000)  # the thesis's steady state, as message numbers

SERVICE_S: Final = {1: (0.025, 0.025, 0.025), 2: (0.025, 0.025, 0.050)}
POLICIES: Final = ("random", "round_robin", "status")


def thesis_scenario(number: int) -> Scenario:
    times: list[float] = []
    now = 0.0
    while now < DURATION_S:
        times.append(now)
        now += THESIS_INTERVAL_S
        if len(times) <= WARM_UP_MESSAGES:
            now += WARM_UP_LOST_S / WARM_UP_MESSAGES
    members = tuple(MemberModel(service_s + THESIS_OVERHEAD_S) for service_s in SERVICE_S[number])
    return Scenario(f"thesis {number}", times, [1.0] * len(times), members)


def run_thesis(
    number: int, policy: str, seed: int, first_reports_s: tuple[float, ...] = REPORTS_S
) -> Outcome:
    rng = Random(derive_seed(seed, "thesis", number, policy))
    return World(thesis_scenario(number), METHODS[policy], rng, list(first_reports_s)).run()


@dataclass(frozen=True, slots=True)
class PhaseTask:
    """The thesis's scenario 2 with other luck: when subscribers report first, or whom random chooses."""

    policy: str
    number: int
    seed: int


def run_phase(task: PhaseTask) -> float:
    """Mean wait over all messages, ms."""
    rng = Random(derive_seed(task.seed, "phase", task.number))
    first_reports_s = tuple(rng.random() for _ in SERVICE_S[2])
    outcome = run_thesis(2, task.policy, derive_seed(task.seed, task.number), first_reports_s)
    return fmean(outcome.wait_s) * MS


@dataclass(frozen=True, slots=True)
class SteadyRow:
    """A line of tables 7 and 8."""

    subscriber: int
    messages: int
    least_ms: float
    most_ms: float
    mean_ms: float
    deviation_ms: float


def steady_rows(outcome: Outcome) -> list[SteadyRow]:
    rows = []
    for subscriber in range(len(outcome.given)):
        waits = [outcome.wait_s[n] * MS for n in STEADY if outcome.member[n] == subscriber]
        values = (min(waits), max(waits), fmean(waits), pstdev(waits))
        rows.append(SteadyRow(subscriber, len(waits), *(round(value, 3) for value in values)))
    return rows


def mean_waits_ms(outcome: Outcome) -> list[float]:
    """Of each subscriber, and then of all."""
    waits: list[list[float]] = [[] for _ in outcome.given]
    for subscriber, wait_s in zip(outcome.member, outcome.wait_s, strict=True):
        waits[subscriber].append(wait_s * MS)
    return [fmean(of_one) for of_one in waits] + [fmean(outcome.wait_s) * MS]


def given_per_second(outcome: Outcome, scenario: Scenario) -> list[list[int]]:
    """Figure 45: messages given to each subscriber in each second."""
    counts = [[0] * int(DURATION_S) for _ in outcome.given]
    for published_s, subscriber in zip(scenario.publish_s, outcome.member, strict=True):
        counts[subscriber][int(published_s)] += 1
    return counts
