"""The blocking client: the same session over a plain socket, for programs without an event loop.

All work is done inside the calls; there is no thread. A program that computes for long between calls can ask
for one with `pinger=True`: it keeps the connection alive and does nothing else. Apart from that, one thread
at a time: calls exclude each other.

A lost connection is found and replaced inside the next call. While it is being replaced a call may take up to
`connect_timeout_s` longer than its own timeout.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, Self, Unpack

from braidmq.client._batch import Message, MessageBatch
from braidmq.client.blocking_connector import BlockingConnector
from braidmq.client.blocking_link import SocketLink
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
from braidmq.client.errors import (
    ClientClosedError,
    ClientError,
    ConnectionLostError,
    LimitExceededError,
    RequestTimeoutError,
)
from braidmq.client.events import Closed, Completed, Event, Failed, Reauthenticated, ResubscribeRefused
from braidmq.client.options import OptionChoices
from braidmq.client.pinger import Pinger
from braidmq.client.session import Session
from braidmq.errors import BraidError, ProtocolError
from braidmq.wire import NO_PROPERTIES, Properties, Publish, Suback, Subscription, Unsuback

GATHERED_BYTES_MAX = 64 * 1024  # publish_many writes at least this often
CLOSING_TIMEOUT_S = 5.0  # for the server to take our last bytes


class BlockingClient:
    """`with BlockingClient("host:1883") as client: ...`; every option of `Options` is a keyword."""

    def __init__(
        self, addresses: str | Iterable[str], *, pinger: bool = False, **choices: Unpack[OptionChoices]
    ) -> None:
        self.options = make_options(choices)
        self.session = Session(self.options)
        self._connector = BlockingConnector(addresses, self.options, self._greet)
        self._lock = threading.RLock()
        self._link: SocketLink | None = None
        self._pinger = Pinger(self._ping) if pinger else None
        self._opened = False
        self._ended = False
        self._end_cause: Exception | None = None
        self._answers: dict[int, Completed | Failed | None] = {}  # None: still waited for
        self._reauthenticated = False
        self._last_batch: MessageBatch | None = None

    # -- life ---------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            with self._lock:
                self._finish_last()
        self.close()

    def open(self) -> None:
        """Connects; raises why it can't."""
        with self._lock:
            if self._opened:
                raise closed_error(None) if self._ended else RuntimeError("the client is open")
            self._opened = True
            try:
                self._connector.begin(first=True)
                self._connector.go_on(None)
            except BaseException as error:
                self._end(error if isinstance(error, Exception) else None)
                raise
        if self._pinger is not None:
            self._pinger.start()

    def close(self, reason: int = 0, properties: Properties = NO_PROPERTIES) -> None:
        """Says goodbye and frees everything."""
        if self._pinger is not None:
            self._pinger.stop()
        with self._lock:
            if self._link is not None:
                self.session.disconnect(reason, properties)
                self._say_the_rest(self._link)
            self._end(None)

    @property
    def connected(self) -> bool:
        return self.session.connected

    @property
    def client_id(self) -> str:
        """Ours, or the one that the server assigned."""
        return self.session.client_id

    @property
    def dropped_messages(self) -> int:
        return self.session.dropped_messages

    # -- publishing and subscribing -----------------------------------------------------------------------

    def publish(
        self,
        topic: str,
        payload: Payload = b"",
        *,
        qos: int = 0,
        retain: bool = False,
        properties: Properties = NO_PROPERTIES,
        timeout_s: float | None = None,
    ) -> PublishResult:
        """QoS 0: returns when the socket has it. QoS 1 and 2: when the server has acknowledged it."""
        packet = make_publish(topic, payload, qos, retain, properties)
        with self._lock:
            deadline = self._deadline(timeout_s)
            token = self._submit_when_possible(packet, deadline)
            if not token:
                self._until(self._all_sent, deadline, "publish")
                return NO_ANSWER
            return publish_result(self._answer(token, deadline, "publish"))

    def publish_many(
        self,
        messages: Iterable[tuple[str, Payload]],
        *,
        qos: int = 1,
        retain: bool = False,
        properties: Properties = NO_PROPERTIES,
        timeout_s: float | None = None,
    ) -> list[PublishResult]:
        """Publishes (topic, payload) pairs with as many on their way at once as the window allows.

        `timeout_s` is for each step: room in the window, or the next answer. Raises the first refusal, after
        the answers to all others are in.
        """
        packets = (make_publish(topic, payload, qos, retain, properties) for topic, payload in messages)
        outcomes = self.publish_packets(packets, timeout_s=timeout_s)
        for outcome in outcomes:
            if isinstance(outcome, BraidError):
                raise outcome
        # QoS 0 has no answers, so there are no results.
        return [outcome for outcome in outcomes if isinstance(outcome, PublishResult)] if qos else []

    def publish_packets(
        self, packets: Iterable[Publish], *, timeout_s: float | None = None
    ) -> list[PublishResult | BraidError]:
        """As `publish_many`, for messages that each have their own QoS, retain flag and properties.

        One outcome for each packet, in order. What MQTT or the server does not allow is in the list and not
        raised, and the other packets are published all the same.
        """
        submitted: list[int | BraidError] = []  # a token, 0 for QoS 0, or why it can't be sent
        with self._lock:
            try:
                for packet in packets:
                    submitted.append(self._submit_or_refuse(packet, self._deadline(timeout_s)))
                    if self.session.unsent_bytes > GATHERED_BYTES_MAX:
                        self._turn(time.monotonic())
                self._until(self._all_sent, self._deadline(timeout_s), "publish")
                return [self._outcome(token, timeout_s) for token in submitted]
            finally:
                for token in submitted:
                    if isinstance(token, int) and token:
                        self._stop_expecting(token)

    def _submit_or_refuse(self, packet: Publish, deadline: float) -> int | BraidError:
        self._make_room(packet, deadline)
        try:
            token = self.session.publish(packet)
        except (ProtocolError, LimitExceededError) as error:
            return error
        if token:
            self._answers[token] = None
        return token

    def _outcome(self, token: int | BraidError, timeout_s: float | None) -> PublishResult | BraidError:
        if isinstance(token, BraidError):
            return token
        if not token:
            return NO_ANSWER
        self._until_answered(token, self._deadline(timeout_s), "publish")
        event = self._answers[token]
        return event.error if isinstance(event, Failed) else publish_result(_result(event))

    def subscribe(
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
        answer = self._request(lambda: self.session.subscribe(subscriptions, properties), timeout_s)
        assert isinstance(answer, Suback)
        return answer.reasons

    def unsubscribe(
        self, *filters: str, properties: Properties = NO_PROPERTIES, timeout_s: float | None = None
    ) -> tuple[int, ...]:
        """One reason for each filter; MQTT 3 gives none."""
        answer = self._request(lambda: self.session.unsubscribe(filters, properties), timeout_s)
        assert isinstance(answer, Unsuback)
        return answer.reasons

    def reauthenticate(self, timeout_s: float | None = None) -> None:
        """Goes through the enhanced authentication again, without a new connection."""
        with self._lock:
            self._check_open()
            self._reauthenticated = False
            self.session.reauthenticate()
            self._until(lambda: self._reauthenticated, self._deadline(timeout_s), "re-authentication")

    # -- receiving ----------------------------------------------------------------------------------------

    def receive_batch(
        self, max_messages: int = 10_000, timeout_s: float | None = None, max_wait_s: float = 0.0
    ) -> MessageBatch:
        """The next messages; an empty batch if none came within `timeout_s` (None: wait for ever).

        Takes what is there at once; after the first message, waits up to `max_wait_s` for the batch to fill.
        Without manual_ack, a batch is acknowledged when the next is asked for, or `with` is left in peace.
        """
        with self._lock:
            self._finish_last()
            if not self.session.queued_messages:
                self._check_open()
            try:
                if self.session.reporter.is_active:
                    self._turn(time.monotonic())  # what has come meanwhile belongs into the report
                self._fill(1, None if timeout_s is None else time.monotonic() + timeout_s)
                if self.session.queued_messages:
                    self._fill(max_messages, time.monotonic() + max_wait_s)
            except ClientClosedError:
                # What is there is given out first; the error that ended the client is for the next call.
                if not self.session.queued_messages:
                    raise
            self._last_batch = self.session.take_batch(max_messages, self)
            self.session.work_began(self._last_batch, time.monotonic())
            return self._last_batch

    def messages(self, timeout_s: float | None = None) -> Iterator[Message]:
        """Message after message; ends when none comes within `timeout_s`, or the client is closed.

        Without manual_ack, a message is acknowledged when the next one is asked for.
        """
        while not self._ended or self.session.queued_messages:
            batch = self.receive_batch(1, timeout_s)
            if not len(batch):
                return
            yield batch[0]

    def acknowledge(self, delivery: Message | MessageBatch, reason: int = 0) -> None:
        """What `message.ack()` and `batch.ack()` call. Sends at once what can be sent without waiting."""
        with self._lock:
            self.session.acknowledge(delivery, reason)
            if self.options.manual_ack:
                self._finished(answerable(delivery), whole_delivery=isinstance(delivery, MessageBatch))
            if self._link is not None:
                self._guarded(self._write)

    def report(self, queue_depth: int | None, service_time_s: float | None = None) -> None:
        """For who keeps messages in a queue of his own: its length, and the time that a message takes.

        Both hold until the next call and go out at once; None: the client measures it, as it does by itself.
        """
        with self._lock:
            self.session.tell_status(queue_depth, service_time_s)
            if self._link is not None:
                self._guarded(self._advance)

    def _advance(self) -> None:
        self.session.advance(time.monotonic(), reading=False)
        self._write()

    def _finish_last(self) -> None:
        """The last batch is dealt with; what is acknowledged by hand, when that is done."""
        batch, self._last_batch = self._last_batch, None
        if batch is None:
            return
        if self.options.manual_ack:
            self._finished(len(batch) - answerable(batch), whole_delivery=False)
        else:
            self.session.acknowledge(batch)
            self._finished(len(batch), whole_delivery=True)

    def _finished(self, messages: int, *, whole_delivery: bool) -> None:
        self.session.work_finished(messages, time.monotonic(), whole_delivery=whole_delivery)

    def _fill(self, wanted: int, deadline: float | None) -> None:
        """Reads until `wanted` messages are there, the inbox is full, or the time is over."""
        while self.session.queued_messages < wanted and not self._full():
            before = self.session.queued_messages
            self._turn(deadline)
            over = deadline is not None and time.monotonic() >= deadline
            if over and self.session.queued_messages == before:
                return

    # -- one turn -----------------------------------------------------------------------------------------

    def _turn(self, deadline: float | None) -> None:
        """Writes, waits for the socket, reads, keeps alive: once. Without a connection, gets one."""
        self._check_open()
        if self._link is not None:
            self._guarded(lambda: self._exchange(deadline))
            return
        try:
            self._connector.go_on(deadline)
        except ClientError as error:
            self._end(error)
            raise closed_error(error) from error

    def _guarded(self, action: Callable[[], None]) -> None:
        """A connection that is lost meanwhile is given up, and the next turn gets another."""
        try:
            action()
        except ClientError as lost:
            self._drop_link()
            try:
                self._connector.lost(lost)
            except ClientError as error:
                self._end(error)
                raise closed_error(error) from error

    def _exchange(self, deadline: float | None) -> None:
        assert self._link is not None
        self._write()
        reading = not self._full() or bool(self._answers)
        self._link.wait(self._patience_s(deadline, reading), reading=reading)
        if reading:
            self._read()
        self._handle(self.session.advance(time.monotonic(), reading=reading))
        self._write()

    def _read(self) -> None:
        assert self._link is not None
        self.session.drop_qos0(self._full())
        data = self._link.read()
        if data is not None:
            self._handle(self.session.receive(data, time.monotonic()))

    def _write(self) -> None:
        if self._link is not None:
            self._link.write(self.session.data_to_send(time.monotonic()))

    def _patience_s(self, deadline: float | None, reading: bool) -> float | None:
        """How long the socket may be waited for."""
        soonest = [at for at in (deadline, self.session.deadline(reading=reading)) if at is not None]
        return min(soonest) - time.monotonic() if soonest else None

    def _handle(self, events: list[Event]) -> None:
        ending: ClientError | None = None
        for event in events:
            if isinstance(event, Completed | Failed) and event.token in self._answers:
                self._answers[event.token] = event
            elif isinstance(event, Closed | ResubscribeRefused):
                ending = event.error
            elif isinstance(event, Reauthenticated):
                self._reauthenticated = True
        if ending is not None:
            self.session.disconnect()
            self._write()
            raise ending

    # -- the connection -----------------------------------------------------------------------------------

    def _greet(self, link: SocketLink) -> None:
        self._link = link
        try:
            self.session.connect(time.monotonic())
            while not self.session.connected:
                self._exchange(None)
        except BaseException:
            self._drop_link()
            raise

    def _drop_link(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None
            self.session.connection_lost()

    def _say_the_rest(self, link: SocketLink) -> None:
        """Writes what is left, for a while."""
        deadline = time.monotonic() + CLOSING_TIMEOUT_S
        try:
            link.write(self.session.data_to_send(time.monotonic()))
            while link.unsent_bytes and time.monotonic() < deadline:
                link.wait(deadline - time.monotonic(), reading=False)
                link.write(b"")
        except ConnectionLostError:
            return

    def _ping(self) -> float | None:
        """Keeps the connection alive, unless a call does so just now. Gives the next deadline."""
        if not self._lock.acquire(blocking=False):
            return None
        try:
            if self._link is not None and self.session.connected:
                self._advance()
            return self.session.deadline(reading=False)
        except ConnectionLostError:
            return None  # the next call finds out by itself
        finally:
            self._lock.release()

    def _end(self, cause: Exception | None) -> None:
        if not self._ended:
            self._ended = True
            self._end_cause = cause
        self._drop_link()

    # -- small parts --------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._ended or not self._opened:
            raise closed_error(self._end_cause)

    def _full(self) -> bool:
        options, session = self.options, self.session
        return (
            session.queued_messages >= options.queue_messages_max
            or session.queued_bytes >= options.queue_bytes_max
        )

    def _deadline(self, timeout_s: float | None) -> float:
        return time.monotonic() + (self.options.request_timeout_s if timeout_s is None else timeout_s)

    def _until(self, done: Callable[[], bool], deadline: float, what: str) -> None:
        while not done():
            if time.monotonic() >= deadline:
                raise RequestTimeoutError(f"no answer to the {what} in time")
            self._turn(deadline)

    def _until_answered(self, token: int, deadline: float, what: str) -> None:
        self._until(lambda: self._answers[token] is not None, deadline, what)

    def _all_sent(self) -> bool:
        self._guarded(self._write)
        return self.session.connected and self._link is not None and not self._link.unsent_bytes

    def _submit_when_possible(self, packet: Publish, deadline: float) -> int:
        self._make_room(packet, deadline)
        return self.session.publish(packet)

    def _make_room(self, packet: Publish, deadline: float) -> None:
        self._check_open()
        if not self._has_room(packet):
            self._until(lambda: self._has_room(packet), deadline, "publish")

    def _has_room(self, packet: Publish) -> bool:
        if packet.qos == 0:
            return self.session.connected
        return self.session.pending_publishes < self.options.pending_publishes_max

    def _request(self, submit: Callable[[], int], timeout_s: float | None) -> Any:
        with self._lock:
            self._check_open()
            return self._answer(submit(), self._deadline(timeout_s), "request")

    def _answer(self, token: int, deadline: float, what: str) -> Any:
        self._answers[token] = None
        try:
            self._until_answered(token, deadline, what)
            return _result(self._answers[token])
        finally:
            self._stop_expecting(token)

    def _stop_expecting(self, token: int) -> None:
        if self._answers.pop(token, None) is None:
            self.session.withdraw(token)


def _result(event: Completed | Failed | None) -> Any:
    if isinstance(event, Failed):
        raise event.error
    assert event is not None
    return event.answer
