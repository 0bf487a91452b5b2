"""Status reports for applications written with paho-mqtt 2. It measures and reports, and changes nothing.

    status = report_status(client, "worker-1")          # when on_message is set
    client.connect("localhost", properties=status.connect_properties())

Callbacks run where they always do. Work is the time that `on_message` takes. While it runs paho reads
nothing, so the queue is in the socket: what waits there, in bytes, over the usual size of a message. paho
acknowledges when `on_message` returns, which is what is declared; not so for a client with `manual_ack`.

paho has no call for an extended PINGREQ, so reports are published to `$load/{client id}`; MQTT 5 clients ask
for that in CONNECT and report only if the broker agrees. They leave between two messages: paho's one thread
writes nothing while a callback runs.
"""

import fcntl
import struct
import termios
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from paho.mqtt.client import CallbackOnMessage, Client, MQTTMessage, MQTTMessageInfo, MQTTv5
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from braidmq.client.meter import StatusMeter
from braidmq.errors import ConfigError
from braidmq.wire.pingreq import (
    ACK_MODE_PROPERTY,
    ACK_WHEN_PROCESSED,
    STATUS_BY_PUBLISH,
    STATUS_EVENTS_PROPERTY,
    STATUS_PING_PROPERTY,
    STATUS_TOPIC_PREFIX,
)
from braidmq.wire.status import encode_status

SMOOTHING: Final = 0.1  # weight of the newest message in the usual size
FRAME_BYTES: Final = 8  # header, lengths and identifier, roughly
DELAY_S_MIN: Final = 0.01  # while a report can't leave


def report_status(
    client: Client, client_id: str, *, interval_s: float = 1.0, acks_when_processed: bool = True,
    asks: bool = True,
) -> "PahoStatus":  # fmt: skip
    """Measures `client.on_message` and reports from the next connection on.

    `asks`: False for MQTT 3, which can't; then reports are sent to whatever broker it is.
    """
    if client.on_message is None:
        raise ConfigError("report_status measures client.on_message: set it before")
    if asks and client.protocol != MQTTv5:
        raise ConfigError("MQTT 3 can't ask the broker: report_status(..., asks=False) reports without")
    return PahoStatus(client, client_id, interval_s, acks_when_processed, asks)


class PahoStatus:
    def __init__(
        self, client: Client, client_id: str, interval_s: float, acks_when_processed: bool, asks: bool
    ) -> None:
        self._client = client
        self._topic = STATUS_TOPIC_PREFIX + client_id
        self._interval_s = interval_s
        self._acks_when_processed = acks_when_processed
        self._asks = asks
        self._lock = threading.Lock()  # of the meter: paho's thread and ours
        self._meter: StatusMeter | None = None  # there while the broker takes reports
        self._message_bytes = 0.0
        self._last: MQTTMessageInfo | None = None
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._on_connect: Callable[..., None] | None = client.on_connect
        client.on_connect = self._connected
        assert client.on_message is not None
        client.on_message = self.measured(client.on_message)

    def connect_properties(self, properties: Properties | None = None) -> Properties:
        """For `client.connect(..., properties=...)`: yours, with the question to the broker."""
        asked: Properties = properties or Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        pairs = [(STATUS_PING_PROPERTY, STATUS_BY_PUBLISH), (STATUS_EVENTS_PROPERTY, "1")]
        if self._acks_when_processed:
            pairs.append((ACK_MODE_PROPERTY, ACK_WHEN_PROCESSED))
        asked.UserProperty = pairs  # paho adds them to those that are there
        return asked

    def measured(self, callback: CallbackOnMessage) -> CallbackOnMessage:
        """`callback`, measured; for `client.message_callback_add` too."""

        def measure(client: Client, userdata: Any, message: MQTTMessage) -> None:
            self._began(message)
            began_s = time.monotonic()
            try:
                callback(client, userdata, message)
            finally:
                self._finished(time.monotonic() - began_s)

        return measure

    def stop(self) -> None:
        """No more reports."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def _connected(self, client: Client, userdata: Any, *told: Any) -> None:
        agreed = not self._asks or _agrees(told[-1])
        meter = StatusMeter(time.monotonic(), self._interval_s, reports_events=True)
        with self._lock:
            self._meter = meter if agreed else None
        if agreed and self._thread is None:
            self._thread = threading.Thread(target=self._report_regularly, name="mqtt status", daemon=True)
            self._thread.start()
        if self._on_connect is not None:
            self._on_connect(client, userdata, *told)

    def _began(self, message: MQTTMessage) -> None:
        size_bytes = len(message.topic) + len(message.payload) + FRAME_BYTES
        with self._lock:
            change = size_bytes - self._message_bytes
            self._message_bytes += change * (SMOOTHING if self._message_bytes else 1.0)
            if self._meter is not None:
                self._meter.received()

    def _finished(self, work_s: float) -> None:
        with self._lock:
            if self._meter is not None:
                self._meter.processed(work_s)
        self._report_if_due()

    def _report_regularly(self) -> None:
        delay_s = 0.0
        while not self._stopping.wait(delay_s):
            self._report_if_due()
            now = time.monotonic()
            with self._lock:
                due_s = now + self._interval_s if self._meter is None else self._meter.due_at_s()
            delay_s = min(max(due_s - now, DELAY_S_MIN), self._interval_s)

    def _report_if_due(self) -> None:
        """Publishing needs paho's locks, which its thread holds when it comes here: never with ours."""
        with self._lock:
            payload = self._take_payload(time.monotonic())
        if payload is not None:
            self._last = self._client.publish(self._topic, payload)

    def _take_payload(self, now: float) -> bytes | None:
        """A report that paho could not write yet is old news; another one on top of it would be too."""
        if self._meter is None or not self._client.is_connected():
            return None
        if self._last is not None and not self._last.is_published():
            return None
        self._meter.queue = self._waiting()
        return encode_status(self._meter.take_report(now)) if now >= self._meter.due_at_s() else None

    def _waiting(self) -> int:
        """Messages in the socket that paho has not read."""
        sock: Any = self._client.socket()
        if sock is None or not self._message_bytes:
            return 0
        try:
            (waiting_bytes,) = struct.unpack("i", fcntl.ioctl(sock.fileno(), termios.FIONREAD, b"\0\0\0\0"))
        except OSError:
            return 0  # it is being closed
        return round(int(waiting_bytes) / self._message_bytes)


def _agrees(told: Any) -> bool:
    """`told`: the properties of CONNACK."""
    return (STATUS_PING_PROPERTY, STATUS_BY_PUBLISH) in getattr(told, "UserProperty", [])
