"""The second query: windows per device and metric.

Every row of the clean tables counts, once: the hand-off has them exactly once, and two messages that say the
same are two. A window is written once, when the watermark has passed its end; what comes for it later is left
out here, counted in the status, and still in the clean table.
"""

from collections.abc import Callable
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from braidmq.spark.pipeline.commits import CommitLog
from braidmq.spark.pipeline.config import Aggregates
from braidmq.spark.pipeline.home import Home
from braidmq.spark.pipeline.ingest import run_writers, table_task
from braidmq.spark.pipeline.tables import AGGREGATES, percentile_column

PERCENTILE_ACCURACY: Final = 1_000  # ranks are right to 1 in this many


def aggregate(feed: DataFrame, settings: Aggregates) -> DataFrame:
    """The rows of the aggregates table from the hand-off of the first query; works on streams and tables."""
    events = feed.withWatermark("event_time", _seconds(settings.watermark_s))
    measured = events.select(
        "schema", "device", "event_time", F.explode("metrics").alias("metric", "value")
    ).where("value IS NOT NULL")
    slide = None if settings.slide_s is None else _seconds(settings.slide_s)
    window = F.window("event_time", _seconds(settings.window_s), slide)
    value = F.col("value")
    grouped = measured.groupBy(window, "schema", "device", "metric").agg(
        F.count(value).alias("count"),
        F.avg(value).alias("mean"),
        F.min(value).alias("min"),
        F.max(value).alias("max"),
        *_percentiles(settings),
    )
    return _flat(grouped, settings)


def _percentiles(settings: Aggregates) -> list[Column]:
    if not settings.percentiles:
        return []
    fractions = F.array(*(F.lit(fraction) for fraction in settings.percentiles))
    return [F.percentile_approx("value", fractions, PERCENTILE_ACCURACY).alias("percentiles")]


def _flat(grouped: DataFrame, settings: Aggregates) -> DataFrame:
    return grouped.select(
        F.col("window.start").alias("window_start"),
        F.col("window.end").alias("window_end"),
        *("schema", "device", "metric", "count", "mean", "min", "max"),
        *(
            F.col("percentiles")[index].alias(percentile_column(fraction))
            for index, fraction in enumerate(settings.percentiles)
        ),
    )


def _seconds(value: float) -> str:
    return f"{round(value * 1_000)} milliseconds"


class AggregatesWriter:
    """Writes the windows that a batch has closed."""

    def __init__(self, home: Home, log: CommitLog, query: Callable[[], str]) -> None:
        self._target = home.targets()[AGGREGATES]
        self._rows_max = home.config.pipeline.file_rows_max
        self._log = log
        self._query = query

    def __call__(self, windows: DataFrame, batch: int) -> None:
        if self._log.has(self._query(), batch):
            return
        task = table_task(AGGREGATES, self._target, self._log.staging().uri, self._rows_max)
        self._log.commit(self._query(), batch, run_writers(windows, task))
