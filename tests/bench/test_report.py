"""From runs to verdicts, by hand."""

from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from bench.cases import ROWS, Row
from bench.measure import Measured, Sample, Settings, Side
from bench.report import number, store, summarise, table

THROUGHPUT = Row(name="x", title="a row", kind="throughput", goal=2)


def side(name: str, *values: float, **same: float) -> Side:
    return Side(name, tuple(msgspec.convert({"value": value, **same}, Sample) for value in values))


def measured(row: Row, ours: Side, theirs: Side | None) -> Measured:
    return Measured(row=row, ours=ours, theirs=theirs)


def test_the_ratio_is_that_of_the_medians() -> None:
    ours, theirs = side("ours", 30, 10, 20, cpu_s_per_million=1), side("m", 5, 100, 10, cpu_s_per_million=4)
    summary = summarise(measured(THROUGHPUT, ours, theirs))
    assert (summary.ours, summary.theirs, summary.ratio) == (20, 10, 2)
    assert (summary.verdict, summary.cpu_ratio) == ("reached", 0.25)


@pytest.mark.parametrize(
    ("kind", "goal", "ours", "theirs", "verdict"),
    [
        ("throughput", 25, 24.9, 1.0, "short"),
        ("throughput", 25, 25.0, 1.0, "reached"),
        ("latency", 1, 9.0, 10.0, "reached"),
        ("latency", 1, 11.0, 10.0, "short"),
        ("memory", 8, 8.1, 100.0, "short"),
        ("memory", 8, 7.9, 1.0, "reached"),
        ("match", 3, 2.9, None, "reached"),
        ("match", 3, 3.1, None, "short"),
        ("throughput", 2, 1.0, None, "unknown"),
    ],
)
def test_verdicts(kind: str, goal: float, ours: float, theirs: float | None, verdict: str) -> None:
    row = msgspec.convert({"name": "x", "title": "", "kind": kind, "goal": goal}, Row)
    other = None if theirs is None else side("m", theirs)
    assert summarise(measured(row, side("ours", ours), other)).verdict == verdict


def test_a_broker_that_drops_does_not_go_unnoticed() -> None:
    theirs = side("m", 1.0, delivery_ratio=0.5, refused=3)
    notes = summarise(measured(THROUGHPUT, side("ours", 1.0), theirs)).notes
    assert notes == ("m delivered 50.00%", "m: 3 refused")


def test_a_busy_generator_before_an_idle_broker_is_named() -> None:
    bound = side("ours", 1.0, generator_busy=1.0, broker_busy=0.6)
    honest = side("m", 1.0, generator_busy=1.0, broker_busy=1.0)
    assert summarise(measured(THROUGHPUT, bound, honest)).notes == ("ours: the generator is the limit",)


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0.0, "-"), (1.2345, "1.23"), (999.4, "999"), (12_345.0, "12.3 k"), (8.3e6, "8.3 M")],
)
def test_numbers_have_three_figures(value: float | None, text: str) -> None:
    assert number(value) == text


def test_the_table_and_the_file_hold_what_was_measured(tmp_path: Path) -> None:
    summary = summarise(measured(THROUGHPUT, side("ours", 1.0), side("m", 4.0)))
    console = Console(width=200, record=True, file=(tmp_path / "shown").open("w"))
    console.print(table([summary]))
    assert {"a row", "0.25", "short", "≥ 2"} <= set(map(str.strip, console.export_text().split("│")))
    store(tmp_path / "new" / "out.json", Settings(), [summary])
    stored = msgspec.json.decode((tmp_path / "new" / "out.json").read_bytes())
    assert stored["rows"][0]["ratio"] == 0.25
    assert len(stored["rows"][0]["samples"]["mosquitto"]["samples"]) == 1


def test_every_row_can_be_driven() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)
    for row in ROWS:
        row.load.check()
