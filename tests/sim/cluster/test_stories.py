"""Whole stories: what a seed tells is always the same, and no promise is broken in it."""

import os
import subprocess
import sys

import pytest

from braidmq.sim.cluster.plan import Task
from braidmq.sim.cluster.trial import run

PRINT_DIGEST = (
    "from braidmq.sim.cluster.plan import Task; from braidmq.sim.cluster.trial import run; "
    "print(run(Task({seed}, nodes={nodes})).digest)"
)


def wrong_in(seeds: range, nodes: int) -> dict[str, str]:
    tasks = [Task(seed, nodes) for seed in seeds]
    results = [(task, run(task)) for task in tasks]
    return {task.repeat(): result.wrong[0] for task, result in results if result.wrong}


def test_one_node_keeps_its_promises_through_crashes() -> None:
    assert wrong_in(range(100), nodes=1) == {}


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_three_nodes_keep_their_promises(first: int) -> None:
    assert wrong_in(range(first, first + 50), nodes=3) == {}


@pytest.mark.parametrize("nodes", [2, 5])
def test_so_do_fewer_and_more(nodes: int) -> None:
    assert wrong_in(range(10), nodes) == {}


@pytest.mark.parametrize("nodes", [1, 3])
def test_a_seed_is_one_trace_whatever_process_tells_it(nodes: int) -> None:
    here = run(Task(5, nodes)).digest
    command = [sys.executable, "-c", PRINT_DIGEST.format(seed=5, nodes=nodes)]
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        there = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert there.stdout.strip() == here
