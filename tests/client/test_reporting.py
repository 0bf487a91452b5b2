"""Status reports of the pure session: agreed on, measured, sent when due, and never unasked."""

from typing import Any

import pytest

from braidmq.client.options import Options, SessionOptions, StatusReporting
from braidmq.client.reporting import declarations
from braidmq.client.session import Session
from braidmq.errors import ConfigError
from braidmq.wire import (
    V5,
    V31,
    V311,
    FrameReader,
    Pingresp,
    Properties,
    Publish,
    Suback,
    Subscription,
    Unsuback,
    decode,
)
from braidmq.wire.pingreq import PINGREQ_FIRST_BYTE, decode_pingreq_body
from braidmq.wire.status import QUEUE_MAX, StatusReport, parse_status
from tests.client.helpers import closing_error, connect, connected, deliver, reconnect, sent_packets

AGREED = Properties(user_properties=(("status-ping", "1"),))
BY_PUBLISH = Properties(user_properties=(("status-ping", "publish"),))
PLAIN = Publish("t", b"x")


def join(session: Session, filter: str = "$share/g/t", now: float = 0.0) -> None:
    session.subscribe([Subscription(filter, 1)])
    [subscribe] = sent_packets(session, now)
    deliver(session, Suback(subscribe.packet_id, (1,)), now=now)  # type: ignore[union-attr]


def member(told: Properties = AGREED, **options: Any) -> Session:
    """Connected at 0 and in a shared group; one report a second, and no others unless they are chosen."""
    status = options.pop("status", StatusReporting(events=False))
    session = connected(told, **{"status": status, "keep_alive_s": 0, **options})
    join(session)
    return session


def reports(session: Session, now: float) -> list[StatusReport]:
    """What is sent by `now`, which must be nothing but reports."""
    session.advance(now)
    reader = FrameReader(1 << 20)
    reader.feed(bytes(session.data_to_send(now)))
    return [read(*frame, session.options.version) for frame in reader.frames()]


def read(first_byte: int, body: bytes, version: int) -> StatusReport:
    if first_byte == PINGREQ_FIRST_BYTE:
        payload = decode_pingreq_body(body).payload
    else:
        packet = decode(first_byte, body, version)
        assert isinstance(packet, Publish)
        assert (packet.topic, packet.qos, packet.retain) == ("$load/c", 0, False)
        payload = packet.payload
    report = parse_status(payload)
    assert isinstance(report, StatusReport)
    return report


def work(session: Session, began_s: float, ended_s: float) -> None:
    """One message, taken and finished."""
    batch = session.take_batch(1)
    session.work_began(batch, began_s)
    session.acknowledge(batch)
    session.work_finished(len(batch), ended_s, whole_delivery=True)


