"""Runs a pipeline: starts its queries, keeps them going, and stops them between two batches.

Queries restart from their checkpoints, here after a failure and at the next start alike. A query that fails
again and again ends the run; the others have lost nothing.
"""

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

import msgspec
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.query import StreamingQuery

from braidmq.errors import BraidError
from braidmq.spark.driver import UnavailableError
from braidmq.spark.health import DisconnectedError, RefusedError, SessionTakenError
from braidmq.spark.pipeline.aggregates import AggregatesWriter, aggregate
from braidmq.spark.pipeline.alerting import AlertsWriter, make_publisher, with_ticks
from braidmq.spark.pipeline.alerts import Listening
from braidmq.spark.pipeline.closing import Closing, tick_time_us, write_tick
from braidmq.spark.pipeline.evolution import check_tables, evolve
from braidmq.spark.pipeline.home import INTERNAL_TABLES, Home, exclusive
from braidmq.spark.pipeline.ingest import Ingest
from braidmq.spark.pipeline.news import ReceiverNews, all_received
from braidmq.spark.pipeline.recovery import WRITING, recover_work, recover_writers
from braidmq.spark.pipeline.reprocess import refuse_unfinished
from braidmq.spark.pipeline.status import (
    AGGREGATES_QUERY,
    ALERTS_QUERY,
    BATCHES_REMEMBERED,
    COMPACT,
    INGEST,
    QueryStatus,
    lag_of,
    source_states,
    write_status,
)
from braidmq.spark.pipeline.tables import AGGREGATES_FEED, ALERTS_FEED
from braidmq.spark.reading import LogNotSharedError

RECOVER_EVERY_S: Final = 10.0  # another command may crash beside us
LOOK_EVERY_S: Final = 1.0
BACKOFF_S_MAX: Final = 30.0
RESTARTS_MAX: Final = 5  # without a good batch in between
SETTLING_MS: Final = 1_000  # what a message may take from a receiver's socket to where Spark sees it
ERROR_CHARACTERS_MAX: Final = 500
_PYTHON_ERROR: Final = re.compile(r"[\w.]*(Error|Exception)\b(: |$)")
# Starting again would not help, or would throw out whoever is in our place.
FINAL_ERRORS: Final = (
    SessionTakenError.__name__,
    RefusedError.__name__,
    DisconnectedError.__name__,
    UnavailableError.__name__,
    LogNotSharedError.__name__,
)
BATCH_END_S: Final = 60.0  # how long a batch may take to finish when we stop

Messages = Callable[[SparkSession], DataFrame]


class PipelineFailedError(BraidError):
    """A query of the pipeline failed for good."""


