"""The directories of one pipeline, opened: its tables, its checkpoints and its commit logs."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from braidmq.errors import BraidError
from braidmq.spark.pipeline.commits import CommitLog
from braidmq.spark.pipeline.config import PipelineConfig
from braidmq.spark.pipeline.places import Place, open_place
from braidmq.spark.pipeline.tables import (
    AGGREGATES,
    AGGREGATES_FEED,
    AGGREGATES_FEED_SCHEMA,
    ALERTS,
    ALERTS_FEED,
    ALERTS_FEED_SCHEMA,
    DEVICE_STATES,
    DEVICE_STATES_SCHEMA,
    INTERNAL,
    directory_of,
    user_tables,
)
from braidmq.spark.pipeline.writing import Target

INTERNAL_TABLES = {
    AGGREGATES_FEED: AGGREGATES_FEED_SCHEMA,
    ALERTS_FEED: ALERTS_FEED_SCHEMA,
    DEVICE_STATES: DEVICE_STATES_SCHEMA,
}
_TIME_COLUMNS = {AGGREGATES: "window_start", ALERTS: "at"}


class Home(NamedTuple):
    """Where everything of a pipeline is."""

    config: PipelineConfig
    root: Place
    internal: Place

    def table(self, name: str) -> Place:
        if name in INTERNAL_TABLES:
            return self.internal.at(name[1:])
        return self.root.at(directory_of(self.config, name))

    def checkpoint(self, query: str) -> Place:
        return self.internal.at("checkpoints", query)

    def targets(self) -> dict[str, Target]:
        """How every table is written."""
        tables = {
            name: Target(schema, _TIME_COLUMNS.get(name, "received_at"))
            for name, schema in user_tables(self.config).items()
        }
        return tables | {name: Target(schema, None) for name, schema in INTERNAL_TABLES.items()}

    @property
    def has_locks(self) -> bool:
        return self.internal.is_local

    def commits(self, writer: str) -> Place:
        return self.internal.at("commits", writer)

    def commit_log(self, writer: str) -> CommitLog:
        tables = {name: self.table(name) for name in self.targets()}
        # Staged where the tables are: there moving a file is cheapest.
        staging = self.internal.at("staging") if self.root.is_local else self.root.at("_staging")
        return CommitLog(writer, self.internal.at("commits"), staging, tables, self.delta_tables())

    def delta_tables(self) -> dict[str, pa.Schema]:
        return user_tables(self.config) if self.config.pipeline.format == "delta" else {}


def open_home(config: PipelineConfig) -> Home:
    """The home of a pipeline; nothing is made."""
    root = open_place(config.pipeline.location)
    work = config.pipeline.work
    return Home(config, root, root.at(INTERNAL) if work is None else open_place(work))


@contextmanager
def exclusive(home: Home, work: str) -> Iterator[None]:
    """Keeps a second process from the same work; on shared file systems that is up to the user."""
    home.internal.make()
    if not home.has_locks:
        yield
        return
    with Path(home.internal.at(f"{work}.lock").path).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise BraidError(f"{home.root.uri}: another process is at work there ({work})") from error
        yield
