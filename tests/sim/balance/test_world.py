"""The simulator itself, on cases that can be worked out by hand."""

from random import Random

import pytest

from braidmq.sim.balance.ideal import run_ideal
from braidmq.sim.balance.methods import METHODS
from braidmq.sim.balance.named import NAMED
from braidmq.sim.balance.scenario import MemberModel, Scenario, every
from braidmq.sim.balance.trial import Task, run_trial
from braidmq.sim.balance.validation import validation_scenario
from braidmq.sim.balance.world import Outcome, World

DELAY_S = 0.001


def run(scenario: Scenario, method: str = "round_robin", seed: int = 1) -> Outcome:
    return World(scenario, METHODS[method], Random(seed)).run()


def scenario_of(publish_s: list[float], *members: MemberModel) -> Scenario:
    return Scenario("by hand", publish_s, [1.0] * len(publish_s), members)


def test_a_message_waits_for_the_one_before_it() -> None:
    outcome = run(scenario_of([0.0, 0.01, 0.1], MemberModel(0.03, DELAY_S)))
    assert outcome.wait_s == pytest.approx([0.001, 0.021, 0.001])
    assert outcome.completion_s == pytest.approx([0.031, 0.051, 0.031])


def test_work_scales_the_service_time() -> None:
    scenario = Scenario("by hand", [0.0, 1.0], [0.5, 3.0], (MemberModel(0.1, DELAY_S),))
    assert run(scenario).completion_s == pytest.approx([0.051, 0.301])


def test_a_member_that_pauses_takes_messages_but_its_work_stands_still() -> None:
    member = MemberModel(0.1, 0.0, pause=(1.0, 3.0))
    outcome = run(scenario_of([0.95, 0.96, 2.0], member))
    assert outcome.wait_s == pytest.approx([0.0, 2.09, 1.15])
    assert outcome.completion_s == pytest.approx([2.1, 2.19, 1.25])


def test_a_member_is_slow_while_it_is_slow() -> None:
    member = MemberModel(0.1, 0.0, slow=(1.0, 2.0, 0.4))
    assert run(scenario_of([0.0, 1.5, 3.0], member)).completion_s == pytest.approx([0.1, 0.4, 0.1])


def test_a_member_that_joins_late_gets_messages_from_then_on() -> None:
    outcome = run(scenario_of([0.0, 0.5, 1.5, 2.0], MemberModel(0.01), MemberModel(0.01, joins_at_s=1.0)))
    assert outcome.member[:2] == [0, 0]
    assert set(outcome.member[2:]) == {0, 1}


def test_jitter_never_reorders_what_one_connection_carries() -> None:
    scenario = Scenario("shaky", every(0.0005, 1.0), [1.0] * 2000, (MemberModel(0.0001, 0.001),), 0.005, 0.05)
    outcome = run(scenario)
    done = [sum(times) for times in zip(scenario.publish_s, outcome.completion_s, strict=True)]
    assert done == sorted(done)


@pytest.mark.parametrize("method", METHODS)
def test_every_message_is_processed_once_and_never_before_it_can_be(method: str) -> None:
    scenario = validation_scenario(3, Random(5))
    outcome = run(scenario, method)
    assert sum(outcome.given) == len(scenario.publish_s)
    for number, index in enumerate(outcome.member):
        member = scenario.members[index]
        assert outcome.wait_s[number] >= member.delay_s - 1e-12
        assert outcome.completion_s[number] >= outcome.wait_s[number]


@pytest.mark.parametrize("method", ["random", "status2 + events", "adaptive"])
def test_the_same_seed_gives_the_same_outcome(method: str) -> None:
    scenario = validation_scenario(1, Random(2))
    assert run(scenario, method, 7) == run(scenario, method, 7)


def test_methods_of_one_repetition_meet_the_same_publications() -> None:
    first, second = (run_trial(Task("net", method, 2, 9)) for method in ("round_robin", "adaptive"))
    assert first.messages == second.messages
    assert run_trial(Task("net", "round_robin", 3, 9)).messages != first.messages


def test_members_report_every_second_and_with_events_more_often_under_load() -> None:
    plain = run(NAMED["burst"](Random(0)), "status2")
    eager = run(NAMED["burst"](Random(0)), "status2 + events")
    assert len(plain.reports) == pytest.approx(3 * 14.5, abs=4)
    assert len(eager.reports) > 2 * len(plain.reports)
    assert len(eager.reports) < 3 * 15 * 11  # at most ten events a second


def test_a_pressed_member_gets_no_more_than_its_buffers_hold() -> None:
    scenario = scenario_of(every(0.01, 3.0), MemberModel(0.005, 0.0), MemberModel(1.0, 0.0))
    outcome = run(scenario, "round_robin + socket")
    assert outcome.given[1] <= 16 + 2 + 3  # what fits, and what it processed


def test_the_ideal_queue_uses_whoever_is_free_first_and_of_those_the_fastest() -> None:
    members = (MemberModel(0.05, 0.0), MemberModel(0.02, 0.0))
    outcome = run_ideal(scenario_of([0.0, 0.001, 0.002], *members))
    assert outcome.member == [1, 0, 1]
    assert outcome.wait_s == pytest.approx([0.0, 0.0, 0.018])


@pytest.mark.parametrize("number", range(6))
def test_nothing_beats_the_ideal_queue_by_much(number: int) -> None:
    scenario = validation_scenario(number, Random(number))
    ideal = sum(run_ideal(scenario).completion_s)
    assert all(sum(run(scenario, method).completion_s) > 0.7 * ideal for method in ("adaptive", "status2"))
