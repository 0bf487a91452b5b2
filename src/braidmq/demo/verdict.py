"""Reads the tables that the demo has left, and checks them against the plan and the ledgers."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as ds

from braidmq.demo.checks import (
    Arrivals,
    Check,
    Summary,
    Window,
    check_aggregates,
    check_alert,
    check_clean,
    check_dead_letters,
    check_published,
    check_raw,
    closed_windows,
    expected_windows,
    read_arrivals,
)
from braidmq.demo.pipeline_file import OVERHEATED, READINGS, SILENT, WATERMARK_S, WINDOW_S
from braidmq.demo.plan import Name, Script
from braidmq.spark.pipeline.alerts import RAISED
from braidmq.spark.pipeline.tables import AGGREGATES, ALERTS, DEAD_LETTERS, RAW

WINDOW_MS: Final = WINDOW_S * 1_000
WATERMARK_MS: Final = WATERMARK_S * 1_000

def check_tables(script: Script, promised: set[Name], told: Iterable[str], tables: Path) -> list[Check]:
    """Everything that must hold when the pipeline has stopped; `told` are the alerts that came by MQTT."""
    plan = script.plan
    raw = read_arrivals(script, _columns(tables / RAW, "topic", "payload"))
    dead = read_arrivals(script, _columns(tables / DEAD_LETTERS, "topic", "payload"))
    alerts = _columns(tables / ALERTS, "id", "rule", "device", "state")
    raised = [(rule, device) for _, rule, device, state in alerts if state == RAISED]
    return [
        *check_raw(promised, raw),
        *check_dead_letters(script, raw, dead),
        *check_clean(script, raw, len(_read(tables / "clean" / READINGS, "n"))),
        *_check_windows(script, raw, tables / AGGREGATES),
        *check_alert(SILENT, plan.device_name(plan.silent_device), raised),
        *check_alert(OVERHEATED, plan.device_name(plan.hot_device), raised),
        *check_published([alert[0] for alert in alerts], told),
    ]


def must_close(script: Script) -> int:
    """How many windows there must be when all of the plan has come."""
    return len(closed_windows(script, script.readings, WINDOW_MS, WATERMARK_MS))


def _check_windows(script: Script, raw: Arrivals, table: Path) -> list[Check]:
    columns = ("window_start", "device", "metric", "count", "mean", "min", "max")
    rows = [
        (Window(round(start.timestamp() * 1_000), device, metric), Summary(*values))
        for start, device, metric, *values in _columns(table, *columns)
    ]
    expected = expected_windows(script, raw.counts, WINDOW_MS)
    return check_aggregates(expected, closed_windows(script, raw.counts, WINDOW_MS, WATERMARK_MS), rows)


def _columns(table: Path, *names: str) -> list[tuple[Any, ...]]:
    found = _read(table, *names)
    return list(zip(*(found[name].to_pylist() for name in names), strict=True))


def _read(table: Path, *names: str) -> pa.Table:
    """Some columns of a table; no rows if it has no file yet."""
    files = sorted(str(path) for path in table.rglob("*.parquet"))
    if not files:
        return pa.table({name: pa.array([]) for name in names})
    return ds.dataset(files, format="parquet").to_table(columns=list(names))
