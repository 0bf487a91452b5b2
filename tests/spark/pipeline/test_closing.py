"""When windows are closed by the clock, and that nothing on its way is made late by it."""

from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq

from braidmq.spark.pipeline.closing import Closing, tick_time_us, write_tick
from braidmq.spark.pipeline.config import Aggregates
from braidmq.spark.pipeline.home import open_home
from tests.spark.pipeline.samples import EVERYTHING, NOON_US, make_config

S = 1_000_000
SETTINGS = Aggregates(window_s=60, watermark_s=120, close_after_s=300, trigger_s=10)


def test_a_stream_that_pauses_gets_ticks_until_its_last_window_is_closed() -> None:
    closing = Closing(SETTINGS, 60.0)
    seconds = range(0, 1_000, 5)
    ticks = [tick for s in seconds if (tick := closing.due(NOON_US + s * S, NOON_US)) is not None]
    watermarks = [(tick - NOON_US) // S - 120 for tick in ticks]
    assert watermarks[0] == -300  # what ended five minutes ago
    assert 120 < watermarks[-1] <= 240  # beyond the window of an event that was a minute ahead
    assert all(later - earlier >= 60 for earlier, later in pairwise(watermarks))


def test_there_is_no_tick_unless_everything_that_came_is_known_to_be_in_the_tables() -> None:
    assert Closing(SETTINGS, 60.0).due(None, NOON_US) is None
    assert Closing(SETTINGS, 60.0).due(NOON_US, None) is None
    assert Closing(Aggregates(), 60.0).due(NOON_US, NOON_US) is None
    assert Closing(None, 60.0).due(NOON_US, NOON_US) is None


def test_a_run_that_ends_closes_what_may_no_longer_come() -> None:
    assert tick_time_us(Aggregates(watermark_s=120), NOON_US) == NOON_US
    assert tick_time_us(SETTINGS, NOON_US) == NOON_US - 180 * S


def test_a_tick_is_a_row_without_a_metric(tmp_path: Path) -> None:
    home = open_home(make_config(tmp_path, EVERYTHING))
    write_tick(home, NOON_US)
    (file,) = home.table("_aggregates_feed").list()
    (row,) = pq.read_table(file.path).to_pylist()
    assert (row["metrics"], round(row["event_time"].timestamp() * S)) == ([("", None)], NOON_US)
