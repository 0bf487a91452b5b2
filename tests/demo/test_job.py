"""The whole demo, short: brokers, devices, Spark, tables, and a check that can fail."""

import re
import signal
import subprocess
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest

from braidmq.demo.job import PLAN_FILE
from braidmq.demo.ledger import read_ledger
from braidmq.demo.pipeline_file import pipeline_toml
from braidmq.demo.plan import FleetPlan, Name, Script
from braidmq.demo.verdict import check_tables
from braidmq.spark.pipeline.config import load_pipeline
from tests.cli.program import braidmq, command, environment
from tests.spark.conftest import java_is_there

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(600)]
needs_java = pytest.mark.skipif(not java_is_there(), reason="no Java runtime, 17 or newer")
TIMEOUT_S = 400.0


def demo(data: Path, *words: str) -> list[str]:
    return command("demo", "--data-dir", str(data), "--master", "local[2,4]", *words)


@needs_java
def test_the_demo_checks_itself_and_leaves_tables_that_can_be_asked(tmp_path: Path) -> None:
    data = tmp_path / "data"
    shown = subprocess.run(
        demo(data, "--seconds", "20", "--rate", "500"),
        capture_output=True, text=True, timeout=TIMEOUT_S, env=environment(), check=False,
    )  # fmt: skip
    log = (data / "pipeline.log").read_text()
    assert shown.returncode == 0, f"{shown.stdout}\n{shown.stderr}\n{log}"
    verdicts = re.findall(r"^(ok|FAILED)  ", shown.stdout, re.MULTILINE)
    assert verdicts == ["ok"] * 9
    assert "pipeline query" in shown.stdout
    assert _left_running(data) == []
    _check_notices_what_is_missing_or_doubled(data)


def _left_running(data: Path) -> list[str]:
    """Processes that have something of this demo in their command."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(data).encode() in entry.read_bytes():
                found.append(entry.read_text())
        except OSError:
            continue
    return found


def _check_notices_what_is_missing_or_doubled(data: Path) -> None:
    """The tables that were right, with one row taken away and with one twice."""
    plan = msgspec.json.decode((data / PLAN_FILE).read_bytes(), type=FleetPlan)
    script, promised, told = Script(plan), _promised(data), _told(data)

    def failed() -> list[str]:
        checks = check_tables(script, promised, told, data / "tables")
        return [check.text for check in checks if not check.passed]

    assert failed() == []
    raw = next((data / "tables" / "raw").rglob("*.parquet"))
    rows = pq.read_table(raw)
    pq.write_table(rows.slice(1), raw)
    assert any("raw table" in text for text in failed())
    pq.write_table(rows.take([0, *range(len(rows))]), raw)
    assert any("twice" in text for text in failed())


def _promised(data: Path) -> set[Name]:
    return set().union(*(read_ledger(path) for path in data.glob("fleet-*.ledger")))


def _told(data: Path) -> list[str]:
    tables = [pq.read_table(path) for path in (data / "tables" / "alerts").rglob("*.parquet")]
    return [alert_id for table in tables for alert_id in table["id"].to_pylist()]


@needs_java
def test_it_ends_with_all_its_children_when_it_is_told_to(tmp_path: Path) -> None:
    data = tmp_path / "data"
    process = subprocess.Popen(demo(data), stdout=subprocess.PIPE, text=True, env=environment())
    assert process.stdout is not None
    assert any("waiting for Spark" in line for line in process.stdout)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 130
    assert _left_running(data) == []


def test_without_java_it_says_what_to_install(tmp_path: Path) -> None:
    shown = braidmq("demo", "--data-dir", str(tmp_path / "data"), env={"PATH": "", "JAVA_HOME": ""})
    assert shown.returncode == 1
    assert b"openjdk" in shown.stderr
    assert not (tmp_path / "data").exists()


def test_too_short_a_time_is_refused(tmp_path: Path) -> None:
    shown = braidmq("demo", "--seconds", "5", "--data-dir", str(tmp_path))
    assert shown.returncode in (1, 2)
    assert shown.stderr


def test_the_pipeline_file_is_one_that_the_pipeline_takes(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.toml"
    file.write_text(pipeline_toml(["127.0.0.1:1883", "127.0.0.1:1884"], 5.0, 9_000))
    config = load_pipeline(file)
    assert config.sources[0].brokers == ("127.0.0.1:1883", "127.0.0.1:1884")
    assert [rule.name for rule in config.rules] == ["silent", "overheated"]
    assert config.schema("readings").metric_names == ("temperature", "pressure")
