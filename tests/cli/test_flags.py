"""Every flag that the documentation names exists, at the command that it is named for."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from cyclopts import App

from braidmq.cli.main import COMMANDS, app
from braidmq.config import SETTINGS, flag_of

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "deploy").glob("*"))]
MISSING = {"--psk", "--proxy", "--unix"}  # README.md says so
OF_SPARK = {"--py-files"}  # of spark-submit
CALL = re.compile(r"\bbraidmq ([a-z][a-z-]*)(?: ([a-z]+))?([^`|\n]*)")
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]+")
ALONE = re.compile(r"`(--[a-z][a-z0-9-]+)")


def flags_of(command: App) -> set[str]:
    if command.default_command is None:
        return {"--help"}
    arguments = command.assemble_argument_collection()
    return {flag for argument in arguments for flag in argument.names} | {"--help", "--version"}


def commands() -> Iterator[tuple[tuple[str, ...], App]]:
    for name in COMMANDS:
        command = app[name]
        yield (name,), command
        for inner in command:
            if not inner.startswith("-"):
                yield (name, inner), command[inner]


@pytest.fixture(scope="module")
def flags() -> dict[tuple[str, ...], set[str]]:
    return {names: flags_of(command) for names, command in commands()}


def test_every_setting_has_the_flag_that_it_is_said_to_have(flags: dict[tuple[str, ...], set[str]]) -> None:
    assert {flag_of(name).split()[0] for name in SETTINGS} <= flags["serve",]


def test_every_flag_of_the_documentation_exists(flags: dict[tuple[str, ...], set[str]]) -> None:
    wrong = []
    for page in PAGES:
        for number, line in enumerate(page.read_text().splitlines(), start=1):
            wrong += [f"{page.name}:{number}: {flag}" for flag in unknown(line, flags)]
    assert wrong == []


def unknown(line: str, flags: dict[tuple[str, ...], set[str]]) -> Iterator[str]:
    """The flags in a line that the command before them doesn't have, or, of those named alone, none has."""
    for command, inner, rest in CALL.findall(line):
        expected = flags.get((command, inner)) or flags.get((command,))
        if expected is not None:
            yield from set(FLAG.findall(rest)) - expected
    yield from set(ALONE.findall(line)) - set[str]().union(*flags.values()) - MISSING - OF_SPARK
