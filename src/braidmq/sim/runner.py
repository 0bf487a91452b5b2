"""Runs many independent trials, on this machine's processes or on Spark, with a progress bar.

A trial is a module-level function of one task, and a task is plain data (parameters and a seed), so that
every runner gives the same results: they differ in where the work is done and in nothing else.
"""

import hashlib
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from typing import Any, Protocol, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

T = TypeVar("T")
R = TypeVar("R")

_SPARK_SLICES_PER_CORE = 8


class Runner(Protocol):
    """Applies a function to every task; results come as they are done, each with the number of its task."""

    def run(self, function: Callable[[T], R], tasks: Sequence[T]) -> Iterator[tuple[int, R]]: ...


class LocalRunner:
    """Worker processes on this machine; with one process the work is done in this one."""

    def __init__(self, processes: int | None = None) -> None:
        self._processes = processes or os.cpu_count() or 1

    def run(self, function: Callable[[T], R], tasks: Sequence[T]) -> Iterator[tuple[int, R]]:
        if self._processes == 1:
            yield from ((number, function(task)) for number, task in enumerate(tasks))
            return
        # Spawned, not forked: a fork of a process with threads or open event loops may hang.
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(self._processes, mp_context=context) as pool:
            numbers = {pool.submit(function, task): number for number, task in enumerate(tasks)}
            try:
                for done in as_completed(numbers):
                    yield numbers[done], done.result()
            finally:
                pool.shutdown(cancel_futures=True)


class SparkRunner:
    """The executors of a Spark cluster; BraidMQ must be installed on them.

    Each slice of the tasks is a job of its own, and as many jobs as there are cores run at once, so that
    results come as they are done and all cores have work. Takes a SparkSession, which it doesn't import.
    """

    def __init__(self, session: Any) -> None:
        self._context = session.sparkContext

    def run(self, function: Callable[[T], R], tasks: Sequence[T]) -> Iterator[tuple[int, R]]:
        cores = max(1, self._context.defaultParallelism)
        slices = max(1, min(len(tasks), _SPARK_SLICES_PER_CORE * cores))
        numbered = self._context.parallelize(list(enumerate(tasks)), slices)
        done = numbered.map(lambda pair: (pair[0], function(pair[1])))
        with ThreadPoolExecutor(min(slices, cores + 1)) as pool:
            jobs = [pool.submit(self._context.runJob, done, list, [number]) for number in range(slices)]
            try:
                for job in as_completed(jobs):
                    yield from job.result()
            finally:
                pool.shutdown(cancel_futures=True)


def run_all(runner: Runner, function: Callable[[T], R], tasks: Sequence[T], label: str) -> list[R]:
    """Results in the order of the tasks, with a progress bar if a person is watching."""
    console = Console(stderr=True)
    results: dict[int, R] = {}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as progress:
        bar = progress.add_task(label, total=len(tasks))
        for number, result in runner.run(function, tasks):
            results[number] = result
            progress.advance(bar)
    return [results[number] for number in range(len(tasks))]


def derive_seed(seed: int, *labels: object) -> int:
    """An independent seed for a part of an experiment, the same on every machine."""
    text = "/".join(map(repr, (seed, *labels)))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
