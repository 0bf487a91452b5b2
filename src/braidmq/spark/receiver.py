"""One subscriber of the group as a process: messages in, durable segments out, then acknowledgements.

    python -m braidmq.spark.receiver     # the task as one line of JSON on stdin, reports on stdout

The order is the promise: a segment is durable before the first of its messages is acknowledged. A message
that was not acknowledged comes again; what of it was stored already is known by the number of its delivery,
where the broker gives one.

The process lives as long as its stdin: when that ends, it stores what it has, says goodbye and is gone. A
crash at any point costs nothing but repeats.
"""

import contextlib
import os
import random
import signal
import sys
import threading
import time
from typing import Any

import msgspec
import numpy as np

from braidmq.client import BlockingClient, ClientError, MessageBatch
from braidmq.client.backoff import Backoff
from braidmq.client.errors import ConnectRefusedError, ServerDisconnectedError
from braidmq.client.server import DELIVERY_NUMBERS
from braidmq.errors import BraidError
from braidmq.spark._columns import ColumnBuilder, identify
from braidmq.spark.dedup import DUP, WINDOW, RepeatGuess
from braidmq.spark.deliveries import StoredDeliveries
from braidmq.spark.offsets import new_log_number
from braidmq.spark.pace import Pace
from braidmq.spark.segments import deliveries_of, pack
from braidmq.spark.tasks import ReceiverTask, Report
from braidmq.spark.wal import SegmentWriter, Wal
from braidmq.wire import NO_PROPERTIES, Properties, ReasonCode, Subscription

IDLE_S = 0.2  # how long a stop may go unnoticed
FULL_POLL_S = 0.05
REPORT_EVERY_S = 0.2
STOP_PATIENCE_S = 10.0  # for the last segment; then the process ends without it
SEGMENT_BYTES_MAX = 32 << 20
BACKOFF_MIN_S = 0.2
BACKOFF_MAX_S = 10.0
FEW = 64  # messages; where so few come at a time, waking up for them is what costs
NAP_S = 0.005
# The broker knows what it doesn't want, so that trying again is of no use.
REFUSALS = frozenset({
    ReasonCode.UNSUPPORTED_PROTOCOL_VERSION,
    ReasonCode.CLIENT_IDENTIFIER_NOT_VALID,
    ReasonCode.BAD_USER_NAME_OR_PASSWORD,
    ReasonCode.NOT_AUTHORIZED,
    ReasonCode.BANNED,
    ReasonCode.BAD_AUTHENTICATION_METHOD,
})
LOST = "the connection was lost; trying to get another"
EXIT_FAILED = 3
SEND_IF_NEW = 1  # retain handling: retained messages come with a new subscription only


class Reporter:
    """Writes the report, not more often than anybody could want it."""

    def __init__(self, report: Report, stream: Any) -> None:
        self.report = report
        self._stream = stream
        self._said_at = 0.0

    def tell(self, **changes: Any) -> None:
        """At once."""
        for name, value in changes.items():
            setattr(self.report, name, value)
        self._said_at = time.monotonic()
        self._stream.write(msgspec.json.encode(self.report) + b"\n")
        self._stream.flush()

    def tell_sometimes(self) -> None:
        if time.monotonic() - self._said_at >= REPORT_EVERY_S:
            self.tell()


