"""Random scenarios that no policy was shaped on, from a fixed seed: what each policy may cost at most."""

from functools import cache
from statistics import fmean

import pytest

from braidmq.sim.balance import trial, verdicts
from braidmq.sim.balance.methods import IDEAL
from braidmq.sim.balance.trial import Summary, Task

SEED = 1
SCENARIOS = range(30)


@cache
def results(method: str) -> tuple[Summary, ...]:
    return tuple(trial.run_trial(Task(number, method, 0, SEED)) for number in SCENARIOS)


def ratios(method: str, other: str = IDEAL) -> list[float]:
    pairs = zip(results(method), results(other), strict=True)
    return [ours.completion_mean_ms / theirs.completion_mean_ms for ours, theirs in pairs]


def test_adaptive_is_near_the_ideal_queue() -> None:
    found = ratios("adaptive")
    assert verdicts.geometric_mean(found) <= 1.35
    assert max(found) <= 4


def test_the_thesis_policy_takes_about_two_and_a_half_times_as_long() -> None:
    assert verdicts.geometric_mean(ratios("status")) == pytest.approx(2.4, abs=0.5)


def test_adaptive_is_better_than_least_inflight_and_that_than_the_thesis_policy() -> None:
    assert fmean(ratio < 1 for ratio in ratios("adaptive", "least_inflight")) > 0.6
    assert fmean(ratio < 1 for ratio in ratios("least_inflight", "status")) > 0.8


def test_a_round_trip_time_that_is_not_known_costs_little() -> None:
    assert verdicts.geometric_mean(ratios("adaptive, rtt not known", "adaptive")) < 1.3


def test_unknown_clients_that_acknowledge_on_receipt_are_not_worse_off_than_with_round_robin() -> None:
    found = ratios("adaptive, receipt", "round_robin, receipt")
    assert verdicts.geometric_mean(found) <= 1.1


def test_nor_is_a_group_in_which_every_other_member_does() -> None:
    found = ratios("adaptive, half receipt", "round_robin")
    assert verdicts.geometric_mean(found) <= 0.6
    assert max(found) <= 1.6


def test_unknown_clients_that_acknowledge_when_processed_are_far_better_off() -> None:
    assert verdicts.geometric_mean(ratios("adaptive, undeclared", "round_robin")) <= 0.3
