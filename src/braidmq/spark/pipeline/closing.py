"""Closing the windows of a stream that pauses or ends: by the clock, since no event comes that would.

Spark closes a window when an event comes that is later than its end by the watermark. A tick is a row of the
hand-off without a metric, which counts for nothing and moves the watermark all the same.

When a tick is due is decided here, purely. Wall clock says nothing about messages that are still on their
way, so there is a tick only for a time until which everything that came is in the tables.
"""

import uuid

import pyarrow as pa
import pyarrow.parquet as pq

from braidmq.spark.pipeline.config import Aggregates
from braidmq.spark.pipeline.home import Home
from braidmq.spark.pipeline.tables import AGGREGATES_FEED, AGGREGATES_FEED_SCHEMA

US_PER_S = 1_000_000


class Closing:
    """The ticks of one run."""

    def __init__(self, settings: Aggregates | None, clock_ahead_s: float) -> None:
        self._settings = settings
        self._ahead_us = round(clock_ahead_s * US_PER_S)
        self._last_us = 0

    def due(self, complete_until_us: int | None, last_rows_us: int | None) -> int | None:
        """The event time of a tick that is to be written now.

        `complete_until_us`: until when everything is in the tables; None if that isn't known.
        `last_rows_us`: when the last batch with rows began.
        """
        settings = self._settings
        if settings is None or settings.close_after_s is None:
            return None
        if complete_until_us is None or last_rows_us is None:
            return None
        step_us = round(max(settings.slide_s or settings.window_s, settings.trigger_s) * US_PER_S)
        event_us = tick_time_us(settings, complete_until_us)
        last_end_us = last_rows_us + self._ahead_us + round(settings.window_s * US_PER_S)
        watermark_us = event_us - round(settings.watermark_s * US_PER_S)
        if event_us < self._last_us + step_us or watermark_us > last_end_us + step_us:
            return None
        self._last_us = event_us
        return event_us


def tick_time_us(settings: Aggregates, now_us: int) -> int:
    """The event time that closes what ended `close_after_s` (or else `watermark_s`) before now."""
    after_s = settings.watermark_s if settings.close_after_s is None else settings.close_after_s
    return now_us - round((after_s - settings.watermark_s) * US_PER_S)


def write_tick(home: Home, event_us: int) -> None:
    """A file with one row, which appears as a whole."""
    times = pa.array([event_us], pa.int64()).cast(AGGREGATES_FEED_SCHEMA.field("event_time").type)
    metrics = pa.array([[("", None)]], AGGREGATES_FEED_SCHEMA.field("metrics").type)
    nothing = pa.array([""])
    row = pa.Table.from_arrays([nothing, nothing, times, metrics], schema=AGGREGATES_FEED_SCHEMA)
    name = f"tick-{event_us}-{uuid.uuid4().hex}.parquet"
    staged = home.internal.at("staging", "ticks").make().at(name)
    pq.write_table(row, staged.path, filesystem=staged.files)
    staged.move_to(home.table(AGGREGATES_FEED).make().at(name))
