"""Runners differ in where the work is done and in nothing else."""

import pytest

from braidmq.sim.runner import LocalRunner, derive_seed, run_all


def square(number: int) -> int:
    return number * number


def fail(number: int) -> int:
    raise ArithmeticError(f"task {number}")


@pytest.mark.parametrize("processes", [1, 2])
def test_results_come_in_the_order_of_the_tasks(processes: int) -> None:
    assert run_all(LocalRunner(processes), square, list(range(20)), "squares") == [n * n for n in range(20)]


@pytest.mark.parametrize("processes", [1, 2])
def test_a_failing_task_fails_the_run(processes: int) -> None:
    with pytest.raises(ArithmeticError, match="task"):
        run_all(LocalRunner(processes), fail, [1, 2, 3], "failures")


def test_no_bar_is_drawn_where_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    run_all(LocalRunner(1), square, [1, 2, 3], "squares")
    assert capsys.readouterr() == ("", "")


def test_derived_seeds_are_stable_and_different() -> None:
    assert derive_seed(1, "figure6", 3) == 7838817140352474409
    seeds = {derive_seed(seed, label, number) for seed in (1, 2) for label in "ab" for number in range(50)}
    assert len(seeds) == 200
