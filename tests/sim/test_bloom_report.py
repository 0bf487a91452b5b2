"""What `braidmq sim bloom` writes and says."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from braidmq.cli.sim import sim
from braidmq.errors import ConfigError
from braidmq.sim import optional
from braidmq.sim.bloom import experiment, hierarchy, plot, tables, trial, verdicts
from braidmq.sim.bloom.sweeps import Effort, Row, expected_queries
from braidmq.sim.bloom.trial import METHODS, Parameters, Task, TrialResult

TINY = Effort(sets=2, random_sets=10, matching_sets=1, matching_published=2)


def pretended_trial(task: Task) -> TrialResult:
    """What theory expects, with a spread, at no cost."""
    queries = {method: expected_queries(task.parameters, method) or 1.0 for method in METHODS}
    if task.parameters.levels == 10:
        queries["prefix"] += 0.7 if task.seed % 4 else -2.1
        queries["BFP"] += task.seed % 31 - 15
    return TrialResult(queries, task.published, 0, 0)


@pytest.fixture
def small_world(monkeypatch: pytest.MonkeyPatch) -> None:
    """The experiments' shell around results that cost nothing."""
    monkeypatch.setattr(experiment, "QUICK", TINY)
    monkeypatch.setattr(trial, "run_trial", pretended_trial)
    monkeypatch.setattr(hierarchy, "SUBSCRIPTIONS", 300)


@pytest.mark.usefixtures("small_world")
def test_a_run_writes_tables_figures_and_a_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["bloom", "--figure", "6", "--figure", "hierarchy", "--quick", "--seed", "3"]
    result = sim(
        [*arguments, "--processes", "1", "--out", str(tmp_path / "new")], result_action="return_value"
    )
    assert result == 0
    written = {path.name for path in (tmp_path / "new").iterdir()}
    suffixes = ("csv", "parquet", "png", "svg")
    expected = {f"{name}.{suffix}" for name in ("figure6", "hierarchy") for suffix in suffixes}
    assert written == expected | {"run.json"}
    record = json.loads((tmp_path / "new" / "run.json").read_text())
    assert record["command"] == "braidmq sim bloom --figure 6 --figure hierarchy --seed 3 --quick"
    assert [verdict["holds"] for verdict in record["verdicts"]] == [True] * 3
    shown = capsys.readouterr().out
    assert "29.7" in shown
    assert "1570.0" in shown
    assert "2,047.0" in shown


@pytest.mark.usefixtures("small_world")
def test_the_same_seed_writes_the_same_files(tmp_path: Path) -> None:
    for name in ("one", "two"):
        sim(
            ["bloom", "--figure", "hierarchy", "--quick", "--processes", "1", "--out", str(tmp_path / name)],
            result_action="return_value",
        )
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes(), path.name


def a_row(**changes: object) -> Row:
    row = Row("figure6", "without a match", "n_lv", 10.0, METHODS[0], 100.0, 0.1, 100.0, 10, 10, 0.0, 0.0)
    return replace(row, **changes)  # type: ignore[arg-type]


def test_tables_hold_every_column(tmp_path: Path) -> None:
    parquet = optional.load("pyarrow.parquet", "x", "x")
    rows = [a_row(), a_row(expected=None, missed_share=0.5)]
    tables.write_csv(rows, tmp_path / "t.csv")
    tables.write_parquet(rows, tmp_path / "t.parquet")
    with (tmp_path / "t.csv").open() as file:
        read = list(csv.DictReader(file))
    assert [line["expected"] for line in read] == ["100", ""]
    stored = parquet.read_table(tmp_path / "t.parquet").to_pylist()
    assert [Row(**line) for line in stored] == rows
    assert list(read[0]) == list(stored[0])


def test_a_wrong_average_fails_its_verdict() -> None:
    (verdict,) = verdicts.closed_forms([a_row(), a_row(queries=105.0)])
    assert not verdict.holds
    assert "5.00%" in verdict.found
    near, spread = a_row(queries=100.9), a_row(queries=105.0, standard_error=2.0)
    (verdict,) = verdicts.closed_forms([a_row(), near, spread])
    assert verdict.holds


@pytest.mark.parametrize(("prefix", "holds"), [((30.0, 27.0), True), ((21.0, 20.0), False)])
def test_the_printed_numbers_are_judged(prefix: tuple[float, float], holds: bool) -> None:
    results = [
        TrialResult({"prefix": prefix[number == 3], "BFP": 1565.0 + number, "BF": 2047.0}, 1, 0, 0)
        for number in range(10)
    ]
    parameters = Parameters(experiment.figure6.FIGURE.mode, levels=10)
    found = verdicts.printed_numbers({parameters: results})
    assert [verdict.holds for verdict in found] == [holds, True]


def test_failed_verdicts_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    tables.print_verdicts(Console(), [verdicts.Verdict("claim", "found", holds=False)])
    assert "fails" in capsys.readouterr().out


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(optional.importlib, "import_module", missing)
    with pytest.raises(ConfigError, match="need pyarrow: pip install 'braidmq\\[sim\\]'"):
        tables.write_parquet([], tmp_path / "t.parquet")
    with pytest.raises(ConfigError, match="need matplotlib"):
        plot.draw_sweeps("x", [], tmp_path / "t")
