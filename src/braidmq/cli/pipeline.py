"""`braidmq pipeline`: MQTT into tables, on Spark."""

import signal
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from cyclopts import App, Parameter, validators
from rich.console import Console
from rich.table import Table

from braidmq.cli.spark import spark_session
from braidmq.errors import BraidError, ConfigError

if TYPE_CHECKING:
    from braidmq.spark.pipeline.home import Home
    from braidmq.spark.pipeline.run import Pipeline
    from braidmq.spark.pipeline.status import StatusReport

pipeline = App(name="pipeline", help="MQTT into tables, on Spark.", help_flags=["--help"])

EXIT_FAILED: Final = 1
FileArgument = Annotated[Path, Parameter(metavar="PIPELINE.toml", help="What the pipeline is to do.")]
MasterFlag = Annotated[
    str | None, Parameter(help="The Spark master, as in spark://host:7077; this machine by default.")
]
JsonFlag = Annotated[bool, Parameter(name="--json", negative=(), help="Print JSON.")]
OnceFlag = Annotated[
    bool, Parameter(negative=(), help="Do what is there by now and end, instead of going on for ever.")
]
Positive = validators.Number(gt=0)
AGES: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


@pipeline.command
def run(file: FileArgument, /, *, master: MasterFlag = None, once: OnceFlag = False) -> int:
    """Read messages and write tables until stopped by Ctrl-C or SIGTERM.

    Stops between two batches, and goes on from there when it is run again.
    """
    if once:
        return backfill(file, master=master)
    home, made = _pipeline(file, master)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):  # in place of Spark's own, which would cancel the batch
        signal.signal(number, lambda *_: stop.set())
    _say(f"tables are in {home.root.uri}; stop with Ctrl-C")
    made.run(stop)
    return 0


@pipeline.command
def backfill(file: FileArgument, /, *, master: MasterFlag = None) -> int:
    """Write what has come by now into the tables, and end: `run --once`.

    It reads what brokers have kept for the pipeline's sessions, and closes windows by the clock. It can't
    reach further back than they do.
    """
    home, made = _pipeline(file, master)
    made.backfill()
    _show_status(_status(home), Console())
    return 0


@pipeline.command
def status(file: FileArgument, /, *, as_json: JsonFlag = False) -> int:
    """Rows, lag, receivers and dead letters; exits with 1 if a query failed or a receiver isn't connected."""
    report = _status(_home(file))
    if as_json:
        print(msgspec.json.encode(report).decode())
    else:
        _show_status(report, Console())
    return 0 if report.is_well else EXIT_FAILED


@pipeline.command
def query(
    file: FileArgument,
    sql: Annotated[
        str, Parameter(metavar="SQL", help='As in "SELECT device, count(*) FROM raw GROUP BY 1".')
    ],
    /,
    *,
    master: MasterFlag = None,
    rows: Annotated[int, Parameter(validator=validators.Number(gte=1), help="Print at most so many.")] = 100,
    as_json: Annotated[bool, Parameter(name="--json", negative=(), help="One JSON object a line.")] = False,
) -> int:
    """Ask the tables: raw, dead_letters, aggregates, alerts, and one for each schema, by its name."""
    home = _home(file)
    spark = spark_session("braidmq query", master, home.config.spark)
    from braidmq.spark.pipeline.query import json_lines, run_query, shown

    columns, found = run_query(spark, home, sql, rows)
    if as_json:
        print("\n".join(json_lines(found)))
        return 0
    table = Table(*columns)
    for row in found:
        table.add_row(*map(shown, row))
    Console().print(table)
    return 0


@pipeline.command
def schema(
    filter: Annotated[str, Parameter(metavar="FILTER", help="The topic filter to listen to.")],
    /,
    *,
    broker: Annotated[str, Parameter(metavar="HOST:PORT", help="The broker.")] = "localhost:1883",
    messages: Annotated[int, Parameter(validator=validators.Number(gte=1), help="Enough messages.")] = 1_000,
    seconds: Annotated[float, Parameter(validator=Positive, help="Listen at most so long.")] = 10.0,
    username: Annotated[str | None, Parameter(help="Connect as this user.")] = None,
    password_file: Annotated[Path | None, Parameter(help="A file with the password.")] = None,
    as_json: JsonFlag = False,
) -> int:
    """Listen to live messages and propose a schema for them, to be put into a pipeline's file."""
    from braidmq.spark.pipeline.propose import propose, sample, to_toml

    secret = None if password_file is None else password_file.read_text(encoding="utf-8").rstrip("\r\n")
    choices = {"username": username, "password": secret}
    samples = sample(
        broker,
        filter,
        messages,
        seconds,
        **{key: value for key, value in choices.items() if value is not None},
    )
    if not samples:
        raise BraidError(f"nothing came on {filter} within {seconds:g} s")
    proposal = propose(filter, samples)
    print(msgspec.json.encode(proposal._asdict()).decode() if as_json else to_toml(proposal).rstrip())
    return 0