class TestAgreement:
    def test_what_connect_asks_for(self) -> None:
        processed = ("ack-mode", "processed")
        ping, events = ("status-ping", "1"), ("status-events", "1")
        assert declarations(Options()) == (ping, events, processed)
        assert declarations(Options(manual_ack=True)) == (ping, events)
        assert declarations(Options(manual_ack=True, acks_when_processed=True)) == (ping, events, processed)
        assert declarations(Options(status=None, acks_when_processed=False)) == ()
        by_publish = StatusReporting(events=False, carrier="publish")
        assert declarations(Options(status=by_publish))[0] == ("status-ping", "publish")
        assert declarations(SessionOptions()) == ()

    def test_the_application_keeps_its_own_properties(self) -> None:
        own = Properties(user_properties=(("a", "1"),))
        session = Session(SessionOptions(connect_properties=own, acks_when_processed=True))
        session.connect(0.0)
        [packet] = sent_packets(session)
        assert packet.properties.user_properties == (("a", "1"), ("ack-mode", "processed"))  # type: ignore[union-attr]

    @pytest.mark.parametrize("answer", [None, "0", "", "2", "yes"])
    def test_no_status_without_a_yes(self, answer: str | None) -> None:
        told = Properties() if answer is None else Properties(user_properties=(("status-ping", answer),))
        session = member(told, status=StatusReporting())
        deliver(session, *[PLAIN] * 10)
        assert session.deadline() is None
        assert reports(session, 100.0) == []

    def test_no_status_from_who_did_not_ask(self) -> None:
        session = member(AGREED, status=None)
        assert reports(session, 100.0) == []

    def test_who_asked_for_publish_does_not_ping(self) -> None:
        session = member(AGREED, status=StatusReporting(carrier="publish"))
        assert reports(session, 100.0) == []

    def test_no_status_outside_of_shared_groups(self) -> None:
        session = connected(AGREED, status=StatusReporting(), keep_alive_s=0)
        join(session, "t")
        assert session.deadline() is None
        join(session, "$share/g/t")
        assert session.deadline() == 1.0
        session.unsubscribe(["$share/g/t"])
        [unsubscribe] = sent_packets(session)
        deliver(session, Unsuback(unsubscribe.packet_id, (0,)))  # type: ignore[union-attr]
        assert session.deadline() is None

    def test_another_broker_is_asked_again(self) -> None:
        session = member()
        reconnect(session, present=True)
        assert reports(session, 100.0) == []
        reconnect(session, AGREED, present=True)
        assert len(reports(session, 200.0)) == 1

    @pytest.mark.parametrize(
        ("asked_ms", "keep_alive_s", "expected_s"),
        [(None, 0, 2.0), ("250", 0, 0.25), ("0", 0, 0.05), ("9" * 400, 0, 3600.0), ("-5", 0, 2.0),
         ("x", 0, 2.0), ("٣", 0, 2.0), (None, 1, 1.0), ("500", 1, 0.5)],
    )  # fmt: skip
    def test_the_interval(self, asked_ms: str | None, keep_alive_s: int, expected_s: float) -> None:
        answer = () if asked_ms is None else (("status-interval", asked_ms),)
        told = Properties(user_properties=(*AGREED.user_properties, *answer))
        status = StatusReporting(interval_s=2.0, events=False)
        session = member(told, status=status, keep_alive_s=keep_alive_s)
        assert session.reporter.due_at_s() == expected_s


class TestMqtt3:
    @pytest.mark.parametrize("version", [V31, V311])
    def test_reports_are_published_where_that_was_chosen(self, version: int) -> None:
        session = member(version=version, status=StatusReporting(carrier="publish"))
        assert reports(session, 1.0) == [StatusReport(0, 0.0, 0, 0)]

    def test_and_not_otherwise(self) -> None:
        assert reports(member(version=V311), 100.0) == []

    def test_they_need_a_client_id(self) -> None:
        with pytest.raises(ConfigError, match="client_id"):
            SessionOptions(version=V311, status=StatusReporting(carrier="publish"))
        SessionOptions(version=V311, status=StatusReporting())
        SessionOptions(version=V5, status=StatusReporting(carrier="publish"))

    def test_an_interval_must_be_one(self) -> None:
        with pytest.raises(ConfigError, match=r"status\.interval_s"):
            SessionOptions(status=StatusReporting(interval_s=0))


