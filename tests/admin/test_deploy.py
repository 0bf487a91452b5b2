"""What is shipped to run a broker names only what exists: settings, flags, files and metrics."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from braidmq.cli.main import app
from braidmq.config import SETTINGS, load_config
from tests.support.broker import start_braidmq

ROOT = Path(__file__).parent.parent.parent
DEPLOY = ROOT / "deploy"


def parses(words: list[str]) -> bool:
    """Whether the program takes this command line."""
    command, bound, _ = app.parse_args(words, exit_on_error=False, print_error=False)
    return command is not None and bound is not None


def test_the_configuration_to_begin_with_is_good() -> None:
    config = load_config(DEPLOY / "braidmq.toml")
    assert not config.auth.allow_anonymous
    assert config.admin.port == 9883


def test_the_unit_runs_commands_that_exist() -> None:
    text = (DEPLOY / "braidmq.service").read_text()
    commands = re.findall(r"^Exec\w+=/opt/braidmq/bin/braidmq (.+)$", text, re.MULTILINE)
    assert len(commands) == 3
    assert all(parses(shlex.split(command)) for command in commands)
    variables = re.findall(r"^Environment=(BRAIDMQ_\w+)=", text, re.MULTILINE)
    assert set(variables) <= {setting.variable for setting in SETTINGS.values()}
    assert "NoNewPrivileges=yes" in text


def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    checker = shutil.which("systemd-analyze")
    if checker is None:
        pytest.skip("systemd-analyze is not installed")
    program = Path(sys.executable).with_name("braidmq")
    unit = tmp_path / "braidmq.service"
    text = (DEPLOY / "braidmq.service").read_text()
    unit.write_text(text.replace("/opt/braidmq/bin/braidmq", str(program)))
    found = subprocess.run([checker, "verify", str(unit)], capture_output=True, text=True, check=False)
    assert found.stderr == ""
    assert found.returncode == 0


def test_the_image_is_made_of_files_that_exist_and_runs_as_nobody_special() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    for line in re.findall(r"^COPY (?!--from)(.+)$", text, re.MULTILINE):
        *sources, _ = line.split()
        assert all((ROOT / source).exists() for source in sources)
    [command] = re.findall(r"^CMD (\[.+\])$", text, re.MULTILINE)
    assert parses(json.loads(command))
    assert re.search(r"^USER braidmq$", text, re.MULTILINE)
    assert set(re.findall(r"(BRAIDMQ_\w+)=", text)) <= {setting.variable for setting in SETTINGS.values()}


def test_the_dashboard_asks_for_metrics_that_a_running_broker_has_and_for_every_drop() -> None:
    dashboard: dict[str, Any] = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
    broker = start_braidmq(None, "--admin-port", "0")
    try:
        shown = httpx.get(f"{broker.admin_address()}/metrics", timeout=20).text
    finally:
        broker.stop()
    known = set(re.findall(r"^(braidmq_\w+)", shown, re.MULTILINE))
    asked = {
        name
        for panel in dashboard["panels"]
        for target in panel["targets"]
        for name in re.findall(r"braidmq_\w+", target["expr"])
    }
    assert len(asked) > 10
    assert asked <= known
    assert "braidmq_messages_dropped_total" in asked
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
