"""What a pipeline says about itself."""

from pathlib import Path

import pytest

from braidmq.spark.pipeline.commits import Manifest
from braidmq.spark.pipeline.home import Home, open_home
from braidmq.spark.pipeline.status import QueryStatus, lag_of, read_status, write_status
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


def test_lag_is_what_the_sources_know_of_beyond_the_batch() -> None:
    one = {"endOffset": '{"a": 5, "b": 7}', "latestOffset": '{"a": 9, "b": 7, "new": 1000}'}
    other = {"endOffset": {"c": 1}, "latestOffset": {"c": 3}}
    silent = {"endOffset": "12", "latestOffset": "null"}
    assert lag_of({"sources": [one, other, silent]}) == 6
    assert lag_of({}) == 0
