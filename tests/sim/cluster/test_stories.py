"""Whole stories: what a seed tells is always the same, and no promise is broken in it."""

import os
import subprocess
import sys

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
    assert wrong_in(range(200), nodes=1) == {}


def test_a_seed_is_one_trace_whatever_process_tells_it() -> None:
    here = run(Task(5, nodes=1)).digest
    command = [sys.executable, "-c", PRINT_DIGEST.format(seed=5, nodes=1)]
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        there = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert there.stdout.strip() == here
