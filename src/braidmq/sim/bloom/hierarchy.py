"""Not in the paper: topics of a hierarchy, whose levels are shared, as those of real installations are.

The paper's random topics flatter every method, since a literal level leads nowhere but to its own topic.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from braidmq.sim.bloom.sweeps import Row, summary
from braidmq.sim.bloom.trial import METHODS, Contest, TrialResult, contend
from braidmq.sim.bloom.workloads import ANYWHERE_SHARE, HIERARCHY, HierarchySubscriptions
from braidmq.sim.runner import derive_seed

NAME = "hierarchy"
TITLE = "Not in the paper: a hierarchy of shared levels"
SUBSCRIPTIONS = 20_000
MATCH, NO_MATCH = "a match exists", "without a match"


@dataclass(frozen=True, slots=True)
class HierarchyParameters:
    """Where `+` may stand (0: level 3 and below, 1: anywhere), and whether the topics have a match."""

    plus_anywhere: float
    mode: str


@dataclass(frozen=True, slots=True)
class HierarchyTask:
    parameters: HierarchyParameters
    seed: int
    published: int


POINTS = tuple(
    HierarchyParameters(plus_anywhere, mode)
    for plus_anywhere in (0.0, ANYWHERE_SHARE, 1.0)
    for mode in (NO_MATCH, MATCH)
)


def tasks(seed: int, sets: int, published: int) -> list[HierarchyTask]:
    return [
        HierarchyTask(point, derive_seed(seed, NAME, point.plus_anywhere, point.mode, number), published)
        for point in POINTS
        for number in range(sets)
    ]


def run_trial(task: HierarchyTask) -> TrialResult:
    rng = random.Random(task.seed)
    source = HierarchySubscriptions(task.parameters.plus_anywhere)
    subscriptions = [source.draw(rng) for _ in range(SUBSCRIPTIONS)]
    contest = Contest([subscription.filter for subscription in subscriptions], len(HIERARCHY))
    published: list[bytes] = []
    while len(published) < task.published:
        if task.parameters.mode == MATCH:
            published.append(rng.choice(subscriptions).topic)
        elif not contest.matches(topic := source.topic(rng)):
            published.append(topic)
    return contend(contest, published)


def rows(results: Mapping[HierarchyParameters, Sequence[TrialResult]]) -> list[Row]:
    return [
        summary(results[point], method, figure=NAME, mode=point.mode, parameter="plus_anywhere",
                value=point.plus_anywhere)
        for point in POINTS
        for method in METHODS
    ]
