"""`braidmq demo`: a broker process, clients that talk through it, a live table, and a check at the end."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Final

import uvloop
from cyclopts import Parameter
from rich.console import Console
from rich.live import Live
from rich.table import Table

from braidmq.cli.traffic import Traffic
from braidmq.config import ENVIRONMENT_PREFIX
from braidmq.errors import BraidError, ConfigError

REFRESH_S: Final = 0.25
LINE_EVERY_S: Final = 1.0
STOP_S: Final = 10.0


def demo(
    *,
    seconds: Annotated[float, Parameter(help="How long the publishers talk.", metavar="N")] = 15.0,
) -> int:
    """See a broker at work: publishers, subscribers and a live table.

    Starts a broker of its own on a free port of this machine. Ends with a check that every message arrived
    where it should; the exit code says whether it did.
    """
    if seconds <= 0:
        raise ConfigError(f"--seconds {seconds}: expected more than 0")
    return uvloop.run(_demo(seconds, Console()))


async def _demo(seconds: float, console: Console) -> int:
    async with broker_process() as address:
        console.print(f"broker on {address}; {seconds:g} seconds of traffic", highlight=False)
        traffic = Traffic(address)
        showing = asyncio.create_task(_show(traffic, console))
        try:
            await traffic.run(seconds)
        except* BraidError as errors:
            raise errors.exceptions[0] from None
        finally:
            showing.cancel()
            await asyncio.wait([showing])
    return _verdict(traffic, console)


@asynccontextmanager
async def broker_process() -> AsyncIterator[str]:
    """A broker with default settings in a process of its own; where it listens."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(ENVIRONMENT_PREFIX)}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "braidmq", "serve", "--in-memory", "--port", "0",
        stdout=asyncio.subprocess.PIPE, env=env,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        line = (await process.stdout.readline()).decode().strip()
        if not line.startswith("listening on "):
            raise BraidError("the demo's broker did not start")
        yield line.removeprefix("listening on ")
    finally:
        await _stop(process)


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), STOP_S)
    except TimeoutError:
        process.kill()
        await process.wait()


async def _show(traffic: Traffic, console: Console) -> None:
    """A table that is redrawn on a terminal; elsewhere a line now and then."""
    if not console.is_terminal:
        await _print_lines(traffic, console)
        return
    with Live(_table(traffic), console=console, auto_refresh=False) as live:
        try:
            while True:
                await asyncio.sleep(REFRESH_S)
                live.update(_table(traffic), refresh=True)
        finally:
            live.update(_table(traffic), refresh=True)


async def _print_lines(traffic: Traffic, console: Console) -> None:
    while True:
        await asyncio.sleep(LINE_EVERY_S)
        text = f"{traffic.talking_s:4.0f} s  published {traffic.published:,}  delivered {traffic.delivered:,}"
        console.print(text, highlight=False)


def _table(traffic: Traffic) -> Table:
    table = Table("client", "topic", "QoS", title=f"BraidMQ on {traffic.address}")
    for heading, width in (("messages", 9), ("per s", 7), ("latency", 8)):
        table.add_column(heading, justify="right", min_width=width)
    for publisher in traffic.publishers:
        counts = _counts(publisher.published, traffic.talking_s)
        table.add_row(publisher.name, f"{publisher.topic}/…", "0, 1", *counts)
    table.add_section()
    for subscriber in traffic.subscribers:
        counts = _counts(subscriber.received, traffic.talking_s)
        latency = f"{subscriber.latency_ms:.1f} ms" if subscriber.latency_ms else ""
        table.add_row(subscriber.name, subscriber.filter, str(subscriber.qos), *counts, latency)
    return table


def _counts(count: int, seconds: float) -> tuple[str, str]:
    return f"{count:,}", f"{count / seconds:,.0f}" if seconds else ""


def _verdict(traffic: Traffic, console: Console) -> int:
    checks = traffic.checks()
    for text, passed in checks:
        console.print(f"{'[green]ok[/]' if passed else '[red]FAILED[/]'}  {text}", highlight=False)
    return 0 if all(passed for _, passed in checks) else 1
