"""When a subscriber reports, and what."""

import pytest

from braidmq.client.meter import StatusMeter
from braidmq.wire.status import StatusReport


def test_it_counts_what_waits_and_averages_what_was_done_since_the_last_report() -> None:
    meter = StatusMeter(0.0)
    for _ in range(5):
        meter.received()
    for work_s in (0.02, 0.04):
        meter.taken()
        meter.processed(work_s)
    meter.taken()  # in work: neither waiting nor done
    report = meter.take_report(1.0)
    assert (report.queue, report.received, report.processed) == (2, 5, 2)
    assert report.processing_s == pytest.approx(0.03)
    assert meter.take_report(2.0) == StatusReport(2, 0.0, 5, 2)


def test_regular_reports_come_every_interval_from_the_connection_on_and_are_not_made_up_for() -> None:
    meter = StatusMeter(10.0, 0.5)
    assert meter.due_at_s() == 10.5
    meter.take_report(10.5)
    assert meter.due_at_s() == 11.0
    meter.take_report(13.2)
    assert meter.due_at_s() == 13.5


def queued(meter: StatusMeter, count: int) -> None:
    while meter.queue < count:
        meter.received()
    while meter.queue > count:
        meter.taken()


@pytest.mark.parametrize(
    ("reported", "waiting", "is_due"),
    [(0, 1, False), (0, 2, True), (1, 2, True), (3, 5, False), (3, 6, True), (4, 3, False), (4, 2, True),
     (2, 1, True), (1, 0, False)],
)  # fmt: skip
def test_a_queue_that_doubled_or_halved_is_told_at_once(reported: int, waiting: int, is_due: bool) -> None:
    meter = StatusMeter(0.0, reports_events=True)
    queued(meter, reported)
    meter.take_report(0.05)
    queued(meter, waiting)
    assert meter.due_at_s() == (pytest.approx(0.15) if is_due else 1.0)


def test_without_event_reports_a_long_queue_waits_for_its_turn() -> None:
    meter = StatusMeter(0.0)
    queued(meter, 500)
    assert meter.due_at_s() == 1.0
