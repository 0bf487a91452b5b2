"""The write-ahead log: what receivers have stored and Spark has not finished with.

    <walLocation>/id.json                        what executors find to know that they see this log
    <walLocation>/members.json                   who ever received into this log
    <walLocation>/state.json                     how the receivers are, every second
    <walLocation>/<subscriber>/<segment>.arrow   rows in the order of receipt

Writers: a receiver writes segments into its own folder and nobody else does; the driver writes `members.json`
and deletes segments. Readers look at names first, and a name is there only when its file is whole and safe.
"""

from collections.abc import Callable, Iterable
from typing import Any
from uuid import uuid4

import msgspec
import pyarrow as pa

from braidmq.spark.files import UNFINISHED, Claim, Files, open_files
from braidmq.spark.offsets import Log, Segment, end_offset, read_log
from braidmq.spark.options import BrokerAddress
from braidmq.spark.plan import Keep, trimmable
from braidmq.spark.tasks import Report

ID_NAME = "id.json"
MEMBERS_NAME = "members.json"
STATE_NAME = "state.json"


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A subscriber that this log has had, and what it was subscribed to."""

    name: str
    broker: BrokerAddress
    subscriptions: tuple[str, ...]
    drained: bool = False  # no longer wanted, and nothing of it is left at the broker


class SourceState(msgspec.Struct, frozen=True, kw_only=True):
    """How a query receives, as of a moment: for who looks at it from outside."""

    at: float  # seconds since 1970
    receivers: list[Report] = []
    restarts: dict[str, int] = {}
    waiting: int | None = None  # messages in the group's queues at the brokers; None: no broker says
    warning: str = ""


class Wal:
    def __init__(self, location: str, files: Files | None = None) -> None:
        self.location = location
        self.files = files or open_files(location)

    def claim(self, patience_s: float) -> Claim:
        """Makes this process the only one that runs receivers into this log."""
        return self.files.claim("", patience_s)

    def subscribers(self) -> list[str]:
        return self.files.folders()

    def log(self, subscriber: str) -> Log:
        return read_log(self.files.names(subscriber))

    def logs(self, subscribers: Iterable[str]) -> dict[str, Log]:
        return {subscriber: self.log(subscriber) for subscriber in subscribers}

    def read(self, subscriber: str, segment: Segment) -> pa.RecordBatch:
        """FileNotFoundError if it is gone."""
        with pa.ipc.open_file(self.files.read(f"{subscriber}/{segment.name}")) as file:
            return file.get_batch(0)

    def trim(self, subscriber: str, log: Log, committed: int, keep: Keep) -> None:
        for segment in trimmable(log, committed, keep):
            self.files.delete(f"{subscriber}/{segment.name}")

    def id(self) -> str | None:
        """None of a log that no query has received into since logs have one."""
        try:
            with self.files.read(ID_NAME) as file:
                return msgspec.json.decode(file.read(), type=str)
        except FileNotFoundError:
            return None

    def make_id(self) -> None:
        if self.id() is None:
            data = msgspec.json.encode(uuid4().hex)
            self.files.write(ID_NAME, lambda file: file.write(data))

    def state(self) -> SourceState | None:
        try:
            with self.files.read(STATE_NAME) as file:
                return msgspec.json.decode(file.read(), type=SourceState)
        except (FileNotFoundError, msgspec.DecodeError):
            return None

    def write_state(self, state: SourceState) -> None:
        data = msgspec.json.encode(state)
        self.files.write(STATE_NAME, lambda file: file.write(data), durable=False)

    def members(self) -> tuple[Member, ...]:
        try:
            with self.files.read(MEMBERS_NAME) as file:
                return msgspec.json.decode(file.read(), type=tuple[Member, ...])
        except FileNotFoundError:
            return ()

    def write_members(self, members: Iterable[Member]) -> None:
        data = msgspec.json.encode(tuple(members))
        self.files.write(MEMBERS_NAME, lambda file: file.write(data))


class SegmentWriter:
    """The one writer of a subscriber's folder. Numbers go on where the newest segment ends.

    `first` is for a folder without one.
    """

    def __init__(self, wal: Wal, subscriber: str, first: int, patience_s: float | None = None) -> None:
        self._wal = wal
        self._subscriber = subscriber
        self._claim = wal.files.claim(subscriber, patience_s)
        for name in wal.files.names(subscriber):
            if name.endswith(UNFINISHED):
                wal.files.delete(f"{subscriber}/{name}")
        log = wal.log(subscriber)
        self.next = end_offset(log) if log else first
        self.size_bytes = sum(segment.size_bytes for segment in log)  # an upper bound: the driver deletes

    def write(self, batch: pa.RecordBatch, size_bytes: int) -> Segment:
        """Durable when it returns."""
        self._claim.check()
        segment = Segment(self.next, batch.num_rows, size_bytes)
        self._wal.files.write(f"{self._subscriber}/{segment.name}", _file_of(batch))
        self.next = segment.end
        self.size_bytes += size_bytes
        return segment

    def measure(self) -> int:
        """Looks what is really there."""
        self.size_bytes = sum(segment.size_bytes for segment in self._wal.log(self._subscriber))
        return self.size_bytes

    def close(self) -> None:
        self._claim.release()


def _file_of(batch: pa.RecordBatch) -> Callable[[Any], None]:
    def fill(file: Any) -> None:
        with pa.ipc.new_file(file, batch.schema) as writer:
            writer.write_batch(batch)

    return fill
