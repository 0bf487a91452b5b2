"""The benchmark of durability as a program, at a size that only shows that it works."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench import durability
from bench.contenders import find_mosquitto


def rows_of(path: Path) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in msgspec.json.decode(path.read_bytes())["rows"]}


def test_a_restart_is_measured_with_and_without_messages(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    assert durability.main(["restart", "--sessions", "20", "--messages", "400", "--out", str(out)]) == 0
    rows = rows_of(out)
    assert rows.keys() == {"restart", "restart-memory"}
    assert rows["restart"]["figure"] > 0
    assert rows["restart"]["verdict"] in ("reached", "short")


@pytest.mark.skipif(find_mosquitto() is None, reason="Mosquitto is not installed")
def test_the_rate_is_measured_for_all_four(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.measure.ATTEMPTS", 1)
    out = tmp_path / "out.json"
    assert durability.main(["rate", "--rounds", "1", "--seconds", "0.2", "--out", str(out)]) == 0
    rows = rows_of(out)
    assert rows.keys() == {"kept", "mosquitto"}
    sides = rows["kept"]["sides"]
    assert sides.keys() == {"in memory", "process", "fsync", "mosquitto"}
    assert all(side["samples"][0]["delivery_ratio"] == 1 for side in sides.values())
