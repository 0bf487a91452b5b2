"""StatusReporter: tells the broker how busy a member of shared groups is. Pure: packets out, `now` in.

It asks in CONNECT, and reports only if the broker's CONNACK agrees and while the client is in a shared
group; MQTT 3 can't ask, so there reports go out only where the application chose the carrier `publish`.

What is reported is measured: the queue is what waits in the client and behind the message in work, the
processing time comes from the workbench. An application that has a queue of its own says so with `tell`.
"""

from collections.abc import Iterable
from typing import Final

from braidmq.client.meter import StatusMeter
from braidmq.client.options import SessionOptions, StatusReporting
from braidmq.client.workbench import Workbench
from braidmq.topics import split_shared
from braidmq.wire import V5, Properties, Publish, encode
from braidmq.wire.pingreq import (
    ACK_MODE_PROPERTY,
    ACK_WHEN_PROCESSED,
    STATUS_BY_PUBLISH,
    STATUS_EVENTS_PROPERTY,
    STATUS_INTERVAL_PROPERTY,
    STATUS_PING_PROPERTY,
    STATUS_TOPIC_PREFIX,
    ExtendedPingreq,
    encode_pingreq,
)
from braidmq.wire.status import PROCESSING_MS_MAX, QUEUE_MAX, StatusReport, encode_status

INTERVAL_S_MIN: Final = 0.05  # brokers take 20 reports a second at most
INTERVAL_S_MAX: Final = 3600.0
MS_PER_S: Final = 1000.0
PROCESSING_S_MAX: Final = PROCESSING_MS_MAX / MS_PER_S


def declarations(options: SessionOptions) -> tuple[tuple[str, str], ...]:
    """The User Properties of CONNECT by which we ask for status reports, and say how we acknowledge."""
    asked: list[tuple[str, str]] = []
    if options.status is not None:
        asked.append((STATUS_PING_PROPERTY, options.status.carrier))
        if options.status.events:
            asked.append((STATUS_EVENTS_PROPERTY, "1"))
    if options.declares_processing:
        asked.append((ACK_MODE_PROPERTY, ACK_WHEN_PROCESSED))
    return tuple(asked)


def agreed_carrier(reporting: StatusReporting, version: int, told: Properties) -> str | None:
    """How reports travel on this connection; None: not at all."""
    if version != V5:
        return STATUS_BY_PUBLISH if reporting.carrier == STATUS_BY_PUBLISH else None
    answer = _answer(told, STATUS_PING_PROPERTY)
    return answer if answer in (reporting.carrier, STATUS_BY_PUBLISH) else None


def agreed_interval_s(reporting: StatusReporting, keep_alive_s: float, told: Properties) -> float:
    """What the broker wants goes before what we want; and never less often than keep alive."""
    wanted_s = reporting.interval_s
    answer = _answer(told, STATUS_INTERVAL_PROPERTY)
    if answer is not None and answer.isascii() and answer.isdigit():
        wanted_s = int(answer[:9]) / MS_PER_S
    if keep_alive_s:
        wanted_s = min(wanted_s, keep_alive_s)
    return min(max(wanted_s, INTERVAL_S_MIN), INTERVAL_S_MAX)


def _answer(told: Properties, name: str) -> str | None:
    return next((value for key, value in told.user_properties if key == name), None)


