"""The process of one subscriber: takes messages one by one, and works on each by waiting as long as it takes.

`python -m braidmq.load.balance.member` reads a `MemberSpec` as the first line of its standard input, says
`ready` when it has joined the group, and reads the start of the run, in monotonic seconds, as the second
line. A member that joins late says so at once. The end of its input ends it.

The event loop waits with select(), whose time-out is exact to the microsecond; epoll rounds up to a
millisecond, which on 25 ms of work would be a share of the load that is measured.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path
from selectors import SelectSelector
from typing import BinaryIO

import msgspec

from braidmq.client import Client, StatusReporting
from braidmq.load.balance import records
from braidmq.sim.balance.scenario import MemberModel

READY = b"ready\n"


class MemberSpec(msgspec.Struct, frozen=True, kw_only=True):
    address: str
    client_id: str
    filter: str
    qos: int
    model: MemberModel
    record_path: str
    status: StatusReporting | None = None
    session_expiry_s: int = 0
    dies_after_s: float | None = None  # kills itself at the first message that it begins then


def precise_loop() -> asyncio.AbstractEventLoop:
    return asyncio.SelectorEventLoop(SelectSelector())


async def follow(spec: MemberSpec, orders: asyncio.StreamReader) -> None:
    """The life of a member, until `orders` end."""
    if spec.model.joins_at_s is None:
        async with _client(spec) as client:
            await client.subscribe(spec.filter, qos=spec.qos)
            _say_ready()
            start_s = float(await orders.readline())
            await _work_until_told(client, spec, start_s, orders)
        return
    _say_ready()
    start_s = float(await orders.readline())
    await sleep_until(start_s + spec.model.joins_at_s)
    async with _client(spec) as client:
        await client.subscribe(spec.filter, qos=spec.qos)
        await _work_until_told(client, spec, start_s, orders)


def _client(spec: MemberSpec) -> Client:
    return Client(
        spec.address,
        client_id=spec.client_id,
        status=spec.status,
        session_expiry_s=spec.session_expiry_s,
        connect_patience_s=10.0,
    )


async def _work_until_told(
    client: Client, spec: MemberSpec, start_s: float, orders: asyncio.StreamReader
) -> None:
    with Path(spec.record_path).open("ab", buffering=0) as file:
        worker = asyncio.create_task(_work(client, spec, start_s, file))
        end = asyncio.create_task(orders.read())
        await asyncio.wait([worker, end], return_when=asyncio.FIRST_COMPLETED)
        for task in (worker, end):
            task.cancel()
        await asyncio.wait([worker, end])
        if not worker.cancelled():
            worker.result()


async def _work(client: Client, spec: MemberSpec, start_s: float, file: BinaryIO) -> None:
    now = asyncio.get_running_loop().time
    async for message in client.messages():
        began_s = now()
        if spec.dies_after_s is not None and began_s - start_s >= spec.dies_after_s:
            os.kill(os.getpid(), signal.SIGKILL)
        await sleep_until(start_s + spec.model.finish_s(began_s - start_s, 1.0))
        file.write(records.pack(records.Record(records.number_of(message.payload), began_s, now())))


async def sleep_until(time_s: float) -> None:
    delay_s = time_s - asyncio.get_running_loop().time()
    if delay_s > 0:
        await asyncio.sleep(delay_s)


def _say_ready() -> None:
    sys.stdout.buffer.write(READY)
    sys.stdout.buffer.flush()


async def _main() -> None:
    orders = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    spec = msgspec.json.decode(await orders.readline(), type=MemberSpec)
    await follow(spec, orders)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=precise_loop) as runner:
        runner.run(_main())