class Receiver:
    def __init__(self, task: ReceiverTask, stopping: threading.Event, stream: Any) -> None:
        self._task = task
        self._stopping = stopping
        self._reporter = Reporter(Report(subscriber=task.subscriber, draining=task.is_draining), stream)
        self._report = self._reporter.report
        self._wal = Wal(task.wal_location)
        self._writer = SegmentWriter(self._wal, task.subscriber, new_log_number(time.time()))
        # Half a window is stored while the broker sends the other half.
        segment_bytes_max = min(SEGMENT_BYTES_MAX, task.wal_bytes_max // 8)
        self._rows_max = max(1, task.receive_maximum // 2)
        self._pace = Pace(self._rows_max, segment_bytes_max, task.segment_delay_s)
        self._deliveries = StoredDeliveries.decode(self._stored_deliveries())
        self._guess = self._make_guess()
        self._connections = 0  # that we know of
        self._of_lost_session = 0  # messages that may still come of one that the broker has forgotten
        self._settled = 0  # the connection on which we have subscribed
        self._last_message_at = time.monotonic()
        self._report.next_offset = self._writer.next

    def _stored_deliveries(self) -> str:
        """The newest segment knows all that are stored."""
        log = self._wal.log(self._task.subscriber)
        return deliveries_of(self._wal.read(self._task.subscriber, log[-1])) if log else ""

    def _make_guess(self) -> RepeatGuess | None:
        task = self._task
        if task.dedup != "true" or task.qos == 0:
            return None
        guess = RepeatGuess()
        stored, rows = [], 0
        for segment in reversed(self._wal.log(task.subscriber)):
            stored.append(self._wal.read(task.subscriber, segment))
            rows += segment.rows
            if rows >= WINDOW:
                break
        for batch in reversed(stored):
            guess.restore(np.asarray(batch.column("packet_id")), np.asarray(batch.column("digest")))
        return guess

    # -- the life of the process --------------------------------------------------------------------------

    def run(self) -> None:
        """Until stopped, or drained; raises what ended the client."""
        client = self._connect()
        if client is None:
            return
        try:
            self._know_session(client, 0)
            self._settle(client)
            self._report.repeats_by = self._repeats_by(client)
            self._reporter.tell(state="receiving", error="", refused=False, connected_since=time.time())
            while not self._stopping.is_set() and not self._drained(client):
                self._collect(client)
            forget = NO_PROPERTIES if self._stopping.is_set() else Properties(session_expiry_s=0)
            client.close(properties=forget)
        finally:
            client.close()
            self._writer.close()
        self._reporter.tell(state="stopped" if self._stopping.is_set() else "drained")

    def _connect(self) -> BlockingClient | None:
        """Tries until it works; None: stopped before."""
        backoff = Backoff(BACKOFF_MIN_S, BACKOFF_MAX_S, random.random)
        self._reporter.tell(state="connecting")
        while not self._stopping.is_set():
            client = self._client()
            try:
                client.open()
            except (ClientError, OSError) as error:
                self._reporter.tell(error=str(error), refused=_is_refusal(error))
                self._stopping.wait(backoff.delay_s())
            else:
                return client
        return None

    def _client(self) -> BlockingClient:
        task = self._task
        return BlockingClient(
            [str(task.broker)],
            pinger=True,
            **task.connection.client_choices(task.broker)
            | {
                "client_id": task.subscriber,
                "clean_start": False,
                "session_expiry_s": task.session_expiry_s,
                "receive_maximum": task.receive_maximum,
                "manual_ack": True,
                "acks_when_processed": True,  # so the broker may judge by them how fast we are
                "connect_properties": Properties(user_properties=(DELIVERY_NUMBERS,)),
                "backoff_max_s": BACKOFF_MAX_S,
            },
        )

    def _settle(self, client: BlockingClient) -> None:
        """Joins the group, or leaves it if only the rest is wanted.

        At every connection, also where the session was kept: Mosquitto (2.0.11) forgets shared subscriptions
        when it restarts.
        """
        self._settled = client.session.connections
        if self._task.drain_quiet_s is None:
            client.subscribe(*map(self._subscription, self._task.subscriptions))
        elif client.session.session_present and self._task.subscriptions:
            client.unsubscribe(*self._task.subscriptions)
        if self._task.stale_subscriptions and client.session.session_present:
            client.unsubscribe(*self._task.stale_subscriptions)

    def _subscription(self, topic_filter: str) -> Subscription:
        return Subscription(
            topic_filter, self._task.qos, retain_as_published=True, retain_handling=SEND_IF_NEW
        )

    def _drained(self, client: BlockingClient) -> bool:
        quiet_s = self._task.drain_quiet_s
        if quiet_s is None:
            return False
        if not client.session.session_present and not client.session.queued_messages:
            return True
        return time.monotonic() - self._last_message_at >= quiet_s

    # -- one segment --------------------------------------------------------------------------------------

    def _collect(self, client: BlockingClient) -> None:
        if client.session.connections != self._settled:
            self._settle(client)
        if self._is_full(client):
            self._stopping.wait(FULL_POLL_S)
            return
        builder, batches, messages = ColumnBuilder(), [], 0
        began, patience_s = 0.0, IDLE_S
        while patience_s > 0:
            batch = client.receive_batch(self._rows_max - messages, timeout_s=patience_s)
            now = time.monotonic()
            if len(batch):
                began = began or now
                messages += len(batch)
                batches.append(batch)
                self._take(client, batch, builder)
            elif not began:
                break
            patience_s = self._pace.patience_s(messages, builder.size_bytes, now - began)
            if len(batch) < FEW and patience_s > NAP_S:
                time.sleep(NAP_S)
            if self._stopping.is_set():
                break
        if batches:
            self._pace.stored(messages, time.monotonic() - began)
            self._store(builder, batches)
        self._tell(client)

    def _take(self, client: BlockingClient, batch: MessageBatch, builder: ColumnBuilder) -> None:
        identity = identify(batch)
        marked = np.count_nonzero(np.frombuffer(memoryview(identity[0]), np.uint8) & DUP)
        repeats = self._repeats(client, batch, identity)
        self._report.redelivered += int(marked)
        if repeats is not None:
            self._report.repeats += int(repeats.sum())
        self._report.last_message_at = time.time()
        builder.add(batch, time.time_ns() // 1000, identity, repeats)
        self._last_message_at = time.monotonic()

    def _repeats(self, client: BlockingClient, batch: MessageBatch, identity: Any) -> Any:
        self._know_session(client, len(batch))
        if self._of_lost_session > 0:
            self._of_lost_session -= len(batch)
            return None
        if self._task.dedup == "false":
            return None
        if client.session.server.delivery_numbers:
            return self._deliveries.repeats(identity[3])
        return None if self._guess is None else self._guess.repeats(*identity[:3])

    def _know_session(self, client: BlockingClient, taken: int) -> None:
        """Notes a new connection, and whether the broker has lost the session.

        Then messages of the old one may be among those `taken` and still queued: they repeat nothing, and
        their numbers say nothing about the new one.
        """
        session = client.session
        if session.connections == self._connections:
            return
        self._connections = session.connections
        if session.server.session_identity != self._deliveries.session:
            self._deliveries = StoredDeliveries(session.server.session_identity)
        if not session.session_present:
            self._of_lost_session = taken + session.queued_messages
            if self._guess is not None:
                self._guess.reset()

    def _repeats_by(self, client: BlockingClient) -> str:
        if self._task.dedup != "false" and client.session.server.delivery_numbers:
            return "numbers"
        return "none" if self._guess is None else "guess"

    def _store(self, builder: ColumnBuilder, batches: list[MessageBatch]) -> None:
        """First durable, then acknowledged."""
        if builder.rows:
            size_bytes, rows = builder.size_bytes, builder.rows
            stored = pack(builder, str(self._task.broker), self._deliveries.encode())
            self._writer.write(stored, size_bytes)
            self._report.rows += rows
            self._report.received_bytes += size_bytes
            self._report.segments += 1
        for batch in batches:
            batch.ack()

    def _is_full(self, client: BlockingClient) -> bool:
        """While the log is full nothing is read: the receive maximum holds the broker back.

        A broker that asks for it is told that we have no room, so that others get more.
        """
        full = (
            self._writer.size_bytes > self._task.wal_bytes_max
            and self._writer.measure() > self._task.wal_bytes_max
        )
        if full != (self._report.state == "full"):
            self._reporter.tell(state="full" if full else "receiving")
            client.report(self._task.receive_maximum if full else None)
        return full

    def _tell(self, client: BlockingClient) -> None:
        report = self._report
        report.connections = client.session.connections
        report.waiting = client.session.queued_messages
        report.dropped = client.dropped_messages
        report.wal_bytes = self._writer.size_bytes
        report.next_offset = self._writer.next
        report.repeats_by = self._repeats_by(client)
        # A new connection counts when we have subscribed on it.
        is_settled = client.connected and client.session.connections == self._settled
        state = "receiving" if is_settled else "connecting"
        if state != report.state:
            since = time.time() if is_settled else 0.0
            error = "" if client.connected else LOST
            self._reporter.tell(state=state, connected_since=since, error=error)
        self._reporter.tell_sometimes()


def _watch(stopping: threading.Event) -> None:
    """The driver holds the other end of our stdin; when it ends, for whatever reason, so do we."""
    while os.read(sys.stdin.fileno(), 4096):  # sys.stdin has a lock, which the end of Python would find taken
        pass
    stopping.set()
    time.sleep(STOP_PATIENCE_S)
    os._exit(EXIT_FAILED)


def main() -> int:
    stopping = threading.Event()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the driver, which tells us
    signal.signal(signal.SIGTERM, lambda _number, _frame: stopping.set())
    line = sys.stdin.buffer.readline()
    if not line:
        return 0
    task = msgspec.json.decode(line, type=ReceiverTask)
    threading.Thread(target=_watch, args=(stopping,), name="parent watch", daemon=True).start()
    reports = sys.stdout.buffer
    try:
        Receiver(task, stopping, reports).run()
    except (BraidError, OSError) as error:
        state, why = _ending(task, error)
        with contextlib.suppress(OSError):  # perhaps nobody listens any more
            last = Report(subscriber=task.subscriber, draining=task.is_draining, state=state, error=why)
            Reporter(last, reports).tell()
        return EXIT_FAILED
    return 0


def _is_refusal(error: Exception) -> bool:
    return isinstance(error, ConnectRefusedError) and error.reason in REFUSALS


def _ending(task: ReceiverTask, error: Exception) -> tuple[str, str]:
    """The last state of a receiver that could not go on, and why."""
    cause = error.__cause__ or error
    if isinstance(cause, ServerDisconnectedError) and cause.reason == ReasonCode.SESSION_TAKEN_OVER:
        return "taken", f"another client connected as {task.subscriber} to {task.broker}"
    return "failed", str(error)


if __name__ == "__main__":
    sys.exit(main())
