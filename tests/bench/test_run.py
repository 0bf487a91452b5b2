"""The benchmark as a program."""

from pathlib import Path

import msgspec
import pytest

from bench import run
from bench.contenders import find_mosquitto


def test_mosquitto_missing_is_one_line_with_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shutil.which", lambda *args, **kwargs: None)
    assert run.main([]) == 1
    complaint = capsys.readouterr().err
    assert complaint.count("\n") == 1
    assert "apt-get install mosquitto" in complaint


@pytest.mark.skipif(find_mosquitto() is None, reason="Mosquitto is not installed")
class TestWithMosquitto:
    def test_an_unknown_case_is_wrong_usage(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run.main(["--cases", "qos1,qos3"]) == 2
        assert "qos3" in capsys.readouterr().err

    def test_it_measures_and_stores(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("bench.measure.ATTEMPTS", 1)
        out = tmp_path / "out.json"
        given = ["--ours", "mosquitto", "--cases", "qos1,latency", "--rounds", "1", "--seconds", "0.3"]
        assert run.main([*given, "--out", str(out)]) == 0
        rows = {row["name"]: row for row in msgspec.json.decode(out.read_bytes())["rows"]}
        assert rows.keys() == {"qos1", "latency"}
        assert rows["qos1"]["ratio"] > 0
        assert rows["qos1"]["samples"]["ours"]["samples"][0]["delivery_ratio"] == 1
        assert rows["latency"]["rate_per_s"] > 0
