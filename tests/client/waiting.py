"""Waiting for conditions, never for time."""

import asyncio
import time
from collections.abc import Callable

from braidmq.client import Client

PATIENCE_S = 20.0


def eventually(condition: Callable[[], bool]) -> None:
    """Comes back when the condition holds, which another thread or process makes true."""
    until_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until_s, "the condition never came true"
        time.sleep(0.005)


async def until(condition: Callable[[], bool]) -> None:
    """The same inside an event loop."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.005)


async def take(client: Client, count: int) -> list[bytes]:
    """The payloads of the next messages, each acknowledged."""
    payloads: list[bytes] = []
    async with asyncio.timeout(PATIENCE_S):
        async for message in client.messages():
            payloads.append(message.payload)
            message.ack()
            if len(payloads) == count:
                break
    return payloads