class Pipeline:
    """The queries of one pipeline in one Spark session."""

    def __init__(
        self, spark: SparkSession, home: Home, messages: Messages, say: Callable[[str], None] = lambda _: None
    ) -> None:
        self._spark = spark
        self._home = home
        self._messages = messages
        self._news = ReceiverNews(say)
        self._closing = Closing(home.config.aggregates, home.config.clock_ahead_s)
        self._listening: Listening | None = None  # None, too, in a backfill
        self._recovered_at = time.monotonic()

    def run(self, stop: threading.Event) -> None:
        """Runs until told to stop; PipelineFailedError if a query can't go on."""
        with exclusive(self._home, WRITING):
            self._prepare()
            running = [Runner(self._home, name, start) for name, start in self._queries(once=False)]
            try:
                while not stop.wait(LOOK_EVERY_S):
                    for runner in running:
                        runner.look(time.monotonic())
                    self._look_around(running[0])
            finally:
                for runner in running:
                    runner.stop()

    def _prepare(self) -> None:
        refuse_unfinished(self._home)
        recover_writers(self._home, WRITING)
        recover_work(self._home, COMPACT)
        check_tables(self._home)
        evolve(self._home)

    def _look_around(self, ingest: "Runner") -> None:
        """What has to be done beside the queries, every second."""
        complete_until_ms = ingest.complete_until_ms()
        self._listen(complete_until_ms)
        states = source_states(self._home)
        self._news.tell(states)
        if all_received(states):
            until_us = None if complete_until_ms is None else complete_until_ms * 1_000
            tick_us = self._closing.due(until_us, ingest.last_rows_us)
            if tick_us is not None:
                write_tick(self._home, tick_us)
        if time.monotonic() - self._recovered_at > RECOVER_EVERY_S:
            self._recovered_at = time.monotonic()
            recover_work(self._home, COMPACT)

    def _listen(self, complete_until_ms: int | None) -> None:
        """Notes until when the first query has read everything."""
        if complete_until_ms is not None:
            until_us = complete_until_ms * 1_000
            since_us = until_us if self._listening is None else self._listening.since_us
            self._listening = Listening(since_us, max(since_us, until_us))

    def backfill(self) -> None:
        """Does everything that is there by now, and no more; silence isn't judged."""
        with exclusive(self._home, WRITING):
            self._prepare()
            for name, start in self._queries(once=True):
                Runner(self._home, name, start).finish()
                if name == INGEST and self._home.config.aggregates is not None:
                    write_tick(self._home, tick_time_us(self._home.config.aggregates, _now_ms() * 1_000))

    def _queries(self, *, once: bool) -> Iterator[tuple[str, Callable[[], StreamingQuery]]]:
        config = self._home.config
        yield INGEST, lambda: self._start_ingest(once)
        if config.aggregates is not None:
            yield AGGREGATES_QUERY, lambda: self._start_aggregates(once)
        if config.rules:
            yield ALERTS_QUERY, lambda: self._start_alerts(once)

    def _start_ingest(self, once: bool) -> StreamingQuery:
        writer = Ingest(self._home, self._log(INGEST), self._query_id(INGEST))
        trigger_s = self._home.config.pipeline.trigger_s
        return self._start(INGEST, self._messages(self._spark), writer, trigger_s, once)

    def _start_aggregates(self, once: bool) -> StreamingQuery:
        settings = self._home.config.aggregates
        assert settings is not None
        writer = AggregatesWriter(self._home, self._log(AGGREGATES_QUERY), self._query_id(AGGREGATES_QUERY))
        windows = aggregate(self._feed(AGGREGATES_FEED), settings)
        return self._start(AGGREGATES_QUERY, windows, writer, settings.trigger_s, once)

    def _start_alerts(self, once: bool) -> StreamingQuery:
        config = self._home.config
        publish = make_publisher(config)
        writer = AlertsWriter(
            self._home,
            self._log(ALERTS_QUERY),
            self._query_id(ALERTS_QUERY),
            publish,
            lambda: self._listening,
        )
        rows = with_ticks(self._feed(ALERTS_FEED))
        return self._start(ALERTS_QUERY, rows, writer, config.alerts.trigger_s, once)

    def _start(
        self,
        name: str,
        rows: DataFrame,
        writer: Callable[[DataFrame, int], None],
        trigger_s: float,
        once: bool,
    ) -> StreamingQuery:
        stream = rows.writeStream.queryName(name).foreachBatch(writer)
        stream = stream.option("checkpointLocation", self._home.checkpoint(name).uri)
        if once:
            return stream.trigger(availableNow=True).start()
        return stream.trigger(processingTime=f"{round(trigger_s * 1_000)} milliseconds").start()

    def _log(self, name: str) -> Any:
        log = self._home.commit_log(name)
        log.recover()  # of a query that failed here, and starts again
        return log

    def _query_id(self, name: str) -> Callable[[], str]:
        """Spark's id of a query, which lives as long as its checkpoint; known once the query has started."""
        return lambda: _read_query_id(self._home, name)

    def _feed(self, table: str) -> DataFrame:
        """A hand-off of the first query; Spark deletes its files when it has done with them."""
        reader = self._spark.readStream.schema(from_arrow_schema(INTERNAL_TABLES[table]))
        return reader.option("cleanSource", "delete").parquet(self._home.table(table).make().uri)


