"""The asyncio client. It moves bytes between a transport and a `Session`, and wakes whoever waits.

One task supervises the connection; receiving runs no task at all. Everything is bounded: the inbox (beyond
its bound the socket is not read), unacknowledged publishes and unsent bytes (beyond theirs, `publish` waits).
A full inbox must not keep an answer from whoever waits for one: while a call waits, the socket is read on,
and QoS 0 messages that find the inbox full are dropped and counted (`dropped_messages`).

Calls may be cancelled at any time. A QoS 1 or 2 publish that has left stays in the session and will be
delivered; one that has not is forgotten. Leaving `async with` says goodbye to the server and leaves no task,
timer or socket behind.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self, Unpack
from weakref import WeakKeyDictionary, WeakSet

from braidmq.client._batch import Message, MessageBatch
from braidmq.client.aio_connector import Connector
from braidmq.client.aio_link import Link
from braidmq.client.aio_streams import Batches, Messages
from braidmq.client.calls import (
    NO_ANSWER,
    Payload,
    PublishResult,
    answerable,
    closed_error,
    make_options,
    make_publish,
    make_subscriptions,
    publish_result,
)
from braidmq.client.errors import ClientError, RequestTimeoutError
from braidmq.client.events import Completed, Event, Failed, MessagesReceived, Reauthenticated
from braidmq.client.options import OptionChoices
from braidmq.client.session import Session
from braidmq.wire import NO_PROPERTIES, Properties, Publish, Suback, Subscription, Unsuback


class Client:
    """`async with Client("host:1883") as client: ...`; every option of `Options` is a keyword."""

    def __init__(self, addresses: str | Iterable[str], **choices: Unpack[OptionChoices]) -> None:
        self.options = make_options(choices)
        self.session = Session(self.options)
        self._link: Link | None = None
        self._supervisor: asyncio.Task[None] | None = None
        self._ended = False
        self._end_cause: Exception | None = None
        self._online = asyncio.Event()  # set when a connection comes, or never will
        self._connector = Connector(self.session, addresses, self.options, self._handle)
        self._arrived = asyncio.Event()  # messages came, or none ever will
        self._window = asyncio.Semaphore(self.options.pending_publishes_max)
        self._window_tokens: set[int] = set()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._given: WeakKeyDictionary[asyncio.Task[Any], MessageBatch] = WeakKeyDictionary()  # to be acked
        self._workers: WeakSet[asyncio.Task[Any]] = WeakSet()  # who ever was given something
        self._reauthenticated: asyncio.Future[None] | None = None

    # -- life ---------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self._supervisor = asyncio.create_task(self._supervise(), name="mqtt client")
        try:
            await self._online.wait()
        except BaseException:
            await self.close()
            raise
        if self._ended:
            cause = self._end_cause
            await self.close()
            raise cause if isinstance(cause, ClientError) else closed_error(cause)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._finish_given()
        await self.close()

    async def close(self, reason: int = 0, properties: Properties = NO_PROPERTIES) -> None:
        """Says goodbye and frees everything; requests without an answer fail with ClientClosedError."""
        link = self._link
        try:
            if link is not None:
                self.session.disconnect(reason, properties)
                link.close()
                await asyncio.wait([link.lost])
        finally:
            if link is not None:
                link.abort()  # only if we were cancelled while it closed
            if self._supervisor is not None:
                self._supervisor.cancel()
                await asyncio.wait([self._supervisor])
            self._end(None)

    @property
    def connected(self) -> bool:
        return self._link is not None and self.session.connected

    @property
    def client_id(self) -> str:
        """Ours, or the one that the server assigned."""
        return self.session.client_id

    @property
    def dropped_messages(self) -> int:
        return self.session.dropped_messages

    async def wait_connected(self) -> None:
        """Until there is a connection; raises ClientClosedError if there will be none."""
        while not self.connected:
            self._check_open()
            self._online.clear()
            await self._online.wait()

    # -- publishing ---------------------------------------------------------------------------------------

    async def publish(
        self,
        topic: str,
        payload: Payload = b"",
        *,
        qos: int = 0,
        retain: bool = False,
        properties: Properties = NO_PROPERTIES,
        timeout_s: float | None = None,
    ) -> PublishResult:
        """QoS 0: returns when the message is on its way. QoS 1 and 2: when the server has acknowledged it."""
        packet = make_publish(topic, payload, qos, retain, properties)
        token = await self._submit_when_possible(packet, timeout_s)
        if not token:
            return NO_ANSWER
        async with self._timeout(timeout_s, "publish"):
            return publish_result(await self._answer(token))

    async def publish_many(
        self, messages: Iterable[tuple[str, Payload]], *, qos: int = 1, retain: bool = False,
        properties: Properties = NO_PROPERTIES, timeout_s: float | None = None,
    ) -> list[PublishResult]:
        """Publishes (topic, payload) pairs with as many on their way at once as the window allows.

        `timeout_s` is for each step: room in the window, or the next answer. Raises the first refusal, after
        the answers to all others are in.
        """
        tokens: list[int] = []
        answers: list[asyncio.Future[Any]] = []
        try:
            for topic, payload in messages:
                packet = make_publish(topic, payload, qos, retain, properties)
                token = await self._submit_when_possible(packet, timeout_s)
                if token:
                    tokens.append(token)
                    answers.append(self._expect(token))
            for answer in answers:
                if not answer.done():
                    async with self._timeout(timeout_s, "publish"):
                        await asyncio.wait([answer])
        finally:
            for token, answer in zip(tokens, answers, strict=True):
                self._stop_expecting(token, answer)
        return [publish_result(answer.result()) for answer in answers]

    async def _submit_when_possible(self, packet: Publish, timeout_s: float | None) -> int:
        """Waits for room and hands the message to the session; gives the token of its answer, 0 for QoS 0."""
        self._check_open()
        if packet.qos == 0:
            if not self._sendable():
                async with self._timeout(timeout_s, "publish"):
                    await self._wait_sendable()
            return self._submit(packet)
        if self._window.locked():
            async with self._timeout(timeout_s, "publish"):
                await self._window.acquire()
        else:
            await self._window.acquire()  # at once
        try:
            self._check_open()
            token = self._submit(packet)
        except BaseException:
            self._window.release()
            raise
        self._window_tokens.add(token)
        return token

    async def _wait_sendable(self) -> None:
        while not self._sendable():
            await self.wait_connected()
            assert self._link is not None
            await self._link.writable.wait()

    def _sendable(self) -> bool:
        """Whether bytes can leave now without piling up."""
        return self._link is not None and self.session.connected and self._link.writable.is_set()

    def _submit(self, packet: Publish) -> int:
        token = self.session.publish(packet)
        if self._link is not None:
            self._link.flush_soon()
        return token

    # -- subscribing --------------------------------------------------------------------------------------

    async def subscribe(
        self,
        *filters: str | Subscription,
        qos: int = 0,
        properties: Properties = NO_PROPERTIES,
        timeout_s: float | None = None,
    ) -> tuple[int, ...]:
        """The QoS granted for each filter; SubscribeRefusedError if one was refused.

        The subscriptions are renewed by themselves when a server comes back without our session.
        """
        subscriptions = make_subscriptions(filters, qos)
        answer = await self._request(lambda: self.session.subscribe(subscriptions, properties), timeout_s)
        assert isinstance(answer, Suback)
        return answer.reasons

    async def unsubscribe(
        self, *filters: str, properties: Properties = NO_PROPERTIES, timeout_s: float | None = None
    ) -> tuple[int, ...]:
        """One reason for each filter; MQTT 3 gives none."""
        answer = await self._request(lambda: self.session.unsubscribe(filters, properties), timeout_s)
        assert isinstance(answer, Unsuback)
        return answer.reasons

    async def reauthenticate(self, timeout_s: float | None = None) -> None:
        """Goes through the enhanced authentication again, without a new connection."""
        self._check_open()
        self.session.reauthenticate()
        self._reauthenticated = asyncio.get_running_loop().create_future()
        self._flush_soon()
        async with self._timeout(timeout_s, "re-authentication"):
            await self._reauthenticated

    async def _request(self, submit: Callable[[], int], timeout_s: float | None) -> Any:
        self._check_open()
        token = submit()
        self._flush_soon()
        async with self._timeout(timeout_s, "request"):
            return await self._answer(token)

    # -- receiving ----------------------------------------------------------------------------------------

    def messages(self) -> Messages:
        """`async for message in client.messages()`: ends when the client is closed.

        Without manual_ack, a message is acknowledged when the same task asks for the next one, in this loop
        or another, or leaves `async with` in peace: an exception in the body leaves it unacknowledged.
        """
        return Messages(lambda: self.next_batch(1))

    def batches(self, max_messages: int = 10_000, max_wait_s: float = 0.0) -> Batches:
        """`async for batch in client.batches()`: never an empty batch.

        After the first message, waits up to `max_wait_s` for the batch to fill. Without manual_ack, a batch
        is acknowledged as `messages` does it.
        """
        return Batches(lambda: self.next_batch(max_messages, max_wait_s))

    async def next_batch(self, max_messages: int, max_wait_s: float = 0.0) -> MessageBatch | None:
        """The next messages; None when the client was closed and all are taken."""
        self._finish_given()
        while not self.session.queued_messages:
            if self._ended:
                if self._end_cause is not None:
                    raise closed_error(self._end_cause)
                return None
            await self._arrival()
        if max_wait_s > 0:
            await self._gather(max_messages, max_wait_s)
        batch = self.session.take_batch(max_messages, self)
        self._give(current_task(), batch)
        self.session.work_began(batch, asyncio.get_running_loop().time())
        self._regulate()
        self._watch_status()
        return batch

    def _give(self, task: "asyncio.Task[Any]", batch: MessageBatch) -> None:
        if task not in self._workers:
            self._workers.add(task)
            task.add_done_callback(self._worker_ended)
        self._given[task] = batch

    def _worker_ended(self, task: "asyncio.Task[Any]") -> None:
        """Nobody works any more on what it had; nor is it acknowledged."""
        batch = self._given.pop(task, None)
        if batch is not None:
            self._finished(len(batch), whole_delivery=True)

    def _finish_given(self) -> None:
        """What this task got last is dealt with; what is acknowledged by hand, when that is done."""
        batch = self._given.pop(current_task(), None)
        if batch is None:
            return
        if self.options.manual_ack:
            self._finished(len(batch) - answerable(batch), whole_delivery=False)
        else:
            self.acknowledge(batch)
            self._finished(len(batch), whole_delivery=True)

    async def _arrival(self) -> None:
        self._arrived.clear()
        await self._arrived.wait()

    async def _gather(self, max_messages: int, max_wait_s: float) -> None:
        try:
            async with asyncio.timeout(max_wait_s):
                while self.session.queued_messages < max_messages and not self._ended and not self._full():
                    await self._arrival()
        except TimeoutError:
            return

    def acknowledge(self, delivery: Message | MessageBatch, reason: int = 0) -> None:
        """What `message.ack()` and `batch.ack()` call."""
        self.session.acknowledge(delivery, reason)
        self._flush_soon()
        if self.options.manual_ack:
            self._finished(answerable(delivery), whole_delivery=isinstance(delivery, MessageBatch))

    # -- the status that a shared group's member reports ---------------------------------------------------

    def report(self, queue_depth: int | None, service_time_s: float | None = None) -> None:
        """For who keeps messages in a queue of his own: its length, and the time that a message takes.

        Both hold until the next call and go out at once; None: the client measures it, as it does by itself.
        """
        self.session.tell_status(queue_depth, service_time_s)
        self._watch_status()

    def _finished(self, messages: int, *, whole_delivery: bool) -> None:
        now = asyncio.get_running_loop().time()
        self.session.work_finished(messages, now, whole_delivery=whole_delivery)
        self._watch_status()

    def _watch_status(self) -> None:
        if self._link is not None:
            self._link.watch_status()

    # -- the connection -----------------------------------------------------------------------------------

    async def _supervise(self) -> None:
        try:
            await self._connector.run(self._went_online, self._went_offline)
        except Exception as error:  # whatever ended it, those who wait must be told
            self._end(error)

    def _went_online(self, link: Link) -> None:
        self._link = link
        self._online.set()
        self._regulate()

    def _went_offline(self, error: ClientError) -> None:
        self._link = None
        self._settle_reauthentication(error)

    # -- events of the session ----------------------------------------------------------------------------

    def _handle(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, MessagesReceived):
                self._arrived.set()
                self._regulate()
            elif isinstance(event, Completed | Failed):
                self._settle(event)
            elif isinstance(event, Reauthenticated):
                self._settle_reauthentication(None)

    def _settle(self, event: Completed | Failed) -> None:
        self._release(event.token)
        future = self._waiting.pop(event.token, None)
        if future is None or future.done():
            return
        if isinstance(event, Failed):
            future.set_exception(event.error)
        else:
            future.set_result(event.answer)
        if not self._waiting:
            self._regulate()

    def _settle_reauthentication(self, error: ClientError | None) -> None:
        future = self._reauthenticated
        if future is None or future.done():
            return
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

    def _release(self, token: int) -> None:
        if token in self._window_tokens:
            self._window_tokens.discard(token)
            self._window.release()

    def _end(self, cause: Exception | None) -> None:
        """There will be no connection any more: nobody may go on waiting for one."""
        if self._ended:
            return
        self._ended = True
        self._end_cause = cause
        self._online.set()
        self._arrived.set()
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(closed_error(cause))
        self._waiting.clear()
        for token in tuple(self._window_tokens):
            self._release(token)

    # -- small parts --------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._ended or self._supervisor is None:
            raise closed_error(self._end_cause)

    def _flush_soon(self) -> None:
        if self._link is not None:
            self._link.flush_soon()

    def _full(self) -> bool:
        options, session = self.options, self.session
        return (
            session.queued_messages >= options.queue_messages_max
            or session.queued_bytes >= options.queue_bytes_max
        )

    def _regulate(self) -> None:
        """Reads the socket only while there is room, or somebody waits for an answer behind the messages."""
        full = self._full()
        self.session.drop_qos0(full and bool(self._waiting))
        if self._link is not None:
            self._link.set_reading(not full or bool(self._waiting))

    def _expect(self, token: int) -> asyncio.Future[Any]:
        future = self._waiting[token] = asyncio.get_running_loop().create_future()
        if len(self._waiting) == 1:
            self._regulate()
        return future

    def _stop_expecting(self, token: int, future: asyncio.Future[Any]) -> None:
        """Nobody waits any more. What was never sent is forgotten, the rest goes its way."""
        if self._waiting.pop(token, None) is not None and self.session.withdraw(token):
            self._release(token)
        if not future.cancel() and not future.cancelled():
            future.exception()  # retrieved: an error that nobody asked for is not worth a warning
        if not self._waiting:
            self._regulate()

    async def _answer(self, token: int) -> Any:
        future = self._expect(token)
        try:
            return await future
        finally:
            self._stop_expecting(token, future)

    @asynccontextmanager
    async def _timeout(self, timeout_s: float | None, what: str) -> AsyncIterator[None]:
        limit_s = self.options.request_timeout_s if timeout_s is None else timeout_s
        try:
            async with asyncio.timeout(limit_s):
                yield
        except TimeoutError as error:
            if isinstance(error, ClientError):
                raise
            raise RequestTimeoutError(f"no answer to the {what} within {limit_s:g} s") from None


def current_task() -> "asyncio.Task[Any]":
    task = asyncio.current_task()
    assert task is not None, "the client must be used inside a task"
    return task
