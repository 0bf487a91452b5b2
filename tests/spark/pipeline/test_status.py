"""What a pipeline says about itself."""

from pathlib import Path

import pytest

from braidmq.spark.pipeline.commits import Manifest
from braidmq.spark.pipeline.home import Home, open_home
from braidmq.spark.pipeline.news import ReceiverNews
from braidmq.spark.pipeline.sources import wal_location
from braidmq.spark.pipeline.status import QueryStatus, lag_of, read_status, write_status
from braidmq.spark.tasks import Report
from braidmq.spark.wal import SourceState, Wal
from tests.spark.pipeline.samples import EVERYTHING, make_config


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return open_home(make_config(tmp_path, EVERYTHING))


def test_a_pipeline_that_never_ran_has_empty_tables(home: Home) -> None:
    report = read_status(home, now_ms=0)
    assert set(report.rows.values()) == {0}
    assert (report.dead_letters, report.queries, report.is_well) == ({}, [], True)
    assert not Path(home.root.path).exists()


def test_rows_come_from_the_last_commit_of_each_query(home: Home) -> None:
    for query, rows in {
        "ingest": {"raw": 7, "telemetry": 5, "_alerts_feed": 3},
        "alerts": {"alerts": 2},
    }.items():
        place = home.internal.at("commits", query).make()
        for number in (9, 10):
            manifest = Manifest(number=number, query="q", batch=number, rows=rows if number == 10 else {})
            place.at(f"{number:012d}.json").write_struct(manifest)
    report = read_status(home, now_ms=0)
    assert (report.rows["raw"], report.rows["telemetry"], report.rows["alerts"]) == (7, 5, 2)
    assert "_alerts_feed" not in report.rows


@pytest.mark.parametrize(
    ("state", "seconds", "shown", "well"),
    [
        ("running", 2, "running", True),
        ("running", 60, "lost", False),
        ("stopped", 60, "stopped", True),
        ("failed", 60, "failed", False),
    ],
)
def test_a_query_that_says_nothing_is_lost(
    home: Home, state: str, seconds: int, shown: str, well: bool
) -> None:
    write_status(home, "ingest", QueryStatus(state=state, at_ms=1_000, batch=4, batch_ms=[10, 30, 20]))
    report = read_status(home, now_ms=1_000 + seconds * 1_000)
    (query,) = report.queries
    assert (query.state, report.is_well) == (shown, well)
    assert (query.batch_ms_median, query.batch_ms_max, query.seconds_ago) == (20, 30, seconds)


def say_state(home: Home, *reports: Report, at: float = 100.0) -> None:
    wal = Wal(wal_location(home, home.config.sources[0]))
    wal.files.make_folder("")
    wal.write_state(SourceState(at=at, receivers=list(reports), waiting=7))


def test_a_receiver_that_is_not_connected_is_told_and_makes_a_running_pipeline_unwell(home: Home) -> None:
    refused = "the server refused the connection: BAD_USER_NAME_OR_PASSWORD (0x86)"
    here = Report(
        subscriber="a", state="receiving", connected_since=40.0, last_message_at=90.0, repeats_by="numbers"
    )
    say_state(home, here, Report(subscriber="b", state="connecting", error=refused))
    write_status(home, "ingest", QueryStatus(state="running", at_ms=99_000))
    report = read_status(home, now_ms=100_000)
    assert [(one.name, one.group, one.state) for one in report.receivers] == [
        ("a", "plant", "receiving"),
        ("b", "plant", "connecting"),
    ]
    assert (report.receivers[0].connected_s, report.receivers[0].last_message_s) == (60.0, 10.0)
    assert report.receivers[0].exactly_once
    assert report.waiting_at_brokers == 7
    assert [one.error for one in report.absent] == [refused]
    assert not report.is_well
    write_status(home, "ingest", QueryStatus(state="stopped", at_ms=99_000))
    assert read_status(home, now_ms=100_000).is_well


def test_receivers_that_say_nothing_are_lost(home: Home) -> None:
    say_state(home, Report(subscriber="a", state="receiving"), Report(subscriber="b", state="stopped"))
    states = [one.state for one in read_status(home, now_ms=200_000).receivers]
    assert states == ["lost", "stopped"]


def test_changes_of_receivers_are_told_once_and_when_all_are_ready() -> None:
    told: list[str] = []
    news = ReceiverNews(told.append)
    a = Report(subscriber="a", state="receiving", repeats_by="numbers")
    b = Report(subscriber="b", state="connecting", error="refused")
    for _ in range(2):
        news.tell({"g": SourceState(at=0, receivers=[a, b])})
    b = Report(subscriber="b", state="receiving", repeats_by="none")
    news.tell({"g": SourceState(at=0, receivers=[a, b])})
    assert told == [
        "receiver a: connected; exactly once",
        "receiver b: not connected: refused",
        "receiver b: connected; at least once: this broker doesn't number its deliveries",
        "ready: 2 receivers have subscribed",
    ]


def test_lag_is_what_the_sources_know_of_beyond_the_batch() -> None:
    one = {"endOffset": '{"a": 5, "b": 7}', "latestOffset": '{"a": 9, "b": 7, "new": 1000}'}
    other = {"endOffset": {"c": 1}, "latestOffset": {"c": 3}}
    silent = {"endOffset": "12", "latestOffset": "null"}
    assert lag_of({"sources": [one, other, silent]}) == 6
    assert lag_of({}) == 0
