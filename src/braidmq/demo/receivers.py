"""The receivers of the demo's pipeline, seen from outside: what they report, and one of them made slow."""

import asyncio
import os
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from braidmq.spark.metrics import PREFIX

TIMEOUT_S: Final = 2.0
# A slow receiver gets this much of the time.
RUN_S: Final = 0.2
PAUSE_S: Final = 0.8
PROCESSES: Final = Path("/proc")


class Receiver(NamedTuple):
    subscriber: str
    connected: bool
    rows: int


def read_receivers(port: int) -> list[Receiver]:
    """What the receivers last said; none while nobody answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=TIMEOUT_S) as answer:
            return parse_receivers(answer.read().decode())
    except OSError:
        return []


def parse_receivers(text: str) -> list[Receiver]:
    samples = {
        (sample.name, sample.labels["subscriber"]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if "subscriber" in sample.labels
    }
    names = sorted({subscriber for _, subscriber in samples})
    return [
        Receiver(
            name,
            bool(samples.get((f"{PREFIX}connected", name), 0)),
            int(samples.get((f"{PREFIX}rows_total", name), 0)),
        )
        for name in names
    ]


def find_receiver(session: int, subscriber: str) -> int | None:
    """The process of a receiver that belongs to this session; None where there is no /proc."""
    for pid in _processes():
        try:
            command = (PROCESSES / str(pid) / "cmdline").read_bytes().split(b"\0")
            if subscriber.encode() in command and os.getsid(pid) == session:
                return pid
        except OSError:
            continue  # it has ended meanwhile
    return None


def _processes() -> Iterator[int]:
    if PROCESSES.is_dir():
        yield from (int(entry.name) for entry in PROCESSES.iterdir() if entry.name.isdigit())


async def slow_down(pid: int, seconds: float) -> None:
    """Lets a process run for a fifth of the time only. It runs on afterwards, whatever happens."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + seconds
    try:
        while loop.time() < until_s:
            os.kill(pid, signal.SIGSTOP)
            await asyncio.sleep(PAUSE_S)
            os.kill(pid, signal.SIGCONT)
            await asyncio.sleep(RUN_S)
    except ProcessLookupError:
        return  # its keeper starts another one
    finally:
        _let_run(pid)


def _let_run(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        return
