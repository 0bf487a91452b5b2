"""The benchmark against Mosquitto: `make bench`, or python -m bench.run --help.

A goal that is missed is said so and fails nothing; exit code 1 means that a measurement could not be made.
"""

import argparse
import resource
import sys
from pathlib import Path

from rich.console import Console

from bench import report
from bench.cases import ROWS, Row
from bench.contenders import MOSQUITTO_MISSING, BenchError, find_mosquitto
from bench.measure import Settings, measure

RESULTS = Path(__file__).parent / "results" / "broker.json"
QUICK = {"rounds": 2, "seconds": 1.0, "ramp_s": 0.3}
TABLE_COLUMNS_MIN = 160


def arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench.run", description="Measure BraidMQ against Mosquitto.")
    names = ",".join(row.name for row in ROWS)
    parser.add_argument("--cases", default=names, help=f"which rows, separated by commas; all are {names}")
    parser.add_argument("--rounds", type=int, help="how often the two take turns (5)")
    parser.add_argument("--seconds", type=float, help="measured interval of a run (3)")
    parser.add_argument("--quick", action="store_true", help="2 rounds of 1 s: a first look, not a figure")
    parser.add_argument("--protocol", type=int, choices=(4, 5), default=5, help="4 is MQTT 3.1.1")
    parser.add_argument("--ours", choices=("braidmq", "mosquitto"), default="braidmq",
                        help="mosquitto measures it against itself, which shows the noise")
    parser.add_argument("--against", type=Path, metavar="CHECKOUT",
                        help="another checkout of BraidMQ, built there, in Mosquitto's place")
    parser.add_argument("--out", type=Path,
                        help="where to store JSON (bench/results/broker.json when all rows are run in full)")
    return parser.parse_args(argv)


def chosen_rows(names: str) -> list[Row]:
    wanted = names.split(",")
    if unknown := set(wanted) - {row.name for row in ROWS}:
        raise BenchError(f"no case is called {', '.join(sorted(unknown))}; see --help")
    return [row for row in ROWS if row.name in wanted]


def settings_of(given: argparse.Namespace) -> Settings:
    asked = {"rounds": given.rounds, "seconds": given.seconds}
    chosen = {**(QUICK if given.quick else {}), **{key: value for key, value in asked.items() if value}}
    return Settings(**chosen, version=given.protocol, ours=given.ours,
                    against=str(given.against or ""))


def raise_descriptor_limit() -> None:
    """Ten thousand connections need as many descriptors, here and in the brokers started from here."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def measure_all(rows: list[Row], settings: Settings, console: Console) -> tuple[list[report.Summary], bool]:
    """Every row that can be measured; False when one could not."""
    summaries, complete = [], True
    for row in rows:
        try:
            with console.status(row.title):
                summary = report.summarise(measure(row, settings))
        except BenchError as error:
            console.print(f"[red]{row.name}: {error}", highlight=False)
            complete = False
            continue
        console.print(f"{row.name}: {report.number(summary.ours)} against {report.number(summary.theirs)}, "
                      f"{summary.verdict} (goal {summary.goal})", highlight=False)
        summaries.append(summary)
    return summaries, complete


def show(summaries: list[report.Summary], peer: str, console: Console) -> None:
    console.print(report.table(summaries, peer))
    for one in summaries:
        if one.notes:
            console.print(f"{one.name}: {'; '.join(one.notes)}", highlight=False)
        if one.rate_per_s:
            console.print(f"{one.name}: at {one.rate_per_s:,.0f} messages/s", highlight=False)


def is_full_run(given: argparse.Namespace, rows: list[Row]) -> bool:
    return len(rows) == len(ROWS) and not given.quick and not given.against


def main(argv: list[str] | None = None) -> int:
    given = arguments(argv)
    console = Console(width=None if sys.stdout.isatty() else TABLE_COLUMNS_MIN)
    if find_mosquitto() is None and not given.against:
        print(MOSQUITTO_MISSING, file=sys.stderr)
        return 1
    try:
        rows = chosen_rows(given.cases)
    except BenchError as error:
        print(error, file=sys.stderr)
        return 2
    raise_descriptor_limit()
    settings = settings_of(given)
    summaries, complete = measure_all(rows, settings, console)
    show(summaries, "the other" if given.against else "Mosquitto", console)
    out = given.out or (RESULTS if complete and is_full_run(given, rows) else None)
    if out:
        report.store(out, settings, summaries)
    return 0 if complete else 1


if __name__ == "__main__":
    sys.exit(main())
