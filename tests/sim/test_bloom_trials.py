"""The paper's averages, by the code that the broker runs."""

from dataclasses import replace
from statistics import fmean

import pytest

from braidmq.sim.bloom import hierarchy, theory
from braidmq.sim.bloom.sweeps import QUICK, SWEEPS, expected_queries, standard_error
from braidmq.sim.bloom.theory import Setting
from braidmq.sim.bloom.trial import (
    BF,
    BFP,
    BROKER,
    PREFIX,
    PRINTED,
    Mode,
    Parameters,
    Task,
    TrialResult,
    run_trial,
)
from tests.sim.reference_averages import REFERENCE, Averages

VARY = {sweep.symbol: sweep.vary for sweep in SWEEPS}
# All of them are held against the kept results of a full run; here, those that are cheap and differ in kind.
CHEAP = {("n_lv", 2), ("n_lv", 4), ("n_lv", 8), ("p_wc", 0.0), ("p_wc", 1.0), ("l_wc", 1), ("l_wc", 5)}
SAMPLED = [averages for averages in REFERENCE if (averages.parameter, averages.value) in CHEAP]


def parameters_of(averages: Averages, mode: Mode) -> Parameters:
    return VARY[averages.parameter](Parameters(mode), averages.value)


def run_sets(parameters: Parameters, sets: int, published: int = 1) -> list[TrialResult]:
    return [run_trial(Task(parameters, seed, published)) for seed in range(sets)]


def averages_of(results: list[TrialResult], *methods: str) -> tuple[float, ...]:
    return tuple(fmean(result.queries[method] for result in results) for method in methods)


@pytest.mark.parametrize("reference", SAMPLED, ids=lambda each: f"{each.parameter}={each.value:g}")
def test_averages_of_the_reference(reference: Averages) -> None:
    no_match = run_sets(parameters_of(reference, Mode.NO_MATCH), 1)
    assert averages_of(no_match, BF, BFP, PREFIX) == pytest.approx(reference.no_match, rel=0.02)
    assert averages_of(no_match, PRINTED) == pytest.approx((reference.printed_no_match,), rel=0.01)
    wildcard_only = run_sets(parameters_of(reference, Mode.WITH_WILDCARD_ONLY), 1)
    assert averages_of(wildcard_only, BF, BFP, PREFIX) == pytest.approx(reference.wildcard_only, rel=0.05)
    if reference.match is not None:
        match = run_sets(parameters_of(reference, Mode.MATCH_EXISTS), 1, published=250)
        assert averages_of(match, BF, BFP, PREFIX) == pytest.approx(reference.match, rel=0.1)


def test_the_numbers_that_the_paper_prints() -> None:
    results = run_sets(Parameters(Mode.NO_MATCH, levels=10), theory.RUNS_OF_THE_PAPER)
    prefix, patterns = averages_of(results, PREFIX, BFP)
    assert all(result.queries[PREFIX] in (24, 27, 30) for result in results)
    assert prefix * 10 % 3 == pytest.approx(0, abs=1e-6)
    assert prefix == pytest.approx(29.7, abs=1.5)
    assert patterns == pytest.approx(1570.0, abs=20)
    assert {result.queries[BF] for result in results} == {2047}


def test_the_printed_algorithm_loses_nearly_every_match() -> None:
    """Only a match shows it: `#`, where allowed, is found first, and without a match nothing is lost."""
    results = run_sets(Parameters(Mode.MATCH_EXISTS, topics=3000), 2, published=150)
    matched = sum(result.matched for result in results)
    assert matched == 300
    assert sum(result.missed_as_printed for result in results) > 0.98 * matched
    shallow = run_sets(Parameters(Mode.MATCH_EXISTS, topics=3000, first_wildcard_level=1), 1, published=100)
    assert shallow[0].missed_as_printed == 0


def test_the_broker_asks_less_than_the_paper() -> None:
    for mode, published in ((Mode.NO_MATCH, 1), (Mode.MATCH_EXISTS, 50)):
        (result,) = run_sets(Parameters(mode, topics=2000), 1, published)
        assert result.queries[BROKER] < result.queries[PREFIX]


def test_a_hierarchy_of_shared_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hierarchy, "SUBSCRIPTIONS", 5_000)
    by_point = {task.parameters: hierarchy.run_trial(task) for task in hierarchy.tasks(1, 1, 60)}
    for point, result in by_point.items():
        assert result.matched == (60 if point.mode == hierarchy.MATCH else 0)
        assert result.queries[BROKER] < result.queries[PREFIX] < result.queries[BF]
    anywhere = by_point[hierarchy.HierarchyParameters(1.0, hierarchy.MATCH)]
    deep = by_point[hierarchy.HierarchyParameters(0.0, hierarchy.MATCH)]
    assert anywhere.missed_as_printed > 55
    assert deep.missed_as_printed < 20


def test_the_same_seed_gives_the_same_result() -> None:
    task = Task(Parameters(Mode.MATCH_EXISTS, topics=300, levels=4), 5, published=10)
    assert run_trial(task) == run_trial(task)
    assert run_trial(task) != run_trial(replace(task, seed=6))


def test_closed_forms() -> None:
    known = ((6, 120.0, 18.0, 13.0), (9, 960.9, 26.8, 18.9), (10, 1570.2, 29.31, 20.5))
    for levels, patterns, prefix, printed in known:
        assert theory.pattern_queries(Setting(levels)) == pytest.approx(patterns, abs=0.1)
        assert theory.prefix_queries(Setting(levels)) == pytest.approx(prefix, abs=0.06)
        assert theory.printed_queries(Setting(levels)) == pytest.approx(printed, abs=0.06)
    assert theory.prefix_queries(Setting(6, wildcard_probability=0.0)) == 3
    assert theory.prefix_queries(Setting(6, first_wildcard_level=1)) == 3
    assert theory.pattern_queries(Setting(6, first_wildcard_level=2)) == pytest.approx(31)
    assert expected_queries(Parameters(Mode.MATCH_EXISTS), BF) is None
    assert expected_queries(Parameters(Mode.NO_MATCH), BROKER) is None


def test_deviations_from_run_to_run() -> None:
    results = run_sets(Parameters(Mode.NO_MATCH, topics=600, levels=7), 60)
    setting = Setting(7, 600)
    for method, deviation in ((PREFIX, theory.prefix_deviation), (BFP, theory.pattern_deviation)):
        measured = standard_error([result.queries[method] for result in results]) * len(results) ** 0.5
        assert measured == pytest.approx(deviation(setting), rel=0.3)


def test_effort_follows_the_spread() -> None:
    assert QUICK.sets_for(Parameters(Mode.NO_MATCH, levels=10)) == 10
    assert QUICK.sets_for(Parameters(Mode.NO_MATCH)) < 10
    assert standard_error([1.0]) == 0.0
    assert standard_error([1.0, 3.0]) == pytest.approx(1.0)
