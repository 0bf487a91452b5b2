"""Tells many stories, and how to repeat those that went wrong."""

from collections.abc import Sequence

from rich.console import Console

from braidmq.sim.cluster.plan import Task
from braidmq.sim.cluster.trial import Result, run, tell
from braidmq.sim.runner import Runner, run_all

WRONG_MAX = 5  # lines printed of one story


def hunt(tasks: Sequence[Task], runner: Runner, console: Console) -> bool:
    """Whether all went well."""
    results = run_all(runner, run, tasks, "Seeds")
    bad = [(task, result) for task, result in zip(tasks, results, strict=True) if result.wrong]
    for task, result in bad:
        _print_wrong(task, result, console)
    published = sum(result.published for result in results)
    got = sum(result.got for result in results)
    console.print(
        f"{len(tasks):,} seeds, {len(bad):,} of them wrong; {published:,} publishes, {got:,} deliveries."
    )
    return not bad


def _print_wrong(task: Task, result: Result, console: Console) -> None:
    console.print(f"[bold]seed {task.seed}[/bold]: {task.repeat()} --trace", highlight=False, soft_wrap=True)
    for line in result.wrong[:WRONG_MAX]:
        console.print(f"  {line}", highlight=False, markup=False, soft_wrap=True)
    if len(result.wrong) > WRONG_MAX:
        console.print(f"  and {len(result.wrong) - WRONG_MAX} more")


def print_story(task: Task, console: Console) -> None:
    """Everything that happened in one story."""
    trace, _ = tell(task)
    for line in trace.lines():
        console.print(line, highlight=False, markup=False, soft_wrap=True)
