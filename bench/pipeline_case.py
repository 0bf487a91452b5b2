"""Runs one case of the pipeline's benchmark: brokers, publishers, `braidmq pipeline run`, and an observer.

The observer lists the raw table as any reader would, and knows of each row when it could first be seen there.
Latency is from when a message was due to then; the observer looks every 20 ms.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import psutil
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.contenders import BenchError
from bench.pipeline_publisher import AT_US_DIGITS, PublisherResult, PublisherTask
from braidmq.demo.processes import Child, broker_process, child, free_port
from braidmq.demo.receivers import read_receivers

LOOK_EVERY_S = 0.02
START_PATIENCE_S = 180.0
ARRIVAL_PATIENCE_S = 60.0  # without a new row
PIPELINE_STOP_S = 60.0
RECEIVER = "braidmq.spark.receiver"
WARM_UP_COMMITS = 3
WARM_UP_ROUND_S = 1.0
WARM_UP_RATE_PER_S = 500.0
LEAD_US = 1_000_000  # for the publishers to connect
TOML = """\
[pipeline]
location = "tables"
trigger_s = {trigger_s}

[[source]]
brokers = [{brokers}]
group = "bench"
subscribers_per_broker = {subscribers}
qos = {qos}
options = {{ metricsPort = {port}, shared = {shared} }}

[[schema]]
name = "readings"
topic = "bench/{{device}}"
event_time = "at"

