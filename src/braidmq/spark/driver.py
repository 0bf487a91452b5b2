"""The driver's side of one streaming query: what there is to read, who receives, what may be deleted.

Lives in the process that Spark starts for the source, and knows no pyspark. Receivers start with the first
question for the latest offset: planning a batch again after a restart needs none. A broker that is away is no
error unless the user says so: the log simply does not grow, and the reports say why (`health`).
"""

import threading
import time
from collections.abc import Iterable

import msgspec

from braidmq.errors import BraidError
from braidmq.spark.dedup import WINDOW
from braidmq.spark.files import Claim
from braidmq.spark.health import CONNECTED_STATES, SETTLED_STATES, Health, unsettled
from braidmq.spark.offsets import Log, Offsets, latest, resolve
from braidmq.spark.pace import Rate
from braidmq.spark.plan import Keep, Slice, TriggerLimits, next_end, partitions, slices
from braidmq.spark.source_options import StreamOptions, Subscriber
from braidmq.spark.supervisor import Supervisor
from braidmq.spark.tasks import ReceiverTask
from braidmq.spark.wal import Member, SourceState, Wal
from braidmq.spark.watching import GroupWatch, outage_warning

CLAIM_PATIENCE_S = 30.0  # an earlier run may still be ending
DRAIN_QUIET_S = 3.0
SEGMENTS_KEPT = 256  # committed ones; with few messages each, a listing would become long
LISTING_SHARE_MAX = 0.05  # of the driver's time
STATE_EVERY_S = 1.0
AVAILABLE_NOW_POLL_S = 0.05


class DataLossError(BraidError):
    """Rows that the query should read are not in the log."""


class UnavailableError(BraidError):
    """What waits at a broker could not be fetched."""


