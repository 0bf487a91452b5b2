"""The pipeline measured: `python -m bench.pipeline`; results go to bench/results/pipeline.json.

**latency**: from when a message was due at its publisher to when its row can be read in the raw table, at
10,000 messages a second and a trigger of 1 s; durable brokers, JSON of 200 bytes, typed into the clean table
in the same commit. The goal is a p99 of 3 s.

**set-ups**: the four of the data-collection paper with Spark as the application: one broker or several (SGL,
MLT), one subscriber a broker or a shared group of them (SGL, SHD); 8 publishers, 600 bytes, as fast as they
are taken. Throughput at the publishers, into the table, and the mean latency. Here everything shares the
cores of one machine: what a second broker or subscriber can gain depends on how many there are.

Every case begins with a trickle of messages until Spark has committed a few batches, which isn't counted. CPU
seconds are those between the end of the warm-up and the end of publishing, by million messages published in
that time, so that the start of Java isn't in them.
"""

import argparse
import asyncio
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from bench.contenders import BenchError
from bench.pipeline_case import Case, Measured, run_case
from bench.report import machine
from braidmq.errors import BraidError

RESULTS = Path(__file__).parent / "results" / "pipeline.json"
LATENCY_RATE_PER_S = 10_000.0
LATENCY_P99_MS_GOAL = 3_000.0
# name, brokers, subscribers a broker, shared
SETUPS = (
    ("SGL-SGL", 1, 1, False),
    ("SGL-SHD", 1, 2, True),
    ("MLT-SGL", 2, 1, False),
    ("MLT-SHD", 2, 2, True),
)


def latency_case(seconds: float, warm_up_s: float, rate_per_s: float) -> Case:
    return Case(
        name="latency", brokers=2, subscribers_per_broker=1, shared=True, publishers=2, payload_bytes=200,
        rate_per_s=rate_per_s, seconds=seconds, warm_up_s=warm_up_s, durable=True,
    )  # fmt: skip


def setup_cases(seconds: float, warm_up_s: float, qos: int) -> list[Case]:
    return [
        Case(
            name=name,
            brokers=brokers,
            subscribers_per_broker=subscribers,
            shared=shared,
            publishers=8,
            payload_bytes=600,
            rate_per_s=None,
            seconds=seconds,
            warm_up_s=warm_up_s,
            durable=False,
            qos=qos,
        )
        for name, brokers, subscribers, shared in SETUPS
    ]


def table(measured: list[Measured]) -> Table:
    shown = Table("case", "published/s", "into the table/s", "latency mean", "p50", "p99", "rows", "CPU-s/M")
    for one in measured:
        times = [f"{one.latency_ms[name]:,.0f} ms" for name in ("mean", "p50", "p99")]
        complete = f"{one.rows:,}" + ("" if one.rows == one.published else f" of {one.published:,}")
        cpu = ", ".join(f"{name} {seconds:.0f}" for name, seconds in one.cpu_s_per_million.items())
        rates = (f"{one.publish_per_s:,.0f}", f"{one.table_per_s:,.0f}")
        shown.add_row(one.case.name, *rates, *times, complete, cpu)
    return shown


def notes(measured: list[Measured]) -> list[str]:
    """What the figures must be read with."""
    told = []
    for one in measured:
        if one.rows != one.published:
            told.append(f"{one.case.name}: {one.rows:,} rows for {one.published:,} acknowledged messages")
        if one.publisher_behind_s > 1:
            told.append(f"{one.case.name}: the publishers ended {one.publisher_behind_s:.1f} s late")
        if one.case.rate_per_s is not None:
            verdict = "reached" if one.latency_ms["p99"] <= LATENCY_P99_MS_GOAL else "short"
            told.append(f"{one.case.name}: p99 {one.latency_ms['p99']:,.0f} ms, goal 3,000 ms: {verdict}")
    return told


def arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench.pipeline", description="Measure the pipeline.")
    parser.add_argument("what", nargs="?", choices=("all", "latency", "setups"), default="all")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long publishers publish (60)")
    # In its first half minute the JVM compiles its own code on the cores that everything else needs too.
    parser.add_argument("--warm-up", type=float, default=30.0, help="seconds of these that don't count (30)")
    parser.add_argument("--rate", type=float, default=LATENCY_RATE_PER_S, help="messages a second (10000)")
    parser.add_argument("--qos", type=int, choices=(0, 1, 2), default=1, help="of the four set-ups (1)")
    parser.add_argument("--rounds", type=int, default=1, help="how often every case is run, by turns (1)")
    parser.add_argument("--out", type=Path, help="where to store JSON (bench/results/pipeline.json for all)")
    return parser.parse_args(argv)


def measure(cases: list[Case], console: Console) -> list[Measured]:
    measured = []
    for case in cases:
        with console.status(case.name), tempfile.TemporaryDirectory(prefix="braidmq-bench-") as directory:
            one = asyncio.run(run_case(case, Path(directory)))
        text = f"{case.name}: {one.table_per_s:,.0f} rows/s, p99 {one.latency_ms['p99']:,.0f} ms"
        console.print(text, highlight=False)
        measured.append(one)
    return measured


def main(argv: list[str] | None = None) -> int:
    given = arguments(argv)
    console = Console(width=None if sys.stdout.isatty() else 160)
    cases = [] if given.what == "setups" else [latency_case(given.seconds, given.warm_up, given.rate)]
    if given.what != "latency":
        cases += setup_cases(given.seconds, given.warm_up, given.qos)
    try:
        measured = measure(cases * given.rounds, console)
    except (BenchError, BraidError) as error:
        print(error, file=sys.stderr)
        return 1
    console.print(table(measured))
    for note in notes(measured):
        console.print(note, highlight=False)
    out = given.out or (RESULTS if given.what == "all" else None)
    if out:
        stored: dict[str, Any] = {"machine": machine(), "load_average": os.getloadavg(), "measured": measured}
        out.write_bytes(msgspec.json.format(msgspec.json.encode(stored), indent=2) + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
