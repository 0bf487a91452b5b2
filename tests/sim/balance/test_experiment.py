"""`braidmq sim balance`: what it writes, what it judges, and what it keeps."""

import csv
import json
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from random import Random

import pytest
from rich.console import Console

from braidmq.cli.sim_balance import Scenario, balance
from braidmq.sim.balance import printed, verdicts
from braidmq.sim.balance.experiment import FULL, SCENARIOS, Settings, run
from braidmq.sim.balance.methods import IDEAL, METHODS, TABLE, VALIDATION
from braidmq.sim.balance.named import NAMED
from braidmq.sim.balance.trial import Summary
from braidmq.sim.runner import LocalRunner

pytest.importorskip("matplotlib")

KEPT = Path(__file__).parents[3] / "docs" / "experiments" / "balance"
KEPT_BYTES_MAX = 1024 * 1024


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def test_the_thesis_part_writes_every_figure_and_table(tmp_path: Path) -> None:
    console = Console(file=StringIO(), width=80)
    assert run(Settings(("thesis",), 1, quick=True), LocalRunner(1), tmp_path, console)
    for figure in ("figure43", "figure44", "figure45", "figure46", "figure47"):
        assert {path.suffix for path in tmp_path.glob(f"{figure}.*")} == {".csv", ".png", ".svg"}
    assert [row["messages"] for row in rows_of(tmp_path / "table7.csv")] == ["167", "166", "167"]
    assert len(rows_of(tmp_path / "figure47.csv")) == 1440
    record = json.loads((tmp_path / "run.json").read_text())
    assert record["command"] == "braidmq sim balance --scenario 'thesis' --seed 1 --quick"
    assert all(verdict["holds"] for verdict in record["verdicts"])


def test_the_same_seed_writes_the_same_bytes(tmp_path: Path) -> None:
    for name in ("first", "second"):
        settings = Settings(("burst",), 3, quick=True)
        run(settings, LocalRunner(1), tmp_path / name, Console(file=StringIO()))
    first, second = ({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()}
                     for name in ("first", "second"))  # fmt: skip
    assert first == second


def test_the_command_gives_0_when_the_verdicts_hold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert balance(scenario=("S1",), quick=True, out=tmp_path, processes=1) == 0
    assert "round_robin" in capsys.readouterr().out
    assert {row["method"] for row in rows_of(tmp_path / "named.csv")} == set(TABLE)


def test_the_command_offers_every_scenario() -> None:
    assert set(Scenario.__args__) == {"all", *SCENARIOS}  # type: ignore[attr-defined]


def test_scenarios_are_called_what_they_call_themselves() -> None:
    assert all(make(Random(0)).name == name for name, make in NAMED.items())


def test_the_tables_name_methods_that_exist() -> None:
    assert {*TABLE, *VALIDATION} - {IDEAL} <= set(METHODS)
    assert set(printed.WAITS_MS) == set(TABLE)


# -- verdicts --------------------------------------------------------------------------------------------


def summary(wait_ms: float) -> Summary:
    return Summary(wait_ms, wait_ms, wait_ms, wait_ms, 0.0, 1)


def named_results(changed: Mapping[tuple[str, str], float]) -> dict[tuple[str, str], Summary]:
    return {
        (name, method): summary(changed.get((name, method), mean))
        for method, cells in printed.WAITS_MS.items()
        for name, (mean, _) in cells.items()
    }


def test_a_result_that_is_off_is_found_and_named() -> None:
    results = named_results({("slow", "adaptive"): 9.0})
    failing = [each for each in verdicts.named(results, dict.fromkeys(results, 0.0)) if not each.holds]
    assert [(each.claim.split(":")[0], each.found) for each in failing] == [("adaptive", "slow 9 for 7.6 ms")]


def test_chance_excuses_only_as_much_as_it_explains() -> None:
    results = named_results({("S2", "status"): 24.0})
    for error_ms, holds in ((0.5, False), (2.0, True)):
        found = verdicts.named(results, dict.fromkeys(results, error_ms))
        assert next(each for each in found if each.claim.startswith("status:")).holds is holds


def test_the_validation_verdicts_can_fail() -> None:
    good = verdicts.Ratios("x", 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0)
    bad = verdicts.Ratios("x", 9.0, 9.0, 90.0, 9.0, 9.0, 0.0, 0.0)
    found = verdicts.validation(dict.fromkeys(VALIDATION, good) | {"adaptive": bad, "adaptive, receipt": bad})
    assert [each.holds for each in found] == [False, False, False, False]


# -- what is kept ----------------------------------------------------------------------------------------


def test_the_results_that_are_kept_are_of_a_full_run_and_hold() -> None:
    record = json.loads((KEPT / "run.json").read_text())
    assert record["command"] == Settings(SCENARIOS, record["seed"], quick=False).command
    assert record["effort"]["validation_scenarios"] == FULL.validation_scenarios
    assert [verdict for verdict in record["verdicts"] if not verdict["holds"]] == []
    assert sum(path.stat().st_size for path in KEPT.iterdir()) < KEPT_BYTES_MAX
