"""The main job, end to end: a cluster of two brokers, devices, the pipeline on Spark, and a check of it all.

The job moves through phases. Pollers keep a `Situation` up to date, which is all that the screen sees.
Whatever happens, leaving the job ends every process that it has started.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from braidmq.client import Client
from braidmq.demo.brokers import DemoBroker, make_brokers
from braidmq.demo.checks import Check
from braidmq.demo.directory import prepare
from braidmq.demo.fleet import FleetReport, FleetTask
from braidmq.demo.ledger import read_ledger
from braidmq.demo.pipeline_file import (
    ALERT_FILTER,
    FILE_NAME,
    RECEIVERS_PER_BROKER,
    SILENT,
    TABLES,
    pipeline_toml,
)
from braidmq.demo.plan import FleetPlan, Script
from braidmq.demo.processes import Child, child, free_port
from braidmq.demo.receivers import find_receiver, read_receivers, slow_down
from braidmq.demo.situation import Situation
from braidmq.demo.verdict import check_tables, must_close
from braidmq.errors import BraidError
from braidmq.spark.pipeline.config import load_pipeline
from braidmq.spark.pipeline.home import open_home
from braidmq.spark.pipeline.status import read_status
from braidmq.spark.pipeline.tables import AGGREGATES

BROKERS: Final = 2
POLL_S: Final = 0.3
START_PATIENCE_S: Final = 180.0  # a cold Java on a busy machine
SETTLE_PATIENCE_S: Final = 90.0  # without any progress
PIPELINE_STOP_S: Final = 90.0
SLOW_FROM_SHARE: Final = 0.4
SLOW_UNTIL_SHARE: Final = 0.8
KILLED_AT_SHARE: Final = 0.6  # of the time: a broker is killed
DOWN_S: Final = 1.0
SILENT_SHARE: Final = 0.25  # of the time: so long must a device say nothing
SILENT_S_LEAST: Final = 4.0
PLAN_FILE: Final = "plan.json"  # with the ledgers, all that it takes to check the tables again
FLEET_LEAD_MS: Final = 500  # for the fleets to start


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    directory: Path
    seconds: float = 60.0
    rate: float = 2_000.0
    seed: int = 1
    master: str = "local[*,4]"


class Job:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.situation = Situation()
        self._directory = prepare(settings.directory).absolute()
        self._metrics_port = free_port()

    @property
    def pipeline_file(self) -> Path:
        return self._directory / FILE_NAME

    async def run(self) -> list[Check]:
        """Does it all; what was found at the end."""
        async with AsyncExitStack() as stack:
            brokers = make_brokers(self._directory, BROKERS)
            for broker in brokers:
                await stack.enter_async_context(broker)
            await stack.enter_async_context(self._listening(brokers[0].address))
            self._write_pipeline_file([broker.address for broker in brokers])
            pipeline = await stack.enter_async_context(self._pipeline())
            await stack.enter_async_context(_background(self._watch()))
            await self._wait_for_receivers(pipeline)
            plan = await self._talk(brokers, pipeline)
            script = await asyncio.to_thread(Script, plan)
            await self._settle(script, pipeline)
            self.situation.phase = "stopping"
            await pipeline.stop(PIPELINE_STOP_S)
        self.situation.phase = "checking"
        return await asyncio.to_thread(self._check, script)

    # -- processes ----------------------------------------------------------------------------------------

    def _write_pipeline_file(self, brokers: list[str]) -> None:
        silent_s = max(SILENT_S_LEAST, self.settings.seconds * SILENT_SHARE)
        self.pipeline_file.write_text(pipeline_toml(brokers, silent_s, self._metrics_port))

    @asynccontextmanager
    async def _pipeline(self) -> AsyncIterator[Child]:
        command = ["braidmq", "pipeline", "run", str(self.pipeline_file), "--master", self.settings.master]
        log = self._directory / "pipeline.log"
        async with child("the pipeline", command, log) as running:
            yield running

    async def _fleet(self, plan: FleetPlan, number: int, broker: str) -> None:
        task = FleetTask(
            plan=plan,
            name=f"fleet-{number + 1}",
            broker=broker,
            devices=plan.devices_of(number, BROKERS),
            ledger=str(self._ledger(number)),
        )
        log = self._directory / f"fleet-{number + 1}.log"
        async with child(f"fleet {number + 1}", ["braidmq.demo.fleet"], log) as fleet:
            assert fleet.process.stdin is not None
            assert fleet.process.stdout is not None
            fleet.process.stdin.write(msgspec.json.encode(task) + b"\n")
            async for line in fleet.process.stdout:
                self.situation.fleets[number] = msgspec.json.decode(line, type=FleetReport)
            if await fleet.process.wait():
                fleet.check()

    def _ledger(self, number: int) -> Path:
        return self._directory / f"fleet-{number + 1}.ledger"

    # -- phases -------------------------------------------------------------------------------------------

    async def _wait_for_receivers(self, pipeline: Child) -> None:
        """What is published before somebody has subscribed would be nobody's."""
        self.situation.phase = "waiting for Spark and its receivers"
        wanted = BROKERS * RECEIVERS_PER_BROKER

        def connected() -> int:
            return sum(receiver.connected for receiver in self.situation.receivers)

        await _until(lambda: connected() == wanted, connected, START_PATIENCE_S, pipeline)
        if connected() < wanted:
            raise BraidError(f"{connected()} of {wanted} receivers have connected: {pipeline.last_words()}")

    async def _talk(self, brokers: list[DemoBroker], pipeline: Child) -> FleetPlan:
        """The devices say what they have to say; a receiver is slow for a while, and a broker is killed."""
        settings = self.settings
        start_ms = time.time_ns() // 1_000_000 + FLEET_LEAD_MS
        plan = FleetPlan(seed=settings.seed, start_ms=start_ms, seconds=settings.seconds, rate=settings.rate)
        (self._directory / PLAN_FILE).write_bytes(msgspec.json.encode(plan))
        self.situation.fleets = [FleetReport()] * BROKERS
        self.situation.phase = "devices are talking"
        async with asyncio.TaskGroup() as group:
            for number, broker in enumerate(brokers):
                group.create_task(self._fleet(plan, number, broker.address))
            group.create_task(self._hold_up_a_receiver(pipeline))
            group.create_task(self._kill_and_restart(brokers[-1]))
            group.create_task(self._count_seconds(plan))
        return plan

    async def _count_seconds(self, plan: FleetPlan) -> None:
        while self.situation.traffic_s < plan.seconds:
            await asyncio.sleep(POLL_S)
            self.situation.traffic_s = min(plan.seconds, max(0.0, time.time() - plan.start_ms / 1000))

    async def _hold_up_a_receiver(self, pipeline: Child) -> None:
        seconds = self.settings.seconds
        await asyncio.sleep(seconds * SLOW_FROM_SHARE)
        subscriber = self.situation.receivers[0].subscriber
        pid = find_receiver(pipeline.pid, subscriber)
        if pid is not None:
            self.situation.slow = subscriber
            await slow_down(pid, seconds * (SLOW_UNTIL_SHARE - SLOW_FROM_SHARE))
            self.situation.slow = None

    async def _kill_and_restart(self, broker: DemoBroker) -> None:
        await asyncio.sleep(self.settings.seconds * KILLED_AT_SHARE)
        await broker.crash()
        self.situation.killed = broker.name
        await asyncio.sleep(DOWN_S)
        await broker.come_back()
        self.situation.killed = None

    async def _settle(self, script: Script, pipeline: Child) -> None:
        """Waits until all that was promised is in the tables, or nothing moves any more."""
        self.situation.phase = "waiting for the last rows"
        windows = await asyncio.to_thread(must_close, script)

        def complete() -> bool:
            rows = self.situation.rows
            silent = any(SILENT in text for text in self.situation.alerts.values())
            return not self.situation.lag and rows.get(AGGREGATES, 0) >= windows and silent

        def progress() -> object:
            return dict(self.situation.rows), len(self.situation.alerts)

        await _until(complete, progress, SETTLE_PATIENCE_S, pipeline)

    def _check(self, script: Script) -> list[Check]:
        promised = set().union(*(read_ledger(self._ledger(number)) for number in range(BROKERS)))
        return check_tables(script, promised, self.situation.alerts, self._directory / TABLES)

    # -- what is seen -------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        """Keeps rows and receivers up to date."""
        home = open_home(load_pipeline(self.pipeline_file))
        while True:
            status = await asyncio.to_thread(read_status, home, time.time_ns() // 1_000_000)
            self.situation.rows = status.rows
            receivers = await asyncio.to_thread(read_receivers, self._metrics_port)
            self.situation.receivers = receivers or self.situation.receivers
            await asyncio.sleep(POLL_S)

    @asynccontextmanager
    async def _listening(self, broker: str) -> AsyncIterator[None]:
        """Somebody who wants to know of alerts, at one broker: the cluster brings them from the other."""
        async with Client(broker) as client:
            await client.subscribe(ALERT_FILTER, qos=1)
            async with _background(self._listen(client)):
                yield

    async def _listen(self, client: Client) -> None:
        async for message in client.messages():
            alert = json.loads(message.payload)
            self.situation.alerts[alert["id"]] = f"{alert['state']} {message.topic.partition('/')[2]}"


@asynccontextmanager
async def _background(work: object) -> AsyncIterator[None]:
    task = asyncio.ensure_future(work)  # type: ignore[call-overload]
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _until(
    done: Callable[[], bool], progress: Callable[[], object], patience_s: float, pipeline: Child
) -> None:
    """Waits for a condition as long as something moves. BraidError if the pipeline ends meanwhile."""
    before, give_up_s = progress(), time.monotonic() + patience_s
    while not done() and time.monotonic() < give_up_s:
        pipeline.check()
        await asyncio.sleep(POLL_S)
        if progress() != before:
            before, give_up_s = progress(), time.monotonic() + patience_s
