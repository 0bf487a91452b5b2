"""What `make hunt` runs, and what it tells of a failure."""

import shlex
import subprocess
from pathlib import Path

import pytest

from tests import hunt

WRONG = """
from hypothesis import given, strategies as st

@given(st.integers())
def test_wrong(number):
    assert number < 1000

def test_no_property():
    raise AssertionError
"""


def test_it_takes_the_files_with_properties() -> None:
    files = hunt.property_files(hunt.ROOT)
    assert "tests/histories/test_histories.py" in files
    assert "tests/test_house.py" not in files


def test_a_failure_is_told_with_the_line_that_repeats_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test_wrong.py").write_text(WRONG)
    assert hunt.hunt(5, [11], [str(tmp_path)], effort=1) == hunt.SOME_FAILED
    told = capsys.readouterr().out
    assert "round 1, seed 11" in told
    assert "1 rounds, 1 failures" in told
    line = told.rstrip().rsplit("to repeat it: ", 1)[1]
    again = subprocess.run(
        ["env", *shlex.split(line)], cwd=hunt.ROOT, capture_output=True, text=True, check=False
    )
    assert again.returncode == hunt.SOME_FAILED, again.stdout
    assert "number=1000" in again.stdout


def test_no_time_is_no_round(capsys: pytest.CaptureFixture[str]) -> None:
    assert hunt.hunt(0, [1], ["tests/none"]) == hunt.NOTHING_FAILED
    assert "0 rounds" in capsys.readouterr().out