class StreamDriver:
    def __init__(self, options: StreamOptions) -> None:
        self._options = options
        self._wal = Wal(options.wal_location)
        self._supervisor = Supervisor()
        self._claim: Claim | None = None
        self._members: dict[str, Member] = {member.name: member for member in self._wal.members()}
        self._logs: dict[str, Log] = {}
        self._listed_at = float("-inf")
        self._listing_pause_s = self._wal.files.listing_pause_s
        self._batch_at = time.monotonic()
        self._target: Offsets | None = None  # of a query that reads what is there now
        self._committed: Offsets = {}
        self._health = Health(options.disconnected_s_max)
        self._watch = GroupWatch(options.connection, options.group)
        self._rate = Rate()
        self._stopping = threading.Event()
        self._teller = threading.Thread(target=self._keep_telling, name="teller", daemon=True)
        # Only who guesses repeats has to read old rows again after a crash.
        self._rows_kept = WINDOW if options.dedup == "true" else 0

    @property
    def supervisor(self) -> Supervisor:
        return self._supervisor

    # -- offsets ------------------------------------------------------------------------------------------

    def initial(self) -> Offsets:
        return resolve(self._options.starting, self._wal.logs(self._members))

    def latest(self, start: Offsets, limits: TriggerLimits) -> Offsets:
        self._start_receivers()
        self._look_after()
        logs = self._list(start)
        if self._target is not None:
            logs = {name: _until(log, self._target.get(name, 0)) for name, log in logs.items()}
            limits = msgspec.structs.replace(limits, rows_min=0)
        now = time.monotonic()
        end = next_end(start, logs, limits, now - self._batch_at)
        if end != start:
            self._batch_at = now
        else:
            self._trim_if_large(start)
        return end

    def report_latest(self) -> Offsets | None:
        """All that is stored, and beside it what there is to know about the receivers.

        Spark shows it in the query's progress; what begins with # is no subscriber.
        """
        stored = latest(self._list({}))
        reports = self._supervisor.reports()
        connected = sum(report.state in CONNECTED_STATES for report in reports)
        told = {"#receivers": len(reports), "#connected": connected}
        if self._watch.waiting is not None:
            told["#waiting_at_brokers"] = self._watch.waiting
        return stored | told if stored else None

    def prepare_available_now(self) -> None:
        """Takes what the brokers have kept for us: until none has sent anything for a while."""
        self._start_receivers()
        options = self._options
        deadline = time.monotonic() + options.available_now_timeout_s
        seen, seen_at, absent = -1, time.monotonic(), [""]
        while (now := time.monotonic()) < deadline:
            self._look_after()
            reports = self._supervisor.reports()
            absent = unsettled(reports)
            settled = all(report.state in SETTLED_STATES for report in reports)
            progress = sum(report.next_offset for report in reports)
            if progress != seen or not settled:
                seen, seen_at = progress, now
            elif now - seen_at >= options.available_now_quiet_s:
                break
            time.sleep(AVAILABLE_NOW_POLL_S)
        if absent and options.fail_when_unavailable:
            raise UnavailableError(
                f"gave up after {options.available_now_timeout_s:g} s: what waits for {'; '.join(absent)} is "
                "not read. availableNowTimeout waits longer, failWhenUnavailable=false goes on without it"
            )
        self._listed_at = float("-inf")
        self._target = latest(self._list({}))

    # -- batches ------------------------------------------------------------------------------------------

    @property
    def log_id(self) -> str | None:
        """What executors must find in the log, to show that it is the same one."""
        return self._wal.id()

    def plan(self, start: Offsets, end: Offsets) -> list[list[Slice]]:
        """The partitions of a batch. A listing of its own: the batch may be one of an earlier run."""
        found, gaps = slices(start, end, self._wal.logs(end))
        if gaps and self._options.fail_on_data_loss:
            missing = "; ".join(map(str, gaps))
            raise DataLossError(
                f"{missing} are not in {self._wal.location}. They were deleted, or the checkpoint belongs to "
                "another log. failOnDataLoss=false goes on without them"
            )
        return partitions(found)

    def commit(self, end: Offsets) -> None:
        self._committed = end
        self._trim(end)

    # -- the end ------------------------------------------------------------------------------------------

    def stop(self) -> None:
        self._stopping.set()
        self._watch.stop()
        self._supervisor.stop()
        if self._claim is not None:
            self._teller.join()
            self._tell_state()
            self._claim.release()
            self._claim = None

    # -- receivers ----------------------------------------------------------------------------------------

    def _start_receivers(self) -> None:
        if self._claim is not None:
            return
        self._claim = self._wal.claim(CLAIM_PATIENCE_S)
        previous = {member.name: member for member in self._wal.members()}
        wanted = {subscriber.name: self._member(subscriber) for subscriber in self._options.subscribers}
        self._members = previous | wanted
        self._wal.write_members(self._members.values())
        self._wal.make_id()
        orphans = [member for member in previous.values() if member.name not in wanted and not member.drained]
        if self._options.watches_brokers and self._options.shared:
            self._watch.start(self._options.connection.brokers)
        self._supervisor.start(self._tasks(wanted.values(), previous))
        self._supervisor.start(self._task(orphan, (), DRAIN_QUIET_S) for orphan in orphans)
        self._teller.start()

    def _member(self, subscriber: Subscriber) -> Member:
        return Member(
            name=subscriber.name, broker=subscriber.broker, subscriptions=self._options.subscriptions
        )

    def _tasks(self, wanted: Iterable[Member], previous: dict[str, Member]) -> Iterable[ReceiverTask]:
        for member in wanted:
            before = previous.get(member.name, member).subscriptions
            stale = tuple(filter_ for filter_ in before if filter_ not in member.subscriptions)
            yield self._task(member, stale, None)

    def _task(self, member: Member, stale: tuple[str, ...], drain_quiet_s: float | None) -> ReceiverTask:
        options = self._options
        return ReceiverTask(
            subscriber=member.name,
            broker=member.broker,
            connection=options.connection,
            subscriptions=member.subscriptions,
            stale_subscriptions=stale,
            qos=options.qos,
            session_expiry_s=options.session_expiry_s,
            receive_maximum=options.receive_maximum,
            wal_location=options.wal_location,
            wal_bytes_max=options.subscriber_wal_bytes_max,
            segment_delay_s=options.segment_delay_s,
            dedup=options.dedup,
            drain_quiet_s=drain_quiet_s,
        )

    def _look_after(self) -> None:
        self._note_drained()
        self._health.check(self._supervisor.reports(), time.monotonic())

    def _keep_telling(self) -> None:
        """In a thread of its own: a batch may take minutes, in which Spark asks us nothing."""
        pause_s = max(STATE_EVERY_S, 10 * self._wal.files.listing_pause_s)
        while not self._stopping.wait(pause_s):
            self._tell_state()

    def _tell_state(self) -> None:
        """For who looks at the query from outside: its process is a child of Spark's."""
        reports = self._supervisor.reports()
        self._health.note(reports, time.monotonic())
        rate = self._rate.update(sum(report.rows for report in reports), time.monotonic())
        warning = outage_warning(rate, self._options.outage_s_max, self._watch.messages_max)
        self._wal.write_state(
            SourceState(
                at=time.time(),
                receivers=reports,
                restarts=self._supervisor.restarts(),
                waiting=self._watch.waiting,
                warning=warning or "",
            )
        )

    def _note_drained(self) -> None:
        done = [
            report.subscriber
            for report in self._supervisor.reports()
            if report.state == "drained" and not self._members[report.subscriber].drained
        ]
        for name in done:
            self._members[name] = msgspec.structs.replace(self._members[name], drained=True)
        if done:
            self._wal.write_members(self._members.values())

    # -- the log ------------------------------------------------------------------------------------------

    def _list(self, start: Offsets) -> dict[str, Log]:
        """Spark asks every 10 ms when it is idle; a listing is good for a little longer than that."""
        now = time.monotonic()
        if now - self._listed_at >= self._listing_pause_s:
            self._logs = self._wal.logs(self._members.keys() | start.keys())
            self._listed_at = time.monotonic()
            took_s = self._listed_at - now
            self._listing_pause_s = max(self._wal.files.listing_pause_s, took_s / LISTING_SHARE_MAX)
        return self._logs

    def _trim_if_large(self, start: Offsets) -> None:
        """The sink has all before `start`, but Spark commits it only with the next batch.

        If the log is full there would be no next batch.
        """
        size_bytes = sum(segment.size_bytes for log in self._logs.values() for segment in log)
        if size_bytes > self._options.wal_bytes_max // 2 and start != self._committed:
            self.commit(start)

    def _trim(self, end: Offsets) -> None:
        options = self._options
        keep = Keep(self._rows_kept, options.subscriber_wal_bytes_max // 4, SEGMENTS_KEPT)
        for name, position in end.items():
            if name in self._members:
                self._wal.trim(name, self._wal.log(name), position, keep)
        self._listed_at = float("-inf")


def _until(log: Log, end: int) -> Log:
    """The part of a log that was there when the query began; it ends with a whole segment."""
    return tuple(segment for segment in log if segment.end <= end)
