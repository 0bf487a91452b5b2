"""The demo's child processes: each in a session of its own, and all of them ended with it.

A session of its own keeps Ctrl-C from reaching a child before the demo has decided what ends when; and ending
the session takes along what the child has started, such as Spark's JVM.
"""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from braidmq.config import ENVIRONMENT_PREFIX
from braidmq.errors import BraidError

STOP_S: Final = 10.0
LOG_TAIL_LINES: Final = 5


class Child:
    """One process."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, log: Path) -> None:
        self.name = name
        self.process = process
        self._log = log

    @property
    def pid(self) -> int:
        return self.process.pid

    def check(self) -> None:
        """BraidError if it has ended."""
        if self.process.returncode is not None:
            raise BraidError(f"{self.name} ended with code {self.process.returncode}: {self.last_words()}")

    def last_words(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines() if self._log.exists() else []
        return " / ".join(lines[-LOG_TAIL_LINES:]) or "it said nothing"

    async def stop(self, patience_s: float = STOP_S) -> None:
        """Asks it to end, and after a while makes it."""
        if self.process.returncode is None:
            self.process.terminate()
            with suppress(TimeoutError):
                await asyncio.wait_for(self.process.wait(), patience_s)
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        await self.process.wait()


@asynccontextmanager
async def child(name: str, arguments: list[str], log: Path) -> AsyncIterator[Child]:
    """`python -m arguments`, with pipes to it and its complaints in a file."""
    with log.open("wb") as complaints:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", *arguments,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=complaints,
            env=_environment(os.environ), start_new_session=True,
        )  # fmt: skip
    running = Child(name, process, log)
    try:
        yield running
    finally:
        await running.stop()


@asynccontextmanager
async def broker_process(name: str, log: Path, *flags: str) -> AsyncIterator[tuple[str, Child]]:
    """A broker with default settings, where flags say: its address, and the process."""
    async with child(name, ["braidmq", "serve", *flags], log) as broker:
        assert broker.process.stdout is not None
        line = (await broker.process.stdout.readline()).decode().strip()
        if not line.startswith("listening on "):
            raise BraidError(f"{name} did not start: {broker.last_words()}")
        yield line.removeprefix("listening on "), broker


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens to just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _environment(ours: Mapping[str, str]) -> dict[str, str]:
    """Ours without the settings that are meant for the user's own broker."""
    return {name: value for name, value in ours.items() if not name.startswith(ENVIRONMENT_PREFIX)}
