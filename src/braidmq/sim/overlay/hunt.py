"""Looks for a seed that goes wrong: `python -m braidmq.sim.overlay.hunt --seeds 1000`.

One seed, and all that went wrong in it: `python -m braidmq.sim.overlay.hunt --first 17 --seeds 1`.
"""

import argparse
import sys

from braidmq.sim.overlay.churn import run_churn, task_of
from braidmq.sim.runner import LocalRunner, run_all


def main() -> int:
    parser = argparse.ArgumentParser(description="Run many seeds of churn and report those that go wrong.")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=None)
    options = parser.parse_args()
    tasks = [task_of(seed) for seed in range(options.first, options.first + options.seeds)]
    results = run_all(LocalRunner(options.processes), run_churn, tasks, "Seeds")
    bad = [(task, result) for task, result in zip(tasks, results, strict=True) if result.wrong]
    for task, result in bad:
        print(f"seed {task.seed}: {len(result.wrong)} wrong, first: {result.wrong[0]}")
        if options.seeds == 1:
            print(*result.wrong, sep="\n")
    deliveries = sum(result.expected for result in results)
    missed = sum(result.missed for result in results)
    repeated = sum(result.repeated for result in results)
    found = f"{deliveries:,} deliveries, {missed} missed, {repeated} repeated"
    print(f"{len(tasks)} seeds, {len(bad)} wrong; {found}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
