"""The traffic of the demo: a plant whose lines publish readings, and subscribers of every kind that count.

What every subscriber must have received is computed from what was published, so that the demo ends with a
check and not with a pretty picture. Nothing here prints.
"""

import asyncio
import time
from contextlib import AsyncExitStack
from typing import Final

from braidmq.client import Client
from braidmq.demo.checks import Check

LINES: Final = 3
TICK_S: Final = 0.02
TEMPERATURES_PER_TICK: Final = 200  # QoS 0
COUNTS_PER_TICK: Final = 20  # QoS 1
ARRIVAL_PATIENCE_S: Final = 10.0  # without any progress, for what is still under way at the end


class Publisher:
    """One line of the plant: temperatures with QoS 0, finished pieces with QoS 1, its state retained."""

    def __init__(self, address: str, number: int) -> None:
        self.name = f"line-{number}"
        self.topic = f"plant/{self.name}"
        self.client = Client(address, client_id=f"demo-{self.name}")
        self.temperatures = 0
        self.counts = 0

    @property
    def published(self) -> int:
        return self.temperatures + self.counts

    async def run(self, stopping: asyncio.Event) -> None:
        await self.client.publish(f"{self.topic}/state", b"running", qos=1, retain=True)
        while not stopping.is_set():
            for _ in range(TEMPERATURES_PER_TICK):
                await self.client.publish(f"{self.topic}/temperature", _stamp())
                self.temperatures += 1
            pieces = [(f"{self.topic}/count", _stamp())] * COUNTS_PER_TICK
            await self.client.publish_many(pieces, qos=1)
            self.counts += COUNTS_PER_TICK
            await _sleep_unless(stopping, TICK_S)


class Subscriber:
    """One subscription, counting what comes and how long it took."""

    def __init__(self, address: str, name: str, topic_filter: str, qos: int) -> None:
        self.name = name
        self.filter = topic_filter
        self.qos = qos
        self.client = Client(address, client_id=f"demo-{name}")
        self.received = 0
        self.latency_ms = 0.0

    async def run(self) -> None:
        async for batch in self.client.batches():
            self.received += len(batch)
            sent_s = _stamped(batch.payloads[-1])
            if sent_s is not None:
                self.latency_ms = (time.monotonic() - sent_s) * 1000


class Traffic:
    """All clients of the demo, connected to one broker."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.publishers = [Publisher(address, number) for number in range(1, LINES + 1)]
        self.dashboard = Subscriber(address, "dashboard", "plant/+/temperature", 0)
        self.archive = Subscriber(address, "archive", "plant/#", 1)
        self.workers = [
            Subscriber(address, f"worker-{number}", "$share/workers/plant/+/count", 1) for number in (1, 2)
        ]
        self.newcomer = Subscriber(address, "newcomer", "plant/+/state", 1)
        self.subscribers = [self.dashboard, self.archive, *self.workers]
        self._started_s = self._stopped_s = 0.0

    @property
    def published(self) -> int:
        return sum(publisher.published for publisher in self.publishers)

    @property
    def talking_s(self) -> float:
        """How long the publishers have been at it."""
        if not self._started_s:
            return 0.0
        return (self._stopped_s or time.monotonic()) - self._started_s

    @property
    def delivered(self) -> int:
        return sum(subscriber.received for subscriber in self.subscribers)

    async def run(self, seconds: float) -> None:
        """Connect everybody, let them talk for some seconds, and wait until everything has arrived."""
        stopping = asyncio.Event()
        async with AsyncExitStack() as clients:
            for publisher in self.publishers:
                await clients.enter_async_context(publisher.client)
            for subscriber in self.subscribers:
                await clients.enter_async_context(subscriber.client)
                await subscriber.client.subscribe(subscriber.filter, qos=subscriber.qos)
            async with asyncio.TaskGroup() as group:
                self._started_s = time.monotonic()
                reading = [group.create_task(subscriber.run()) for subscriber in self.subscribers]
                writing = [group.create_task(publisher.run(stopping)) for publisher in self.publishers]
                await asyncio.wait(writing, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
                stopping.set()
                await asyncio.wait(writing)
                self._stopped_s = time.monotonic()
                await self._welcome_newcomer(clients, group, reading)
                await self._arrival()
                for task in reading:
                    task.cancel()

    async def _welcome_newcomer(
        self, clients: AsyncExitStack, group: asyncio.TaskGroup, reading: list[asyncio.Task[None]]
    ) -> None:
        """Somebody who comes after all was said gets what was retained."""
        await clients.enter_async_context(self.newcomer.client)
        await self.newcomer.client.subscribe(self.newcomer.filter, qos=self.newcomer.qos)
        self.subscribers.append(self.newcomer)
        reading.append(group.create_task(self.newcomer.run()))

    async def _arrival(self) -> None:
        before, patience_until_s = -1, 0.0
        while any(not passed for _, passed in self.checks()):
            now_s = time.monotonic()
            if self.delivered != before:
                before, patience_until_s = self.delivered, now_s + ARRIVAL_PATIENCE_S
            if now_s > patience_until_s:
                return
            await asyncio.sleep(TICK_S)

    def checks(self) -> list[Check]:
        """What must hold when everything has arrived, and whether it does."""
        temperatures = sum(publisher.temperatures for publisher in self.publishers)
        counts = sum(publisher.counts for publisher in self.publishers)
        everything = temperatures + counts + LINES  # and each line's state
        shares = [worker.received for worker in self.workers]
        return [
            (_claim("dashboard has every temperature", self.dashboard.received, temperatures)),
            (_claim("archive has every message", self.archive.received, everything)),
            (_claim("workers have every count once between them", sum(shares), counts)),
            Check(f"each worker had a share ({' + '.join(f'{share:,}' for share in shares)})", all(shares)),
            (_claim("newcomer has the retained states", self.newcomer.received, LINES)),
        ]


def _claim(text: str, received: int, expected: int) -> Check:
    return Check(f"{text} ({received:,} of {expected:,})", received == expected)


def _stamp() -> bytes:
    return b"%.6f" % time.monotonic()


def _stamped(payload: bytes) -> float | None:
    try:
        return float(payload)
    except ValueError:
        return None


async def _sleep_unless(stopping: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(stopping.wait(), seconds)
    except TimeoutError:
        return