class StatusReporter:
    def __init__(self, options: SessionOptions) -> None:
        self._reporting = options.status
        self._version = options.version
        self._bench = Workbench()
        self._meter: StatusMeter | None = None  # there while the broker takes reports
        self._carrier: str | None = None
        self._client_id = ""
        self._is_member = False
        self._told_queue: int | None = None
        self._told_processing_s: float | None = None

    @property
    def is_active(self) -> bool:
        """Whether reports are sent on this connection."""
        return self._meter is not None and self._is_member

    @property
    def is_counting(self) -> bool:
        """Whether work has to be told to us: a broker takes reports, or something is still in hand."""
        return self._meter is not None or self._bench.messages > 0

    @property
    def travels_by_ping(self) -> bool:
        return self._carrier != STATUS_BY_PUBLISH

    # -- the connection

    def connected(
        self, told: Properties, client_id: str, keep_alive_s: float, queued: int, now: float
    ) -> None:
        self._client_id = client_id
        if self._reporting is None:
            return
        self._carrier = agreed_carrier(self._reporting, self._version, told)
        if self._carrier is not None:
            interval_s = agreed_interval_s(self._reporting, keep_alive_s, told)
            leftover = queued + self._bench.messages
            self._meter = StatusMeter(
                now, interval_s, reports_events=self._reporting.events, leftover=leftover
            )

    def connection_lost(self) -> None:
        self._meter = None

    def subscribed(self, filters: Iterable[str]) -> None:
        """All that the broker has granted: only members of shared groups have something to tell."""
        self._is_member = any(split_shared(topic_filter)[0] is not None for topic_filter in filters)

    # -- the messages

    def received(self, count: int, queued: int) -> None:
        """So many have come; so many wait in the client now."""
        if self._meter is not None:
            self._meter.received(count)
            self._recount(queued)

    def dropped(self, count: int, queued: int) -> None:
        """So many have come and were thrown away: they are dealt with, without any work."""
        if self._meter is not None:
            self._meter.received(count)
            self._meter.processed_total += count
            self._recount(queued)

    def taken(self, messages: int, queued: int, now: float) -> None:
        """The application begins to work on a delivery."""
        self._bench.take(messages, now)
        self._recount(queued)

    def finished(self, messages: int, queued: int, now: float, *, whole_delivery: bool) -> None:
        done, work_s = self._bench.finish(messages, now, whole_delivery=whole_delivery)
        if self._meter is not None:
            self._meter.processed(work_s, done)
            self._recount(queued)

    def tell(self, queue_depth: int | None, service_time_s: float | None, queued: int) -> None:
        """The application's own word, until it takes it back with None. Reported at once."""
        if queue_depth is not None and not 0 <= queue_depth <= QUEUE_MAX:
            raise ValueError(f"queue_depth must be 0..{QUEUE_MAX}, not {queue_depth}")
        if service_time_s is not None and not 0 <= service_time_s <= PROCESSING_S_MAX:
            raise ValueError(f"service_time_s must be 0..{PROCESSING_S_MAX:g}, not {service_time_s}")
        self._told_queue = queue_depth
        self._told_processing_s = service_time_s
        self.urge(queued)

    def urge(self, queued: int) -> None:
        """Something happened that the broker should know of before the next regular report."""
        if self._meter is not None:
            self._recount(queued)
            self._meter.urgent()

    def _recount(self, queued: int) -> None:
        if self._meter is not None:
            behind = self._bench.waiting if self._told_queue is None else self._told_queue
            self._meter.queue = queued + behind

    # -- the reports

    def due_at_s(self) -> float | None:
        if self._meter is None or not self._is_member:
            return None
        return self._meter.due_at_s()

    def take_packet(self, now: float) -> bytes | None:
        """The packet with the report that is due now, if one is."""
        due_s = self.due_at_s()
        if self._meter is None or due_s is None or now < due_s:
            return None
        payload = encode_status(self._with_own_word(self._meter.take_report(now)))
        if self.travels_by_ping:
            return encode_pingreq(ExtendedPingreq(payload))
        return encode(Publish(STATUS_TOPIC_PREFIX + self._client_id, payload), self._version)

    def _with_own_word(self, report: StatusReport) -> StatusReport:
        queue = min(report.queue, QUEUE_MAX)
        processing_s = report.processing_s if self._told_processing_s is None else self._told_processing_s
        if self._told_queue is None:
            return StatusReport(queue, min(processing_s, PROCESSING_S_MAX), report.received, report.processed)
        # What is "processed" for us only went into a queue that we don't see.
        return StatusReport(queue, min(processing_s, PROCESSING_S_MAX))
