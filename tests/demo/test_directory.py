"""The demo's directory: made anew, and never in the place of something else."""

from pathlib import Path

import pytest

from braidmq.demo.directory import prepare
from braidmq.errors import ConfigError


def test_a_second_run_begins_with_nothing(tmp_path: Path) -> None:
    first = prepare(tmp_path / "a" / "data")
    (first / "tables").mkdir()
    (first / "tables" / "x").touch()
    again = prepare(tmp_path / "a" / "data")
    assert not (again / "tables").exists()


def test_an_empty_directory_may_be_taken(tmp_path: Path) -> None:
    assert prepare(tmp_path) == tmp_path


def test_what_somebody_else_has_made_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(ConfigError, match="no demo has made"):
        prepare(tmp_path)
    assert (tmp_path / "thesis.tex").exists()
    with pytest.raises(ConfigError, match="no directory"):
        prepare(tmp_path / "thesis.tex")
