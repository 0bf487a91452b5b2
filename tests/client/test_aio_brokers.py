"""The asyncio client against real brokers."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from braidmq.client import (
    Client,
    ClientClosedError,
    ServerDisconnectedError,
)
from braidmq.wire import (
    V5,
    V311,
    Properties,
    ReasonCode,
    Subscription,
    Will,
)
from tests.client.conftest import RunningBroker
from tests.client.waiting import take, until
from tests.faults import FaultProxy
from tests.leaks import no_leaks

QUICK = {"backoff_min_s": 0.01, "backoff_max_s": 0.05}


@pytest.fixture(autouse=True)
async def leaks_nothing() -> AsyncIterator[None]:
    async with no_leaks():
        yield


class TestRealBrokers:
    @pytest.mark.parametrize("version", [V311, V5])
    @pytest.mark.parametrize("qos", [0, 1, 2])
    async def test_round_trip(self, broker: RunningBroker, name: str, version: int, qos: int) -> None:
        async with Client(broker.address, client_id=name, version=version) as client:
            assert await client.subscribe(f"{name}/#", qos=qos) == (qos,)
            await client.publish(f"{name}/a", "text", qos=qos)
            await client.publish(f"{name}/b", bytearray(b"bytes"), qos=qos)
            received = []
            async for message in client.messages():
                received.append((message.topic, message.payload, message.qos))
                if len(received) == 2:
                    break
            assert received == [(f"{name}/a", b"text", qos), (f"{name}/b", b"bytes", qos)]
            assert len(await client.unsubscribe(f"{name}/#")) == (1 if version == V5 else 0)

    async def test_all_properties_travel(self, broker: RunningBroker, name: str) -> None:
        sent = Properties(
            payload_format=1, content_type="text/plain", response_topic="re/ply", correlation_data=b"\0\1",
            user_properties=(("a", "1"), ("a", "2")),
        )
        identifier = Properties(subscription_identifiers=(7,))
        async with Client(broker.address, client_id=name) as client:
            await client.subscribe(Subscription(name, 1, retain_as_published=True), properties=identifier)
            await client.publish(name, b"x", qos=1, properties=sent)
            async for message in client.messages():
                got = message.properties
                break
            assert got.subscription_identifiers == (7,)
            assert (got.payload_format, got.content_type, got.response_topic) == (1, "text/plain", "re/ply")
            assert got.correlation_data == sent.correlation_data
            assert got.user_properties == sent.user_properties

    async def test_many_messages_keep_their_order(self, broker: RunningBroker, name: str) -> None:
        async with Client(broker.address, client_id=name) as client:
            for qos in (0, 1, 2):
                await client.subscribe(f"{name}/{qos}", qos=qos)
                payloads = [b"%d" % number for number in range(3000)]
                results = await client.publish_many(((f"{name}/{qos}", p) for p in payloads), qos=qos)
                assert len(results) == (3000 if qos else 0)
                got: list[bytes] = []
                async for batch in client.batches(max_messages=500, max_wait_s=0.01):
                    assert 0 < len(batch) <= 500
                    got += batch.payloads
                    if len(got) == 3000:
                        break
                assert got == payloads

    async def test_a_kept_session_gets_what_came_while_it_was_away(
        self, broker: RunningBroker, name: str
    ) -> None:
        options = {"client_id": f"{name}s", "clean_start": False, "session_expiry_s": 600}
        async with Client(broker.address, **options) as client:
            assert not client.session.session_present
            await client.subscribe(name, qos=1)
        async with Client(broker.address, client_id=f"{name}p") as publisher:
            await publisher.publish_many([(name, b"%d" % number) for number in range(100)])
        async with Client(broker.address, **options) as client:
            assert client.session.session_present
            assert await take(client, 100) == [b"%d" % number for number in range(100)]

    async def test_an_inherited_session_takes_qos_2(self, broker: RunningBroker, name: str) -> None:
        kept = {"client_id": name, "clean_start": False, "session_expiry_s": 600}
        async with Client(broker.address, **kept) as client:
            await client.subscribe(name, qos=2)
        async with Client(broker.address, **kept) as client:
            assert client.session.session_present
            await client.publish_many([(name, b"%d" % number) for number in range(50)], qos=2)
            assert await take(client, 50) == [b"%d" % number for number in range(50)]

    async def test_unacknowledged_messages_come_again(self, broker: RunningBroker, name: str) -> None:
        options = {"client_id": name, "clean_start": False, "session_expiry_s": 600, "manual_ack": True}
        async with Client(broker.address, **options) as client:
            await client.subscribe(name, qos=1)
            await client.publish_many([(name, b"%d" % number) for number in range(10)])
            batch = await anext(client.batches(max_wait_s=5, max_messages=10))
            for message in list(batch)[:4]:
                message.ack()
        async with Client(broker.address, **options) as client:
            assert await take(client, 6) == [b"%d" % number for number in range(4, 10)]

    async def test_a_cut_connection_is_replaced_and_nothing_is_lost(
        self, broker: RunningBroker, name: str
    ) -> None:
        async with FaultProxy(broker.host, broker.port) as proxy:
            options = {"client_id": name, "clean_start": False, "session_expiry_s": 600, **QUICK}
            async with Client(f"127.0.0.1:{proxy.port}", **options) as client:
                await client.subscribe(f"{name}/#", qos=2)
                got: dict[bytes, int] = {}

                async def consume() -> None:
                    async for message in client.messages():
                        got[message.payload] = got.get(message.payload, 0) + 1

                consumer = asyncio.create_task(consume())
                for round_number in range(5):
                    payloads = [b"%d-%d" % (round_number, number) for number in range(50)]
                    publishing = asyncio.create_task(
                        client.publish_many(((f"{name}/x", payload) for payload in payloads), qos=2)
                    )
                    await asyncio.sleep(0.002 * round_number)
                    proxy.cut()
                    await publishing
                await until(lambda: len(got) == 250)
                await client.publish(f"{name}/x", b"end", qos=2)
                await until(lambda: b"end" in got)
                consumer.cancel()
                await asyncio.wait([consumer])
                assert set(got.values()) == {1}
                assert proxy.accepted > 1

    async def test_byte_by_byte(self, broker: RunningBroker, name: str) -> None:
        async with FaultProxy(broker.host, broker.port) as proxy:
            proxy.drip(1)
            async with Client(f"127.0.0.1:{proxy.port}", client_id=name) as client:
                await client.subscribe(name, qos=2)
                await client.publish(name, b"x" * 300, qos=2)
                assert await take(client, 1) == [b"x" * 300]

    async def test_the_will(self, broker: RunningBroker, name: str) -> None:
        async with Client(broker.address, client_id=f"{name}w") as watcher:
            await watcher.subscribe(name, qos=1)
            async with Client(broker.address, client_id=name, will=Will(name, b"gone", 1)) as dying:
                await dying.close(ReasonCode.DISCONNECT_WITH_WILL_MESSAGE)
            assert await take(watcher, 1) == [b"gone"]

    async def test_taken_over(self, broker: RunningBroker, name: str) -> None:
        if broker.kind == "mosquitto":
            pytest.skip("Mosquitto 2.0.11 closes the old connection without saying why")
        async with Client(broker.address, client_id=name) as first:
            async with Client(broker.address, client_id=name):
                with pytest.raises(ClientClosedError) as caught:
                    async for _ in first.messages():
                        pass
            cause = caught.value.__cause__
            assert isinstance(cause, ServerDisconnectedError)
            assert cause.reason == ReasonCode.SESSION_TAKEN_OVER
