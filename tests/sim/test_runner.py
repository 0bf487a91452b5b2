"""Runners differ in where the work is done and in nothing else."""

import importlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from braidmq.errors import ConfigError
from braidmq.sim import runner as runner_module
from braidmq.sim.runner import LocalRunner, SparkRunner, derive_seed, run_all


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


def test_spark_without_pyspark_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(ConfigError, match="need pyspark: pip install"):
        SparkRunner("local[1]")


class PretendedRdd:
    """The few calls of Spark that the runner makes."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def map(self, function: Callable[[Any], Any]) -> "PretendedRdd":
        return PretendedRdd([function(item) for item in self.items])

    def toLocalIterator(self, prefetchPartitions: bool) -> Iterator[Any]:  # noqa: N802, N803
        return iter(reversed(self.items))


def test_spark_gets_every_task(monkeypatch: pytest.MonkeyPatch) -> None:
    context = SimpleNamespace(defaultParallelism=2, parallelize=lambda items, slices: PretendedRdd(items))
    builder = SimpleNamespace(getOrCreate=lambda: SimpleNamespace(sparkContext=context))
    builder.master = builder.appName = lambda text: builder
    spark = SimpleNamespace(SparkSession=SimpleNamespace(builder=builder))
    monkeypatch.setattr(runner_module, "load", lambda module, purpose, install: spark)
    assert run_all(SparkRunner("local[2]"), square, list(range(9)), "squares") == [n * n for n in range(9)]