[schema.fields]
at = {{ type = "timestamp_us", path = "at_us" }}
value = "double"
"""


class Case(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    brokers: int
    subscribers_per_broker: int
    shared: bool
    publishers: int
    payload_bytes: int
    rate_per_s: float | None  # all publishers together; None: as fast as possible
    seconds: float
    warm_up_s: float
    durable: bool
    qos: int = 1
    trigger_s: float = 1.0
    master: str = "local[2,4]"


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    case: Case
    published: int
    refused: int
    rows: int
    publish_per_s: float
    table_per_s: float
    latency_ms: dict[str, float]  # mean, p50, p99, max of what was due after the warm-up
    publisher_behind_s: float
    cpu_s_per_million: dict[str, float]


class Observer:
    """Watches the files of the raw table."""

    def __init__(self, table: Path) -> None:
        self._table = table
        self._known: set[str] = set()
        self._parts: list[tuple[np.ndarray[Any, Any], int]] = []  # due times, and when they were seen
        self.rows = 0
        self.commits = 0  # looks that found something new

    def look(self) -> None:
        seen_us = time.time_ns() // 1_000
        fresh = [path for path in map(str, self._table.rglob("*.parquet")) if path not in self._known]
        for path in fresh:
            payloads = pq.read_table(path, columns=["payload"])["payload"].combine_chunks()
            stamps = pc.binary_slice(payloads, AT_US_DIGITS.start, AT_US_DIGITS.stop).cast("string")
            due_us = stamps.cast("int64").to_numpy(zero_copy_only=False)
            self._known.add(path)
            self._parts.append((due_us, seen_us))
            self.rows += len(due_us)
        self.commits += bool(fresh)

    def latencies_ms(self, due_after_us: int) -> "np.ndarray[Any, Any]":
        late = [(seen_us - due_us[due_us >= due_after_us]) / 1_000 for due_us, seen_us in self._parts]
        return np.concatenate(late) if late else np.zeros(0)

    @property
    def last_seen_us(self) -> int:
        return max((seen_us for _, seen_us in self._parts), default=0)


class Meter:
    """CPU time by part, from the end of the warm-up to the end of publishing."""

    def __init__(self, brokers: list[int], pipeline: int) -> None:
        self._sessions = dict.fromkeys(brokers, "brokers") | {pipeline: "Spark"}
        self._before: dict[str, float] = {}
        self._began = 0.0

    @property
    def running(self) -> bool:
        return bool(self._before)

    def start(self) -> None:
        self._before, self._began = self._read(), time.monotonic()

    def per_million(self, messages_per_s: float) -> dict[str, float]:
        """CPU seconds for a million messages at this rate."""
        taken_s = time.monotonic() - self._began
        after = self._read()
        spent = {part: after[part] - self._before.get(part, 0.0) for part in after}
        return {part: cpu_s / (taken_s * messages_per_s) * 1e6 for part, cpu_s in spent.items()}

    def _read(self) -> dict[str, float]:
        spent: dict[str, float] = {}
        for process in psutil.process_iter():
            try:
                part = self._sessions.get(os.getsid(process.pid))
                if part is not None:
                    part = "receivers" if RECEIVER in process.cmdline() else part
                    times = process.cpu_times()
                    spent[part] = spent.get(part, 0.0) + times.user + times.system
            except (psutil.Error, ProcessLookupError):
                continue
        return spent


async def run_case(case: Case, directory: Path) -> Measured:
    port = free_port()
    async with AsyncExitStack() as stack:
        brokers = [await stack.enter_async_context(_broker(case, directory, n)) for n in range(case.brokers)]
        addresses = [address for address, _ in brokers]
        file = directory / "pipeline.toml"
        file.write_text(_toml(case, addresses, port))
        pipeline = await stack.enter_async_context(_pipeline(file, case))
        await _connected(case, port, pipeline)
        observer = Observer(directory / "tables" / "raw")
        warmed = await _warm_up(case, directory, addresses, observer, pipeline)
        meter = Meter([running.pid for _, running in brokers], pipeline.pid)
        start_us = time.time_ns() // 1_000 + LEAD_US
        publishing = _publish(case, directory, addresses, start_us)
        results = await _watched(publishing, observer, meter, start_us + int(case.warm_up_s * 1e6))
        cpu = meter.per_million(sum(result.acknowledged / result.seconds for result in results))
        published = sum(result.acknowledged for result in results)
        await _arrived(warmed + published, observer, pipeline)
        await pipeline.stop(PIPELINE_STOP_S)
    return _measured(case, results, observer, start_us, cpu, warmed)


async def _warm_up(
    case: Case, directory: Path, brokers: list[str], observer: Observer, pipeline: Child
) -> int:
    """A trickle of messages until a cold Spark has committed a few batches; gives how many there were."""
    trickle = msgspec.structs.replace(case, seconds=WARM_UP_ROUND_S, rate_per_s=WARM_UP_RATE_PER_S)
    published = 0
    while observer.commits < WARM_UP_COMMITS:
        start_us = time.time_ns() // 1_000
        for result in await _publish(trickle, directory, brokers, start_us):
            published += result.acknowledged
        pipeline.check()
        observer.look()
    await _arrived(published, observer, pipeline)
    return published


async def _watched(
    publishing: Awaitable[list[PublisherResult]], observer: Observer, meter: Meter, warm_us: int
) -> list[PublisherResult]:
    """Looks at the table until publishing is over."""
    task = asyncio.ensure_future(publishing)
    while not task.done():
        await asyncio.to_thread(observer.look)
        if not meter.running and time.time_ns() // 1_000 >= warm_us:
            meter.start()
        await asyncio.sleep(LOOK_EVERY_S)
    return task.result()


@asynccontextmanager
async def _broker(case: Case, directory: Path, number: int) -> AsyncIterator[tuple[str, Child]]:
    name = f"broker-{number}"
    kept = ("--data-dir", str(directory / name)) if case.durable else ("--in-memory",)
    async with broker_process(name, directory / f"{name}.log", *kept) as running:
        yield running


def _toml(case: Case, brokers: list[str], port: int) -> str:
    return TOML.format(
        trigger_s=case.trigger_s,
        brokers=", ".join(f'"{broker}"' for broker in brokers),
        subscribers=case.subscribers_per_broker,
        qos=case.qos,
        port=port,
        shared=str(case.shared).lower(),
    )


@asynccontextmanager
async def _pipeline(file: Path, case: Case) -> AsyncIterator[Child]:
    command = ["braidmq", "pipeline", "run", str(file), "--master", case.master]
    async with child("the pipeline", command, file.with_name("pipeline.log")) as running:
        yield running


async def _connected(case: Case, port: int, pipeline: Child) -> None:
    wanted = case.brokers * case.subscribers_per_broker
    give_up = time.monotonic() + START_PATIENCE_S
    while sum(receiver.connected for receiver in read_receivers(port)) < wanted:
        pipeline.check()
        if time.monotonic() > give_up:
            raise BenchError(f"{case.name}: the receivers did not connect: {pipeline.last_words()}")
        await asyncio.sleep(LOOK_EVERY_S)


async def _publish(
    case: Case, directory: Path, brokers: list[str], start_us: int
) -> list[PublisherResult]:
    """One process a broker, with its share of the publishers."""
    numbered = enumerate(brokers)
    return await asyncio.gather(
        *(_publisher(case, directory, number, broker, start_us) for number, broker in numbered)
    )


async def _publisher(
    case: Case, directory: Path, number: int, broker: str, start_us: int
) -> PublisherResult:
    task = PublisherTask(
        broker=broker,
        name=str(number),
        connections=case.publishers // case.brokers,
        seconds=case.seconds,
        start_us=start_us,
        rate_per_s=None if case.rate_per_s is None else case.rate_per_s / case.brokers,
        payload_bytes=case.payload_bytes,
        qos=case.qos,
    )
    log = directory / f"publisher-{number}.log"
    async with child(f"publisher {number}", ["bench.pipeline_publisher"], log) as running:
        said, _ = await running.process.communicate(msgspec.json.encode(task) + b"\n")
        if not said:
            raise BenchError(f"publisher {number} failed: {running.last_words()}")
        return msgspec.json.decode(said, type=PublisherResult)


async def _arrived(expected: int, observer: Observer, pipeline: Child) -> None:
    before, give_up = -1, 0.0
    while observer.rows < expected:
        pipeline.check()
        if observer.rows != before:
            before, give_up = observer.rows, time.monotonic() + ARRIVAL_PATIENCE_S
        if time.monotonic() > give_up:
            return
        await asyncio.to_thread(observer.look)
        await asyncio.sleep(LOOK_EVERY_S)


def _measured(
    case: Case,
    results: list[PublisherResult],
    observer: Observer,
    start_us: int,
    cpu: dict[str, float],
    warmed: int,
) -> Measured:
    published = sum(result.acknowledged for result in results)
    warm = observer.latencies_ms(start_us + int(case.warm_up_s * 1e6))
    if not len(warm):
        raise BenchError(f"{case.name}: no row was due after the warm-up of {case.warm_up_s:g} s")
    taken_s = max(1e-6, (observer.last_seen_us - start_us) / 1e6)
    figures = {"mean": warm.mean(), "p50": np.percentile(warm, 50), "p99": np.percentile(warm, 99)}
    return Measured(
        case=case,
        published=published,
        refused=sum(result.refused for result in results),
        rows=observer.rows - warmed,
        publish_per_s=sum(result.acknowledged / result.seconds for result in results),
        table_per_s=(observer.rows - warmed) / taken_s,
        latency_ms={name: float(value) for name, value in {**figures, "max": warm.max()}.items()},
        publisher_behind_s=max(result.behind_s for result in results),
        cpu_s_per_million=cpu,
    )
