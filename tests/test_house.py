"""House rules that a machine can check: what is tracked, what is documented, what is named."""

import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from braidmq.limits import Limits
from tests.conftest import left_out_line
from tools import configuration_doc

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "braidmq"
THIS_FILE = Path(__file__).relative_to(ROOT)

MACHINE_PATHS = re.compile(r"(?<![\w.])/(?:home|Users|root|work)/\w")
LINES_USUAL = 500
LINES_MAX = 700


def tracked_files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("not a git clone")
    return [Path(name) for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file()]


def texts() -> Iterator[tuple[Path, str]]:
    for path in tracked_files():
        data = (ROOT / path).read_bytes()
        if b"\0" not in data:
            yield path, data.decode("utf-8")


def pyproject() -> dict[str, object]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_no_tracked_file_names_a_path_of_somebodys_machine() -> None:
    found = [str(path) for path, text in texts() if path != THIS_FILE and MACHINE_PATHS.search(text)]
    assert found == []


def test_nothing_built_is_tracked() -> None:
    assert [path for path in tracked_files() if path.suffix in {".so", ".c", ".pyc", ".whl"}] == []


def test_no_test_is_left_to_chance() -> None:
    """`make test` says the same every time; new examples are for `make hunt`."""
    chance = re.compile(r"Random\(\)|urandom|uuid[14]\(|SystemRandom|\bsecrets\.|use_true_random=True")
    tests = {path: text for path, text in texts() if path.parts[0] == "tests" and path.suffix == ".py"}
    allowed = {THIS_FILE, Path("tests/hunt.py")}
    assert [path for path, text in tests.items() if chance.search(text) and path not in allowed] == []


def test_what_was_left_out_is_told_with_its_reason() -> None:
    assert left_out_line(Counter()) == "left out: nothing"
    told = left_out_line(Counter({"no Java": 2, "no Mosquitto": 5}))
    assert told == "left out: 7 tests. 2 for: no Java; 5 for: no Mosquitto"


def test_every_compiled_module_has_a_stub_for_the_type_checker() -> None:
    assert [path for path in SOURCE.rglob("*.pyx") if not path.with_suffix(".pyi").exists()] == []


def test_every_python_file_of_the_package_says_what_it_is_for() -> None:
    texts_by_path = {path: path.read_text() for path in SOURCE.rglob("*.py")}
    silent = [path for path, text in texts_by_path.items() if text and not text.lstrip("r").startswith('"""')]
    assert silent == []


def test_every_limit_is_read_by_the_code_that_enforces_it() -> None:
    rooms = [SOURCE / room for room in ("broker", "net", "node.py", "clustering.py")]
    files = [file for room in rooms for file in ([room] if room.is_file() else room.rglob("*.py*"))]
    code = "\n".join(file.read_text() for file in files if file.suffix in {".py", ".pyx", ".pxd"})
    assert [name for name in Limits.__struct_fields__ if not re.search(rf"\b{name}\b", code)] == []


def test_source_files_stay_small_enough_to_read() -> None:
    files = [*SOURCE.rglob("*.py"), *SOURCE.rglob("*.pyx")]
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in files}
    assert {path: length for path, length in lengths.items() if length > LINES_MAX} == {}
    assert sum(length <= LINES_USUAL for length in lengths.values()) >= 0.9 * len(lengths)


def test_every_dependency_is_pinned_by_a_plain_line() -> None:
    pins = (ROOT / "constraints.txt").read_text().splitlines()
    assert [line for line in pins if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []
    pinned = {_normalised(line.split("==")[0]) for line in pins}
    project = pyproject()["project"]
    assert isinstance(project, dict)
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["dev"], *extras["sim"], *extras["admin"]]
    names = {_normalised(re.match(r"[\w.-]+", line)[0]) for line in wanted}  # type: ignore[index]
    assert names - {"braidmq"} <= pinned


def _normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"])
def test_a_page_names_only_make_targets_and_commands_that_exist(page: str) -> None:
    text = (ROOT / page).read_text()
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`?make ([a-z]+)\b(?=[`\s])", _code(text))) <= targets
    ask = [sys.executable, "-m", "braidmq", "--help"]
    env = {**os.environ, "COLUMNS": "80"}
    listed = subprocess.run(ask, capture_output=True, text=True, check=True, env=env)
    commands = set(re.findall(r"^│ ([a-z-]+) ", listed.stdout, re.MULTILINE))
    assert set(re.findall(r"braidmq ([a-z-]+)", _code(text))) <= commands


def _code(text: str) -> str:
    """The parts of a page that are set as code."""
    return "\n".join(re.findall(r"```.*?```|`[^`\n]+`", text, re.DOTALL))


@pytest.mark.parametrize("page", sorted(path.name for path in ROOT.glob("*.md")))
def test_links_between_pages_lead_somewhere(page: str) -> None:
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", (ROOT / page).read_text())
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_the_page_of_settings_is_what_the_code_says() -> None:
    assert configuration_doc.PAGE.read_text() == configuration_doc.page(), "run make docs"


def test_every_core_room_is_under_the_rule_that_it_knows_no_clock() -> None:
    cores = ("wire", "topics", "access", "broker", "overlay", "cluster")
    contracts = pyproject()["tool"]["importlinter"]["contracts"]  # type: ignore[index]
    watched = next(contract["source_modules"] for contract in contracts if contract["type"] == "forbidden")
    assert {f"braidmq.{room}" for room in cores if (SOURCE / room).is_dir()} <= set(watched)
