"""The papers' experiments on Spark: the same results as on this machine, for the same seeds."""

import pytest
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

from braidmq.sim.balance import trial as balance
from braidmq.sim.bloom import figure6
from braidmq.sim.bloom import trial as bloom
from braidmq.sim.bloom.sweeps import QUICK
from braidmq.sim.runner import LocalRunner, SparkRunner, run_all

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(300)]


def test_bloom_trials_are_the_same(spark: SparkSession) -> None:
    tasks = figure6.FIGURE.tasks(seed=3, effort=QUICK)[:24:4]
    here = run_all(LocalRunner(1), bloom.run_trial, tasks, "here")
    assert run_all(SparkRunner(spark), bloom.run_trial, tasks, "there") == here
    assert len(here) == len(tasks) > 0


def test_balance_trials_are_the_same(spark: SparkSession) -> None:
    tasks = [balance.Task("S1", method, 0, 7) for method in ("random", "round_robin")]
    here = run_all(LocalRunner(1), balance.run_trial, tasks, "here")
    assert run_all(SparkRunner(spark), balance.run_trial, tasks, "there") == here


def test_a_trial_that_fails_fails_the_run(spark: SparkSession) -> None:
    with pytest.raises(PythonException, match="nowhere"):
        run_all(SparkRunner(spark), balance.run_trial, [balance.Task("nowhere", "random", 0, 7)], "failing")
