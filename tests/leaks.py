"""Finds what a piece of code leaves behind: asyncio tasks, threads, file descriptors.

    async with no_leaks():
        ...

    with no_leaked_threads_or_files():
        ...

Things that end by themselves a moment later are no leaks: both look again for a while before they complain.
Linux only for file descriptors (/proc); elsewhere those are not counted.
"""

import asyncio
import gc
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

PATIENCE_S = 5.0
PAUSE_S = 0.01

_DESCRIPTORS = Path("/proc/self/fd")


def open_files() -> dict[int, str]:
    """Each open file descriptor and what it points to."""
    found = {}
    for entry in _DESCRIPTORS.iterdir() if _DESCRIPTORS.exists() else ():
        try:
            found[int(entry.name)] = str(entry.readlink())
        except OSError:
            continue  # the descriptor of this very listing
    return found


def _threads() -> set[threading.Thread]:
    return set(threading.enumerate())


def _left_files(before: dict[int, str]) -> list[str]:
    return [f"file {number} -> {name}" for number, name in open_files().items() if before.get(number) != name]


def _left_threads(before: set[threading.Thread]) -> list[str]:
    return [f"thread {thread.name}" for thread in _threads() - before]


def _resolvers() -> set[threading.Thread]:
    return {thread for thread in _threads() if thread.name.startswith("asyncio_")}


def _left_tasks(before: set["asyncio.Task[object]"]) -> list[str]:
    return [f"task {task!r}" for task in asyncio.all_tasks() - before - {asyncio.current_task()}]


@contextmanager
def no_leaked_threads_or_files() -> Iterator[None]:
    files, threads = open_files(), _threads()
    yield
    if _left_files(files) + _left_threads(threads):
        gc.collect()  # only then: late in the suite it takes long
    until = time.monotonic() + PATIENCE_S
    while left := _left_files(files) + _left_threads(threads):
        assert time.monotonic() < until, f"left behind: {', '.join(left)}"
        time.sleep(PAUSE_S)


@asynccontextmanager
async def no_leaks() -> AsyncIterator[None]:
    """Tasks, threads and files. The loop's own resolver threads (`asyncio_...`) are not the code's."""
    files, threads, tasks = open_files(), _threads(), asyncio.all_tasks()
    yield
    if _left_files(files) + _left_threads(threads | _resolvers()) + _left_tasks(tasks):
        gc.collect()
    until = time.monotonic() + PATIENCE_S
    while left := _left_files(files) + _left_threads(threads | _resolvers()) + _left_tasks(tasks):
        assert time.monotonic() < until, f"left behind: {', '.join(left)}"
        await asyncio.sleep(PAUSE_S)