class Runner:
    """One query: started, looked after, stopped."""

    def __init__(self, home: Home, name: str, start: Callable[[], StreamingQuery]) -> None:
        self._home = home
        self._name = name
        self._start = start
        self._status = QueryStatus(state="running", at_ms=_now_ms())
        self._failures = 0  # since the last good batch
        self._again_at: float | None = None
        self._complete_until_ms: int | None = None
        self.last_rows_us: int | None = None  # when the last batch with rows began
        self._has_looked = False  # whether it has asked its sources at all
        self._query = self._started()

    def look(self, now: float) -> None:
        """Notes progress; starts a failed query again when its time has come."""
        if self._again_at is not None:
            if now >= self._again_at:
                self._again_at = None
                self._query = self._started()
            return
        self._note()
        if self._query.isActive:
            return
        reason = _reason(self._query)
        self._failures += 1
        if self._failures > RESTARTS_MAX or any(name in reason for name in FINAL_ERRORS):
            self._say(state="failed", error=reason)
            times = "" if self._failures == 1 else f" {self._failures} times"
            raise PipelineFailedError(f"the query {self._name} failed{times}: {reason}")
        self._again_at = now + min(BACKOFF_S_MAX, 2.0**self._failures)
        self._say(restarts=self._status.restarts + 1, error=reason)

    def _started(self) -> StreamingQuery:
        try:
            return self._start()
        except PySparkException as error:
            raise PipelineFailedError(
                f"the query {self._name} can't start: {_telling(str(error))}"
            ) from error

    def complete_until_ms(self) -> int | None:
        """Until when everything that had come is in a batch that is done; None if it can't be said."""
        if self._again_at is not None or not self._query.isActive:
            return None
        status = self._query.status
        if not status["isTriggerActive"] and not status["isDataAvailable"] and self._has_looked:
            return _now_ms() - SETTLING_MS
        return self._complete_until_ms

    def stop(self) -> None:
        """Lets a batch end, then stops."""
        end = time.monotonic() + BATCH_END_S
        while self._query.isActive and self._query.status["isTriggerActive"] and time.monotonic() < end:
            time.sleep(0.02)
        with suppress(PySparkException):
            self._query.stop()
        self._note()
        if self._status.state != "failed":
            self._say(state="stopped")

    def finish(self) -> None:
        """Waits until a query that ends by itself has ended."""
        try:
            self._query.awaitTermination()
        except PySparkException as error:
            self._say(state="failed", error=_telling(str(error)))
            raise PipelineFailedError(f"the query {self._name}: {_telling(str(error))}") from error
        self._note()
        self._say(state="stopped")

    def _note(self) -> None:
        """Takes over what the query says of its batches since the last look."""
        newest = self._query.lastProgress
        self._has_looked = newest is not None
        fresh = []
        if newest is not None and _plain(newest)["batchId"] > self._status.batch:
            fresh = [
                progress
                for progress in map(_plain, self._query.recentProgress)
                if progress["batchId"] > self._status.batch and progress["numInputRows"]
            ]
        if fresh:
            self._failures = 0
            self._take_over(fresh)
        else:
            self._say()

    def _take_over(self, fresh: list[dict[str, Any]]) -> None:
        last = fresh[-1]
        lag = lag_of(last)
        self.last_rows_us = _time_ms(last["timestamp"]) * 1_000
        if lag == 0:
            self._complete_until_ms = _time_ms(last["timestamp"]) - SETTLING_MS
        times = [*self._status.batch_ms, *(progress["durationMs"]["triggerExecution"] for progress in fresh)]
        self._say(
            batch=last["batchId"],
            lag=lag,
            rows_per_s=last.get("processedRowsPerSecond") or 0.0,
            batch_ms=times[-BATCHES_REMEMBERED:],
            late=self._status.late + sum(map(_late_rows, fresh)),
            error=None,
        )

    def _say(self, **changes: Any) -> None:
        self._status = msgspec.structs.replace(self._status, at_ms=_now_ms(), **changes)
        write_status(self._home, self._name, self._status)


def _read_query_id(home: Home, name: str) -> str:
    place = home.checkpoint(name).at("metadata")
    with place.files.open_input_stream(place.path) as stream:
        found: str = msgspec.json.decode(stream.read())["id"]
    return found


def _plain(progress: Any) -> dict[str, Any]:
    """A progress as a dictionary, whatever this version of PySpark gives."""
    plain: dict[str, Any] = progress if isinstance(progress, dict) else msgspec.json.decode(progress.json)
    return plain


def _time_ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1e3)


def _late_rows(progress: dict[str, Any]) -> int:
    return sum(
        operator.get("numRowsDroppedByWatermark", 0) for operator in progress.get("stateOperators", ())
    )


def _reason(query: StreamingQuery) -> str:
    error = query.exception()
    return "it ended" if error is None else _telling(str(error))


def _telling(text: str) -> str:
    """The most telling line of what the JVM says: the last error of Python, else the first line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    raised = [line for line in lines if _PYTHON_ERROR.match(line)]
    return (raised[-1:] or lines or ["it ended"])[0][:ERROR_CHARACTERS_MAX]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
