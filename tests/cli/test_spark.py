"""Commands that need Spark, where it is missing."""

import sys
from pathlib import Path

import pytest

from braidmq.cli.main import run


def test_without_pyspark_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "braidmq.spark.session", raising=False)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    assert run(["sim", "bloom", "--spark", "local[1]"]) == 2
    assert "pip install 'braidmq[spark]'" in capsys.readouterr().err


def test_without_java_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert run(["sim", "balance", "--spark", "local[1]"]) == 1
    assert "needs a Java runtime, 17 or newer" in capsys.readouterr().err
