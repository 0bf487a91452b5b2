"""Both clients tell a broker that wants to know how busy they are."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress

import pytest

from braidmq.client import BlockingClient, Client, StatusReporting
from braidmq.wire import Properties, Publish
from braidmq.wire.status import StatusReport
from tests.client.fake_broker import FakeBroker
from tests.client.model_server import ModelServer
from tests.client.waiting import eventually, until

OFTEN = StatusReporting(interval_s=0.05, events=False)
SELDOM = StatusReporting(interval_s=600.0)  # what comes is an event


@pytest.fixture
def curious() -> Iterator[FakeBroker]:
    with FakeBroker(ModelServer(Properties(user_properties=(("status-ping", "1"),)))) as broker:
        yield broker


def send(broker: FakeBroker, count: int, qos: int = 1) -> None:
    def publish() -> None:
        for _ in range(count):
            broker.model.publish(Publish("t", b"x", qos))

    broker.call(publish)


def latest(broker: FakeBroker) -> StatusReport:
    return broker.call(lambda: broker.model.reports[-1] if broker.model.reports else StatusReport(-1, 0.0))


async def test_asyncio_reports_regularly(curious: FakeBroker) -> None:
    async with Client(curious.address, status=OFTEN) as client:
        await client.subscribe("$share/g/t", qos=1)
        send(curious, 3)
        async for _message in client.messages():
            await until(lambda: latest(curious).queue == 2)
            break
        await until(lambda: latest(curious).received == 3)
        assert latest(curious).processed == 0
        await client.next_batch(10)
        await until(lambda: latest(curious).processed == 1)


async def test_asyncio_reports_a_growing_queue_at_once(curious: FakeBroker) -> None:
    async with Client(curious.address, status=SELDOM) as client:
        await client.subscribe("$share/g/t", qos=1)
        send(curious, 8)
        await until(lambda: latest(curious).queue == 8)
        await client.next_batch(1)
        for _ in range(7):
            await client.next_batch(1)
        await until(lambda: latest(curious).queue <= 4)


async def test_a_worker_that_takes_what_comes_needs_no_event(curious: FakeBroker) -> None:
    async def work() -> None:
        async for _message in client.messages():
            pass

    async with Client(curious.address, status=SELDOM) as client:
        await client.subscribe("$share/g/t", qos=1)
        worker = asyncio.create_task(work())
        for number in range(1, 6):
            send(curious, 1)
            await until(lambda: len(curious.call(lambda: curious.model.finished)) == number)  # noqa: B023
        worker.cancel()
        await asyncio.wait([worker])
    assert curious.model.reports == []


async def test_a_worker_that_dies_has_nothing_in_hand_any_more(curious: FakeBroker) -> None:
    async def fail() -> None:
        await client.next_batch(3)
        raise ValueError("no")

    async with Client(curious.address, status=OFTEN) as client:
        await client.subscribe("$share/g/t", qos=1)
        send(curious, 3)
        await until(lambda: client.session.queued_messages == 3)
        [died] = await asyncio.gather(fail(), return_exceptions=True)
        assert isinstance(died, ValueError)
        await until(lambda: latest(curious).received == 3 and latest(curious).queue == 0)
    assert curious.model.finished == []  # and it was not acknowledged


async def test_asyncio_acknowledges_by_hand(curious: FakeBroker) -> None:
    async with Client(curious.address, status=OFTEN, manual_ack=True) as client:
        await client.subscribe("$share/g/t", qos=1)
        send(curious, 1)
        send(curious, 4, qos=0)
        held = await client.next_batch(1)
        await until(lambda: latest(curious).queue == 4)
        taken = 0
        while taken < 4:
            batch = await client.next_batch(10)
            assert batch is not None
            taken += len(batch)
        with suppress(TimeoutError):  # asking for more shows that QoS 0 is dealt with
            async with asyncio.timeout(0.01):
                await client.next_batch(1)
        await until(lambda: latest(curious).processed == 4)
        assert held is not None
        held.ack()
        await until(lambda: latest(curious).processed == 5)


async def test_asyncio_reports_what_it_is_told(curious: FakeBroker) -> None:
    async with Client(curious.address, status=SELDOM) as client:
        await client.subscribe("$share/g/t")
        client.report(17, 0.25)
        await until(lambda: latest(curious) == StatusReport(17, 0.25))


async def test_a_full_inbox_is_reported(curious: FakeBroker) -> None:
    async with Client(curious.address, status=SELDOM, queue_messages_max=1) as client:
        await client.subscribe("$share/g/t")
        send(curious, 1)
        await until(lambda: latest(curious).queue == 1)
        await client.next_batch(1)
        await until(lambda: latest(curious).queue == 0)


def test_blocking_reports_batches(curious: FakeBroker) -> None:
    with BlockingClient(curious.address, status=OFTEN, manual_ack=True, pinger=True) as client:
        client.subscribe("$share/g/t", qos=1)
        send(curious, 6)
        batch = client.receive_batch(4, timeout_s=5.0)
        eventually(lambda: latest(curious).queue == 5)
        batch.ack()
        eventually(lambda: latest(curious).processed == len(batch))
        assert len(batch) == 4
        assert latest(curious).queue == 2


def test_blocking_reports_inside_its_calls(curious: FakeBroker) -> None:
    with BlockingClient(curious.address, status=OFTEN) as client:
        client.subscribe("$share/g/t", qos=1)
        send(curious, 3)
        for _message in client.messages(timeout_s=0.2):
            pass
        eventually(lambda: latest(curious).processed == 3)


def test_blocking_reports_what_it_is_told(curious: FakeBroker) -> None:
    with BlockingClient(curious.address, status=SELDOM) as client:
        client.subscribe("$share/g/t")
        client.report(9, 0.5)
        eventually(lambda: latest(curious) == StatusReport(9, 0.5))
        client.report(10)
        client.receive_batch(1, timeout_s=0.2)
        eventually(lambda: latest(curious).queue == 10)


async def test_no_report_for_a_broker_that_does_not_want_one(fake: FakeBroker) -> None:
    async with Client(fake.address, status=OFTEN, keep_alive_s=1) as client:
        await client.subscribe("$share/g/t", qos=1)
        send(fake, 8)
        await until(lambda: client.session.queued_messages == 8)
        await until(lambda: any(type(packet).__name__ == "Pingreq" for packet in fake.model.received))
    assert fake.model.reports == []