class TestMeasuring:
    def test_queue_and_processing_time(self) -> None:
        session = member()
        deliver(session, *[PLAIN] * 5)
        work(session, 0.1, 0.2)
        work(session, 0.5, 0.8)
        session.work_began(session.take_batch(1), 0.9)
        assert reports(session, 0.99) == []
        assert reports(session, 1.0) == [StatusReport(2, pytest.approx(0.2), 5, 2)]
        assert reports(session, 2.0) == [StatusReport(2, 0.0, 5, 2)]

    def test_the_rest_of_a_batch_waits(self) -> None:
        session = member()
        deliver(session, *[PLAIN] * 8)
        batch = session.take_batch(6)
        session.work_began(batch, 0.0)
        assert reports(session, 1.0)[0].queue == 7
        session.work_finished(6, 1.2, whole_delivery=True)
        assert reports(session, 2.0) == [StatusReport(2, pytest.approx(0.2), 8, 6)]

    def test_what_an_earlier_connection_left_is_not_counted_as_processed(self) -> None:
        session = member()
        deliver(session, *[PLAIN] * 3)
        session.work_began(session.take_batch(1), 0.5)
        reconnect(session, AGREED, present=True)
        deliver(session, PLAIN)
        session.work_finished(1, 1.0, whole_delivery=True)
        assert reports(session, 1.0) == [StatusReport(3, 0.5, 1, 0)]
        for number in range(3):
            work(session, 1.0 + number / 10, 1.1 + number / 10)
        assert reports(session, 2.0) == [StatusReport(0, pytest.approx(0.1), 1, 1)]

    def test_what_was_dropped_is_dealt_with(self) -> None:
        session = member()
        session.drop_qos0(True)
        deliver(session, *[PLAIN] * 4)
        assert reports(session, 1.0) == [StatusReport(0, 0.0, 4, 4)]

    def test_the_applications_own_word(self) -> None:
        session = member(status=StatusReporting())
        deliver(session, *[PLAIN] * 3)
        session.work_began(session.take_batch(2), 0.0)
        session.tell_status(40, 0.5)
        assert reports(session, 0.0) == [StatusReport(41, 0.5)]
        session.work_finished(2, 0.5, whole_delivery=True)
        assert reports(session, 1.0) == [StatusReport(41, 0.5)]
        session.tell_status(None, None)
        assert reports(session, 1.1) == [StatusReport(1, 0.0, 3, 2)]

    @pytest.mark.parametrize(("depth", "time_s"), [(-1, None), (QUEUE_MAX + 1, None), (1, -0.1), (1, 3601.0)])
    def test_an_impossible_word(self, depth: int, time_s: float | None) -> None:
        with pytest.raises(ValueError, match="must be"):
            member().tell_status(depth, time_s)


class TestEvents:
    def test_a_queue_that_doubles_is_reported_at_once_but_not_too_often(self) -> None:
        session = member(status=StatusReporting())
        deliver(session, PLAIN, now=0.3)
        assert session.deadline() == 1.0
        deliver(session, PLAIN, now=0.3)
        assert [report.queue for report in reports(session, 0.3)] == [2]
        deliver(session, PLAIN, PLAIN, now=0.31)
        assert session.deadline() == pytest.approx(0.4)
        assert reports(session, 0.35) == []
        assert [report.queue for report in reports(session, 0.4)] == [4]

    def test_a_queue_that_falls_to_half_is_reported(self) -> None:
        session = member(status=StatusReporting())
        deliver(session, *[PLAIN] * 4, now=0.3)
        assert len(reports(session, 0.3)) == 1
        session.work_began(session.take_batch(1), 0.5)
        assert reports(session, 0.5) == []
        session.work_finished(1, 0.6, whole_delivery=True)
        session.work_began(session.take_batch(1), 0.6)
        assert [report.queue for report in reports(session, 0.6)] == [2]

    def test_pausing_and_resuming_are_reported(self) -> None:
        session = member(status=StatusReporting())
        session.reading_paused()
        assert len(reports(session, 0.2)) == 1
        assert reports(session, 0.3) == []
        session.reading_resumed(0.5)
        assert len(reports(session, 0.5)) == 1


class TestKeepAlive:
    def test_a_status_is_a_ping(self) -> None:
        session = member(keep_alive_s=60, ping_timeout_s=5.0)
        for second in range(1, 4):
            assert len(reports(session, float(second))) == 1
            deliver(session, Pingresp(), now=second + 0.1)
        assert len(reports(session, 4.0)) == 1  # no answer to this one
        assert "ping" in str(closing_error(session.advance(9.0)))

    def test_a_published_status_is_none(self) -> None:
        session = member(BY_PUBLISH, status=StatusReporting(carrier="publish"), ping_timeout_s=5.0)
        for second in range(1, 20):
            assert len(reports(session, float(second))) == 1

    def test_resuming_a_session_without_subscribing_again(self) -> None:
        session = member()
        session.connection_lost()
        connect(session, AGREED, present=True, now=10.0)
        assert session.deadline() == 11.0