@pipeline.command
def compact(
    file: FileArgument,
    /,
    *,
    master: MasterFlag = None,
    older_than_hours: Annotated[
        float,
        Parameter(validator=validators.Number(gte=0), help="Leave alone hours that began later; 0: none."),
    ] = 1.0,
    target_mb: Annotated[float, Parameter(validator=Positive, help="How large files should become.")] = 128.0,
    as_json: JsonFlag = False,
) -> int:
    """Put small files together; the pipeline may run meanwhile."""
    home = _home(file)
    spark = spark_session("braidmq compact", master, home.config.spark)
    from braidmq.spark.pipeline.compact import compact as compact_tables

    done = compact_tables(
        spark,
        home,
        now=datetime.now(UTC),
        older_than_s=older_than_hours * 3_600,
        target_bytes=round(target_mb * 1_000_000),
    )
    if as_json:
        print(msgspec.json.encode([part._asdict() for part in done]).decode())
        return 0
    for part in done:
        print(f"{part.table} {part.partition}: {part.files_before} files became {part.files_after}")
    print(f"{len(done)} partitions compacted")
    return 0


@pipeline.command
def reprocess(
    file: FileArgument,
    /,
    *,
    master: MasterFlag = None,
    since: Annotated[
        datetime | None,
        Parameter(name="--from", help="Only messages received since then: whole hours of UTC."),
    ] = None,
    schema: Annotated[
        tuple[str, ...], Parameter(name="--schema", negative=(), help="Only messages of this schema.")
    ] = (),
) -> int:
    """Build clean tables, dead letters and aggregates anew from raw; the pipeline must not run meanwhile."""
    home = _home(file)
    spark = spark_session("braidmq reprocess", master, home.config.spark)
    from braidmq.spark.pipeline.reprocess import reprocess as rebuild

    for table, rows in rebuild(spark, home, since, schema):
        _say(f"{table}: {rows:,} rows")
    return 0


@pipeline.command
def migrate(file: FileArgument, /, *, master: MasterFlag = None) -> int:
    """Bring tables to the columns that the file asks for, if need be by building them anew from raw."""
    home = _home(file)
    spark = spark_session("braidmq migrate", master, home.config.spark)
    from braidmq.spark.pipeline.reprocess import migrate as bring

    rebuilt = bring(spark, home)
    for table, rows in rebuilt:
        _say(f"{table}: {rows:,} rows")
    if not rebuilt:
        _say("nothing has to be built anew")
    return 0


def _home(file: Path) -> "Home":
    try:
        from braidmq.spark.pipeline.config import load_pipeline
        from braidmq.spark.pipeline.home import open_home
    except ImportError as error:
        raise ConfigError(f"the pipeline needs {error.name}: pip install 'braidmq[spark]'") from error
    return open_home(load_pipeline(file))


def _pipeline(file: Path, master: str | None) -> tuple["Home", "Pipeline"]:
    home = _home(file)
    from braidmq.spark.pipeline.evolution import check_tables
    from braidmq.spark.pipeline.sources import check_options, read_messages

    check_options(home)
    check_tables(home)
    spark = spark_session("braidmq pipeline", master, home.config.spark)
    from braidmq.spark.pipeline.run import Pipeline

    return home, Pipeline(spark, home, lambda session: read_messages(session, home), _say)


def _say(line: str) -> None:
    print(line, flush=True)


def _status(home: "Home") -> "StatusReport":
    from braidmq.spark.pipeline.status import read_status

    return read_status(home, time.time_ns() // 1_000_000)


def _show_status(report: "StatusReport", console: Console) -> None:
    console.print(report.location, soft_wrap=True, highlight=False)
    rows = _table("table", "rows")
    for name, count in report.rows.items():
        rows.add_row(name, f"{count:,}")
    console.print(rows)
    if report.dead_letters:
        reasons = _table("dead letters", "rows")
        for reason, count in sorted(report.dead_letters.items()):
            reasons.add_row(reason, f"{count:,}")
        console.print(reasons)
    if report.queries:
        console.print(_queries(report))
    if report.receivers:
        console.print(_receivers(report))
    if report.waiting_at_brokers is not None:
        console.print(f"waiting at the brokers: {report.waiting_at_brokers:,}", highlight=False)
    for warning in report.warnings:
        console.print(warning, soft_wrap=True, highlight=False, markup=False)
    errors = [(query.name, query.error) for query in report.queries]
    errors += [(receiver.name, receiver.error) for receiver in report.absent]
    for name, error in errors:
        if error:
            console.print(f"{name}: {error}", soft_wrap=True, highlight=False, markup=False)


def _queries(report: "StatusReport") -> Table:
    queries = _table("query", "state", "batch", "lag", "rows/s", "batch ms", "longest", "late", "restarts")
    for one in report.queries:
        median = "" if one.batch_ms_median is None else f"{one.batch_ms_median:.0f}"
        longest = "" if one.batch_ms_max is None else f"{one.batch_ms_max}"
        numbers = (f"{one.batch}", f"{one.lag:,}", f"{one.rows_per_s:,.0f}", median, longest, f"{one.late:,}")
        queries.add_row(one.name, one.state, *numbers, f"{one.restarts}")
    return queries


def _receivers(report: "StatusReport") -> Table:
    receivers = _table("receiver", "state", "connected", "last message", "rows", "delivery")
    for one in report.receivers:
        promise = {None: "", True: "exactly once", False: "at least once"}[one.exactly_once]
        times = (_ago(one.connected_s, ""), _ago(one.last_message_s, " ago"))
        receivers.add_row(one.name, one.state, *times, f"{one.rows:,}", promise)
    return receivers


def _table(*columns: str) -> Table:
    """Narrow: a line between columns costs more room than it is worth."""
    return Table(*columns, box=None, pad_edge=False, header_style="bold")


def _ago(seconds: float | None, after: str) -> str:
    if seconds is None:
        return "never"
    size, unit = next(((size, unit) for size, unit in AGES if seconds >= size), AGES[-1])
    return f"{seconds / size:.0f} {unit}{after}"
