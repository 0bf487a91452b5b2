"""`braidmq pipeline` as far as it needs no Spark."""

import json
from pathlib import Path

import pytest

from braidmq.cli.main import run
from tests.support.broker import start_braidmq

GOOD = """
[pipeline]
location = "tables"
[[source]]
brokers = ["127.0.0.1:1"]
group = "g"
[[schema]]
name = "numbers"
topic = "n/{device}"
fields = { n = "long" }
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "pipeline.toml"
    path.write_text(GOOD)
    return path


def test_status_is_told_to_programs_and_people(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["pipeline", "status", str(file), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["rows"] == {"raw": 0, "numbers": 0, "dead_letters": 0}
    assert run(["pipeline", "status", str(file)]) == 0
    assert "dead_letters" in capsys.readouterr().out


def test_a_query_that_failed_makes_the_exit_code_1(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = file.parent / "tables" / "_pipeline" / "status"
    folder.mkdir(parents=True)
    (folder / "ingest.json").write_text('{"state": "failed", "at_ms": 1, "error": "no space"}')
    assert run(["pipeline", "status", str(file)]) == 1
    assert "no space" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["run", "backfill", "status", "compact"])
def test_a_wrong_file_is_wrong_usage(file: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    file.write_text(GOOD.replace("group", "gruop"))
    assert run(["pipeline", command, str(file)]) == 2
    assert f"{file}:6: [source] gruop: unknown key; did you mean group?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("added", "complaint"),
    [
        ("options = { receiveMaximumm = 5 }", "did you mean receiveMaximum?"),
        ('password_file = "none"', "[source] password_file: none: No such file"),
    ],
)
def test_what_the_source_would_refuse_is_told_before_spark_starts(
    file: Path, capsys: pytest.CaptureFixture[str], added: str, complaint: str
) -> None:
    file.write_text(GOOD.replace('group = "g"', f'group = "g"\n{added}'))
    assert run(["pipeline", "run", str(file)]) == 2
    assert complaint in capsys.readouterr().err


def test_a_schema_is_proposed_or_nothing_came(capsys: pytest.CaptureFixture[str]) -> None:
    broker = start_braidmq()
    try:
        arguments = ["pipeline", "schema", "a/+", "--broker", f"127.0.0.1:{broker.port}", "--seconds", "0.2"]
        assert run(arguments) == 1
        assert "nothing came on a/+ within 0.2 s" in capsys.readouterr().err
        publish = ["pub", "-p", str(broker.port), "-t", "a/x", "-m", '{"n": 1}', "-r", "-q", "1"]
        assert run(publish) == 0
        assert run([*arguments, "--messages", "1", "--json"]) == 0
        proposal = json.loads(capsys.readouterr().out)
        assert (proposal["topic"], proposal["fields"][0][:2]) == ("a/{device}", ["n", "int"])
    finally:
        broker.stop()
