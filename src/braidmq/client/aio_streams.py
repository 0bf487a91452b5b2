"""`async for` over what a client receives."""

from typing import Protocol, Self

from braidmq.client._batch import Message, MessageBatch


class Source(Protocol):
    """The part of a client that the loops need."""

    async def next_batch(self, max_messages: int, max_wait_s: float = 0.0) -> MessageBatch | None: ...

    def acknowledge(self, delivery: Message | MessageBatch, reason: int = 0) -> None: ...


class Batches:
    """Batch after batch; see `Client.batches`."""

    def __init__(self, source: Source, max_messages: int, max_wait_s: float, auto_ack: bool) -> None:
        self._source = source
        self._auto_ack = auto_ack
        self._max_messages = max_messages
        self._max_wait_s = max_wait_s
        self._last: MessageBatch | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> MessageBatch:
        if self._last is not None and self._auto_ack:
            self._source.acknowledge(self._last)
        self._last = None
        batch = await self._source.next_batch(self._max_messages, self._max_wait_s)
        if batch is None:
            raise StopAsyncIteration
        self._last = batch
        return batch


class Messages:
    """Message after message; see `Client.messages`. Takes one at a time, so leaving the loop loses none."""

    def __init__(self, source: Source, auto_ack: bool) -> None:
        self._batches = Batches(source, 1, 0.0, auto_ack)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        return (await self._batches.__anext__())[0]
