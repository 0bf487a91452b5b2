"""The asyncio client on uvloop, whose transports differ from asyncio's in small ways."""

import asyncio

import uvloop

from braidmq.client import Client
from tests.client.conftest import RunningBroker
from tests.faults import FaultProxy
from tests.leaks import no_leaked_threads_or_files


async def converse(broker: RunningBroker, name: str) -> None:
    async with (
        FaultProxy(broker.host, broker.port) as proxy,
        Client(f"127.0.0.1:{proxy.port}", client_id=name, backoff_min_s=0.01) as client,
    ):
        await client.subscribe(name, qos=1)
        await client.publish_many([(name, b"%d" % number) for number in range(1000)])
        got: list[bytes] = []
        async for batch in client.batches():
            got += batch.payloads
            if len(got) == 1000:
                break
        assert got == [b"%d" % number for number in range(1000)]
        proxy.cut()
        await client.publish(name, b"after the cut", qos=1)
        assert (await anext(client.messages())).payload == b"after the cut"


def test_a_conversation(broker: RunningBroker, name: str) -> None:
    uvloop.run(asyncio.sleep(0))  # what uvloop keeps for itself, it has after the first run
    with no_leaked_threads_or_files():
        uvloop.run(converse(broker, name))
