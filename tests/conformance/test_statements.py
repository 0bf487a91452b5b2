"""The list of statements is whole, every one a server must honour has a test or a reason, the page is new."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# How many statements each section of the standard's summary has: the list can't lose one unnoticed.
STATEMENTS_OF_MQTT_5 = {
    "1.5": 5, "2.1": 1, "2.2": 6, "3.1": 50, "3.2": 24, "3.3": 43, "3.4": 3, "3.5": 3, "3.6": 4, "3.7": 3,
    "3.8": 14, "3.9": 4, "3.10": 9, "3.11": 4, "3.12": 1, "3.14": 9, "3.15": 4, "4.1": 2, "4.2": 1,
    "4.3": 19, "4.4": 2, "4.5": 2, "4.6": 6, "4.7": 8, "4.8": 6, "4.9": 3, "4.12": 9, "4.13": 2, "6.0": 4,
}


def test_no_statement_is_missing_from_the_list() -> None:
    listed = tomllib.loads((ROOT / "tests" / "conformance" / "statements.toml").read_text())["mqtt5"]
    counted: dict[str, int] = {}
    for statement in listed:
        section = ".".join(statement.removeprefix("MQTT-").replace("-", ".").split(".")[:2])
        counted[section] = counted.get(section, 0) + 1
    assert counted == STATEMENTS_OF_MQTT_5


def test_every_statement_has_a_test_or_a_reason_and_the_page_says_so() -> None:
    command = [sys.executable, str(ROOT / "tools" / "conformance_doc.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
