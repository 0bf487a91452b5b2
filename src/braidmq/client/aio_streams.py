"""`async for` over what a client receives. No loop keeps anything back, so leaving one loses no message."""

from collections.abc import Awaitable, Callable
from typing import Self

from braidmq.client._batch import Message, MessageBatch

Next = Callable[[], Awaitable[MessageBatch | None]]  # None: there will be no more


class Batches:
    """Batch after batch; see `Client.batches`."""

    def __init__(self, ask: Next) -> None:
        self._ask = ask

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> MessageBatch:
        batch = await self._ask()
        if batch is None:
            raise StopAsyncIteration
        return batch


class Messages:
    """Message after message; see `Client.messages`."""

    def __init__(self, ask_one: Next) -> None:
        self._ask_one = ask_one

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        batch = await self._ask_one()
        if batch is None:
            raise StopAsyncIteration
        return batch[0]
