"""Write docs/conformance.md: every normative statement of MQTT beside the tests that show it.

`python tools/conformance_doc.py` writes the page, `--check` only says whether it is up to date. Statements
and reasons come from tests/conformance/statements.toml, the tests from their markers as pytest collects them.
Exit code 1: the page is old, a marker names an unknown statement, or a statement has neither test nor reason.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tomllib
from collections import defaultdict
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
SUITE = ROOT / "tests" / "conformance"
PAGE = ROOT / "docs" / "conformance.md"

CHAPTERS = {
    "1": "Data representation",
    "2": "Packet format",
    "3.1": "CONNECT",
    "3.2": "CONNACK",
    "3.3": "PUBLISH",
    "3.4": "PUBACK",
    "3.5": "PUBREC",
    "3.6": "PUBREL",
    "3.7": "PUBCOMP",
    "3.8": "SUBSCRIBE",
    "3.9": "SUBACK",
    "3.10": "UNSUBSCRIBE",
    "3.11": "UNSUBACK",
    "3.12": "PINGREQ",
    "3.14": "DISCONNECT",
    "3.15": "AUTH",
    "4.1": "Session state",
    "4.2": "Network connections",
    "4.3": "Quality of service",
    "4.4": "Message delivery retry",
    "4.5": "Message receipt",
    "4.6": "Message ordering",
    "4.7": "Topic names and filters",
    "4.8": "Subscriptions",
    "4.9": "Flow control",
    "4.12": "Enhanced authentication",
    "4.13": "Handling errors",
    "6": "WebSocket",
}


class Statement(NamedTuple):
    id: str
    who: str
    says: str
    untested: str
    tests: tuple[str, ...]

    @property
    def section(self) -> str:
        first, second = self.id.removeprefix("MQTT-").replace("-", ".").split(".")[:2]
        return f"{first}.{second}" if first in "34" else first


class Collector:
    """A pytest plugin that notes which tests carry which statements."""

    def __init__(self) -> None:
        self.tests: dict[str, dict[str, set[str]]] = {
            "mqtt": defaultdict(set),
            "mqtt311": defaultdict(set),
        }

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            name = item.nodeid.split("[")[0].removeprefix("tests/conformance/")
            for marker, statements in self.tests.items():
                for mark in item.iter_markers(marker):
                    for statement in mark.args:
                        statements[statement].add(name)


def collect() -> Collector:
    collector = Collector()
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = pytest.main(
            ["--collect-only", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(SUITE)], [collector]
        )
    if code != pytest.ExitCode.OK:
        raise SystemExit(f"pytest can't collect the suite:\n{said.getvalue()}")
    return collector


def load(table: str, tests: dict[str, set[str]]) -> list[Statement]:
    listed = tomllib.loads((SUITE / "statements.toml").read_text())[table]
    return [
        Statement(
            name, entry["who"], entry["says"], entry.get("untested", ""), tuple(sorted(tests.get(name, ())))
        )
        for name, entry in listed.items()
    ]


def faults(statements: list[Statement], tests: dict[str, set[str]]) -> list[str]:
    known = {statement.id for statement in statements}
    unknown = [f"a test names {name}, which is not in statements.toml" for name in sorted(set(tests) - known)]
    bare = [
        f"{each.id} has neither a test nor a reason to have none"
        for each in statements
        if not each.tests and not each.untested
    ]
    both = [
        f"{each.id} has a test and a reason to have none"
        for each in statements
        if each.tests and each.untested
    ]
    return [*unknown, *bare, *both]


def link(test: str) -> str:
    module, _, function = test.partition("::")
    return f"[{function.removeprefix('test_').replace('_', ' ')}](../tests/conformance/{module})"


def rows(statements: list[Statement]) -> list[str]:
    lines: list[str] = []
    for section, members in groupby(statements, key=lambda each: each.section):
        lines += [f"### {section} {CHAPTERS[section]}", ""]
        lines += ["| statement | binds | says | shown by |", "|---|---|---|---|"]
        for each in members:
            shown = "<br>".join(link(test) for test in each.tests) or f"*no test: {each.untested}*"
            lines.append(f"| {each.id} | {each.who} | {each.says} | {shown} |")
        lines.append("")
    return lines


def summary(name: str, statements: list[Statement]) -> str:
    server = [each for each in statements if each.who != "client"]
    tested, server_tested = (sum(bool(each.tests) for each in group) for group in (statements, server))
    return f"| {name} | {len(statements)} | {tested} | {len(server)} | {server_tested} |"


def page(mqtt5: list[Statement], mqtt311: list[Statement]) -> str:
    functions = {test for each in (*mqtt5, *mqtt311) for test in each.tests}
    untested = [each for each in (*mqtt5, *mqtt311) if not each.tests]
    lines = [
        "# MQTT conformance",
        "",
        "Every normative statement of MQTT 5.0, and those of MQTT 3.1.1 that a broker has to honour as well,",
        "with the tests that show them at a running broker. The statements are told in our own words; the",
        "identifiers are those of the OASIS standards. `python tools/conformance_doc.py` writes this page.",
        "",
        "| | statements | with a test | binding a server | of these with a test |",
        "|---|---|---|---|---|",
        summary("MQTT 5.0", mqtt5),
        summary("MQTT 3.1.1", mqtt311),
        "",
        f"{len(functions)} test functions carry a statement: `pytest tests/conformance -n auto` runs them,",
        "and `BRAIDMQ_TEST_BROKER=mosquitto` puts Mosquitto in the broker's place, to check the tests.",
        "",
        "## Statements without a test",
        "",
        "| statement | binds | says | why |",
        "|---|---|---|---|",
        *(f"| {each.id} | {each.who} | {each.says} | {each.untested} |" for each in untested),
        "",
        "## MQTT 5.0",
        "",
        *rows(mqtt5),
        "## MQTT 3.1.1",
        "",
        *rows(mqtt311),
    ]
    return "\n".join(lines).rstrip() + "\n"


def main(arguments: list[str]) -> int:
    sys.path.insert(0, str(ROOT))
    tests = collect().tests
    mqtt5, mqtt311 = load("mqtt5", tests["mqtt"]), load("mqtt311", tests["mqtt311"])
    problems = faults(mqtt5, tests["mqtt"]) + faults(mqtt311, tests["mqtt311"])
    text = page(mqtt5, mqtt311)
    if "--check" not in arguments:
        PAGE.write_text(text)
    elif not PAGE.exists() or PAGE.read_text() != text:
        problems.append("docs/conformance.md is old: run python tools/conformance_doc.py")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
