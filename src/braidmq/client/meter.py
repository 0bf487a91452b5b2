"""StatusMeter: what a subscriber counts in order to report its status, and when it should. Pure; for
clients and simulators.

`received` when messages come into the queue, `taken` when work on them begins, `processed` when it is done.
`take_report` gives the report and begins the next interval.

When to report: every `interval_s` from the connection on, traffic or not. With event reports also at once
when the queue has 2 or more messages and at least doubled since the last report, or fell to half of a
reported 2 or more, or when somebody says that it is `urgent`; at most one of these per 100 ms. Most of what
status reports can do for QoS 0 comes from them: a report once a second is mostly history.
"""

from math import inf
from typing import Final

from braidmq.wire.status import StatusReport

EVENT_SPACING_S: Final = 0.1
EVENT_QUEUE_LEAST: Final = 2


class StatusMeter:
    def __init__(
        self, now: float, interval_s: float = 1.0, *, reports_events: bool = False, leftover: int = 0
    ) -> None:
        """`leftover`: messages of an earlier connection, which are processed before those of this one."""
        self.interval_s = interval_s
        self.reports_events = reports_events
        self.queue = 0
        self.received_total = 0
        self.processed_total = 0
        self._leftover = leftover
        self._next_regular_s = now + interval_s
        self._last_report_s = -inf
        self._reported_queue = 0
        self._is_urgent = False
        self._work_s = 0.0
        self._work_count = 0

    def received(self, count: int = 1) -> None:
        self.queue += count
        self.received_total += count

    def taken(self, count: int = 1) -> None:
        self.queue -= count

    def processed(self, work_s: float, count: int = 1) -> None:
        self.processed_total += count
        self._work_count += count
        self._work_s += work_s

    def urgent(self) -> None:
        """The broker should know at once, whatever the queue."""
        self._is_urgent = True

    def due_at_s(self) -> float:
        """When the next report is due, by what is known now: ask again after each message."""
        if self.reports_events and (self._is_urgent or self._has_changed()):
            return min(self._next_regular_s, self._last_report_s + EVENT_SPACING_S)
        return self._next_regular_s

    def take_report(self, now: float) -> StatusReport:
        mean_s = self._work_s / self._work_count if self._work_count else 0.0
        # The broker knows nothing of what an earlier connection left behind.
        processed = max(self.processed_total - self._leftover, 0)
        report = StatusReport(self.queue, mean_s, self.received_total, processed)
        while self._next_regular_s <= now:
            self._next_regular_s += self.interval_s
        self._last_report_s = now
        self._reported_queue = self.queue
        self._is_urgent = False
        self._work_s = 0.0
        self._work_count = 0
        return report

    def _has_changed(self) -> bool:
        grew = self.queue >= max(EVENT_QUEUE_LEAST, 2 * self._reported_queue)
        fell = self._reported_queue >= EVENT_QUEUE_LEAST and self.queue <= self._reported_queue / 2
        return grew or fell
