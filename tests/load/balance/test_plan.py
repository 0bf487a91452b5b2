"""Which runs are made, and what a shorter one keeps."""

import pytest

from braidmq.errors import ConfigError
from braidmq.load.balance.plan import (
    FAULT_CONTENDERS,
    THESIS_CONTENDERS,
    TRIALS,
    chosen,
    shortened,
)
from braidmq.sim.balance.thesis import thesis_scenario


def test_the_thesis_runs_have_its_times_and_nominal_work() -> None:
    trial = TRIALS["2"]
    assert trial.scenario.publish_s == thesis_scenario(2).publish_s
    assert [member.service_s for member in trial.scenario.members] == [0.025, 0.025, 0.050]


def test_each_trial_has_its_contenders() -> None:
    runs = chosen(("1", "slow"), (), 15.0, with_mosquitto=True)
    assert [(trial.name, contender.name) for trial, contender in runs] == [
        *(("1", name) for name in THESIS_CONTENDERS),
        *(("slow", name) for name in FAULT_CONTENDERS),
    ]


def test_faults_are_met_by_all_at_qos_1() -> None:
    runs = chosen(("death",), (), 15.0, with_mosquitto=True)
    assert {contender.qos for _, contender in runs} == {1}
    runs = chosen(("2",), ("status", "adaptive"), 15.0, with_mosquitto=True)
    assert [contender.qos for _, contender in runs] == [0, 1]


def test_without_mosquitto_it_is_left_out() -> None:
    runs = chosen(("pause",), ("mosquitto", "adaptive"), 15.0, with_mosquitto=False)
    assert [contender.name for _, contender in runs] == ["adaptive"]


def test_a_shorter_trial_has_its_fault_sooner() -> None:
    slow = shortened(TRIALS["slow"], 3.0)
    assert slow.fault_at_s == 1.0
    assert slow.scenario.members[0].slow == (1.0, 2.0, 0.25)
    assert max(slow.scenario.publish_s) < 3.0
    assert len(slow.scenario.work) == len(slow.scenario.publish_s)
    assert shortened(TRIALS["death"], 3.0).deaths[0].after_s == 1.0
    assert shortened(TRIALS["join"], 3.0).scenario.members[2].joins_at_s == 1.0
    assert shortened(TRIALS["pause"], 7.5).scenario.members[0].pause == (2.5, 3.5)


def test_no_time_at_all_is_refused() -> None:
    with pytest.raises(ConfigError, match="--seconds"):
        shortened(TRIALS["1"], 0.0)


@pytest.mark.parametrize("name", ["slow", "pause", "death", "kept-session"])
def test_three_members_can_carry_what_four_do(name: str) -> None:
    """So that waiting is the fault of the choice."""
    scenario = TRIALS[name].scenario
    rate = len(scenario.publish_s) / scenario.publish_s[-1]
    assert rate < sum(1 / member.service_s for member in scenario.members[1:])
