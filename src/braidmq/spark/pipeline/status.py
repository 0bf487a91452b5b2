"""How a pipeline does: what its running queries say about themselves, and what its commits say for certain.

Every query of a running pipeline keeps one small file up to date; reading them needs neither Spark nor Java.
Rows and dead letters come from the commits and are exact; lag and times are as of the last batch.
"""

import statistics
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from braidmq.spark.health import SETTLED_STATES
from braidmq.spark.pipeline.commits import Manifest
from braidmq.spark.pipeline.home import Home
from braidmq.spark.pipeline.sources import wal_location
from braidmq.spark.pipeline.tables import user_tables
from braidmq.spark.tasks import Report
from braidmq.spark.wal import SourceState, Wal

INGEST: Final = "ingest"
AGGREGATES_QUERY: Final = "aggregates"
ALERTS_QUERY: Final = "alerts"
QUERIES: Final = (INGEST, AGGREGATES_QUERY, ALERTS_QUERY)
COMPACT: Final = "compact"
STALE_AFTER_S: Final = 15.0  # a running query writes its file every second
BATCHES_REMEMBERED: Final = 100


class QueryStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What one query said last."""

    state: str  # running, stopped, failed
    at_ms: int
    batch: int = -1
    lag: int = 0  # messages that are known of and not in a batch yet
    rows_per_s: float = 0.0
    batch_ms: list[int] = []  # of the last batches, newest last
    late: int = 0  # rows that came after their window was closed, since the start
    restarts: int = 0
    error: str | None = None


class QueryReport(msgspec.Struct, frozen=True, kw_only=True):
    """One query for people: its last word, and whether it may be believed."""

    name: str
    state: str
    batch: int
    lag: int
    rows_per_s: float
    batch_ms_median: float | None
    batch_ms_max: int | None
    late: int
    restarts: int
    seconds_ago: float
    error: str | None


class ReceiverReport(msgspec.Struct, frozen=True, kw_only=True):
    """One receiver of a source; times are seconds ago, None: never."""

    name: str
    group: str
    state: str
    connected_s: float | None
    last_message_s: float | None
    rows: int
    repeats: int
    exactly_once: bool | None  # None: not known before it has connected
    draining: bool  # it is no longer wanted, and only fetches what is left
    error: str


class StatusReport(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that `braidmq pipeline status` shows."""

    location: str
    rows: dict[str, int]
    dead_letters: dict[str, int]
    queries: list[QueryReport]
    receivers: list[ReceiverReport] = []
    waiting_at_brokers: int | None = None  # messages in the groups' queues; None: no broker says
    warnings: list[str] = []

    @property
    def is_well(self) -> bool:
        """Whether nothing has failed or gone quiet, and all receive; a pipeline that was stopped is well."""
        queries_well = all(query.state in ("running", "stopped") for query in self.queries)
        return queries_well and not (self.is_running and self.absent)

    @property
    def is_running(self) -> bool:
        return any(query.name == INGEST and query.state == "running" for query in self.queries)

    @property
    def absent(self) -> list[ReceiverReport]:
        """The receivers that should have a connection and have none."""
        return [one for one in self.receivers if not one.draining and one.state not in SETTLED_STATES]


def write_status(home: Home, query: str, status: QueryStatus) -> None:
    home.internal.at("status").make().at(f"{query}.json").write_struct(status)


def read_status(home: Home, now_ms: int) -> StatusReport:
    """The report on a pipeline, running or not."""
    statuses = {
        query: home.internal.at("status", f"{query}.json").read_struct(QueryStatus) for query in QUERIES
    }
    manifests = {query: last_manifest(home, query) for query in QUERIES}
    rows: dict[str, int] = dict.fromkeys(user_tables(home.config), 0)
    for manifest in manifests.values():
        if manifest is not None:
            rows |= {table: count for table, count in manifest.rows.items() if table in rows}
    ingest = manifests[INGEST]
    states = source_states(home)
    waiting = [state.waiting for state in states.values() if state.waiting is not None]
    return StatusReport(
        location=home.root.uri,
        rows=rows,
        dead_letters={} if ingest is None else ingest.reasons,
        queries=[_report(name, status, now_ms) for name, status in statuses.items() if status is not None],
        receivers=[
            _receiver_report(group, receiver, state, now_ms / 1e3)
            for group, state in states.items()
            for receiver in state.receivers
        ],
        waiting_at_brokers=sum(waiting) if waiting else None,
        warnings=[f"group {group}: {state.warning}" for group, state in states.items() if state.warning],
    )


def last_manifest(home: Home, writer: str) -> Manifest | None:
    place = home.internal.at("commits", writer)
    names = [info.base_name for info in place.list() if info.base_name.endswith(".json")]
    return place.at(names[-1]).read_struct(Manifest) if names else None


def _report(name: str, status: QueryStatus, now_ms: int) -> QueryReport:
    seconds_ago = max(0.0, (now_ms - status.at_ms) / 1e3)
    is_lost = status.state == "running" and seconds_ago > STALE_AFTER_S
    return QueryReport(
        name=name,
        state="lost" if is_lost else status.state,
        batch=status.batch,
        lag=status.lag,
        rows_per_s=round(status.rows_per_s, 1),
        batch_ms_median=statistics.median(status.batch_ms) if status.batch_ms else None,
        batch_ms_max=max(status.batch_ms, default=None),
        late=status.late,
        restarts=status.restarts,
        seconds_ago=seconds_ago,
        error=status.error,
    )


def _receiver_report(group: str, report: Report, state: SourceState, now_s: float) -> ReceiverReport:
    is_lost = report.state not in ("stopped", "drained") and now_s - state.at > STALE_AFTER_S
    return ReceiverReport(
        name=report.subscriber,
        group=group,
        state="lost" if is_lost else report.state,
        connected_s=now_s - report.connected_since if report.connected_since else None,
        last_message_s=now_s - report.last_message_at if report.last_message_at else None,
        rows=report.rows,
        repeats=report.repeats,
        exactly_once=report.repeats_by == "numbers" if report.repeats_by else None,
        draining=report.draining,
        error=report.error,
    )


def source_states(home: Home) -> dict[str, SourceState]:
    """How the receivers of each group are, as they said last; none of a source that never ran."""
    found = {source.group: Wal(wal_location(home, source)).state() for source in home.config.sources}
    return {group: state for group, state in found.items() if state is not None}


def lag_of(progress: Mapping[str, Any]) -> int:
    """How many messages the sources know of beyond the batch that a progress is about.

    Offsets are numbers by subscriber, as JSON; a source that says nothing about its latest offset has no lag.
    """
    lag = 0
    for source in progress.get("sources", ()):
        latest, end = (_offsets(source.get(key)) for key in ("latestOffset", "endOffset"))
        lag += sum(max(0, number - end.get(name, number)) for name, number in latest.items())
    return lag


def _offsets(value: Any) -> dict[str, int]:
    if isinstance(value, str):
        try:
            value = msgspec.json.decode(value)
        except msgspec.DecodeError:
            return {}
    if not isinstance(value, dict):
        return {}
    return {name: number for name, number in value.items() if isinstance(number, int)}
