"""The small demo: one broker, clients that talk through it, a live table, and a check at the end.

It needs neither Spark nor Java, and a few seconds.
"""

import asyncio
import tempfile
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.table import Table

from braidmq.demo.processes import broker_process
from braidmq.demo.report import print_checks
from braidmq.demo.traffic import Traffic
from braidmq.errors import BraidError

REFRESH_S: Final = 0.25
LINE_EVERY_S: Final = 1.0


async def run_broker_only(seconds: float, console: Console) -> int:
    with tempfile.TemporaryDirectory(prefix="braidmq-demo-") as directory:
        async with broker_process("the broker", Path(directory, "log"), "--port", "0", "--in-memory") as (
            address,
            _,
        ):
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
    return print_checks(traffic.checks(), console)


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
