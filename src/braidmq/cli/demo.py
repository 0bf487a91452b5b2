"""`braidmq demo`: the main job at work, with a live table and a check at the end."""

import asyncio
import importlib.util
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import uvloop
from cyclopts import Parameter, validators
from rich.console import Console
from rich.live import Live

from braidmq.demo.broker_only import run_broker_only
from braidmq.demo.report import print_checks
from braidmq.errors import ConfigError

if TYPE_CHECKING:
    from braidmq.demo.job import Job

REFRESH_S: Final = 0.25
LINE_EVERY_S: Final = 5.0
SECONDS_LEAST: Final = 20.0  # below, no window would be closed
DATA_DIR: Final = Path("demo-data")
NEEDED: Final = ("pyspark", "pyarrow", "pandas", "prometheus_client")
QUESTIONS: Final = (
    "SELECT site, count(*) AS messages, max(temperature) AS hottest FROM readings GROUP BY site",
    "SELECT reason, count(*) FROM dead_letters GROUP BY reason",
    "SELECT * FROM alerts ORDER BY at",
)
ENDING_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)
Positive = validators.Number(gt=0)


def demo(
    *,
    seconds: Annotated[
        float | None, Parameter(help="How long devices talk: 60, with --broker-only 15.", metavar="N")
    ] = None,
    rate: Annotated[float, Parameter(validator=Positive, help="Messages a second.")] = 2_000.0,
    seed: Annotated[
        int, Parameter(validator=validators.Number(gte=0), help="What devices say follows from it.")
    ] = 1,
    data_dir: Annotated[Path, Parameter(help="Where the tables go; made anew at each run.")] = DATA_DIR,
    master: Annotated[str, Parameter(help="The Spark master.")] = "local[*,4]",
    broker_only: Annotated[
        bool, Parameter(negative=(), help="One broker and its clients, without Spark and Java.")
    ] = False,
) -> int:
    """See the whole system at work, and every message checked.

    Two brokers, a fleet of simulated devices, and the pipeline on Spark, which writes tables. A device falls
    silent, one overheats, some payloads are broken, and one receiver gets slow. At the end the tables are
    checked against what the devices were promised; the exit code says whether they hold it.
    """
    if broker_only:
        return uvloop.run(run_broker_only(_at_least(seconds, 15.0, 0.0), Console()))
    _require_spark()
    from braidmq.demo.job import Job, Settings

    talking_s = _at_least(seconds, 60.0, SECONDS_LEAST)
    settings = Settings(directory=data_dir, seconds=talking_s, rate=rate, seed=seed, master=master)
    return uvloop.run(_run(Job(settings), Console()))


def _at_least(seconds: float | None, usual: float, least: float) -> float:
    if seconds is None:
        return usual
    if seconds <= 0 or seconds < least:
        expected = f"at least {least:g}" if least else "more than 0"
        raise ConfigError(f"--seconds {seconds:g}: expected {expected}")
    return seconds


def _require_spark() -> None:
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"the demo needs {', '.join(missing)}: pip install 'braidmq[spark]'. "
            "braidmq demo --broker-only needs nothing more"
        )
    from braidmq.spark.session import require_java

    require_java()


async def _run(job: "Job", console: Console) -> int:
    _end_on_signals()
    showing = asyncio.create_task(_show(job, console))
    try:
        checks = await job.run()
    finally:
        showing.cancel()
        await asyncio.wait([showing])
    code = print_checks(checks, console)
    _tell_what_is_left(job, console)
    return code


def _end_on_signals() -> None:
    """As Ctrl-C does: every child is ended before we are."""
    task = asyncio.current_task()
    assert task is not None
    for number in ENDING_SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)


async def _show(job: "Job", console: Console) -> None:
    """A table that is redrawn on a terminal; elsewhere a line now and then."""
    from braidmq.demo.situation import line, shown

    if not console.is_terminal:
        said = ""
        while True:
            await asyncio.sleep(LINE_EVERY_S)
            if (news := line(job.situation)) != said:
                console.print(news, highlight=False, soft_wrap=True)
                said = news
    with Live(shown(job.situation), console=console, auto_refresh=False) as live:
        try:
            while True:
                await asyncio.sleep(REFRESH_S)
                live.update(shown(job.situation), refresh=True)
        finally:
            live.update(shown(job.situation), refresh=True)


def _tell_what_is_left(job: "Job", console: Console) -> None:
    file = job.settings.directory / job.pipeline_file.name
    # As we were called: after `make demo` the program is on nobody's path.
    program = sys.argv[0] if Path(sys.argv[0]).name == "braidmq" else "braidmq"
    console.print(f"The tables stay in {job.settings.directory}. Ask them:", highlight=False)
    for question in QUESTIONS:
        console.print(f'  {program} pipeline query {file} "{question}"', highlight=False, soft_wrap=True)
