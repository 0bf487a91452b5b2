"""`make hunt`: every property test with new seeds, round after round, until the time is over.

`make test` draws the same examples every time, so that it says the same every time; here new ones are tried.
Each round has a seed, and a failure is told with the one line that repeats it.
"""

import argparse
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
EFFORT: Final = 5  # times the examples of `make test`, where a test can do more
EXAMPLE_TIMEOUT_S: Final = 900  # a test that has found something needs time to make it small
SEED_MAX: Final = 2**32
NOTHING_FAILED: Final = 0
SOME_FAILED: Final = 1


def property_files(root: Path) -> list[str]:
    """The test files that use hypothesis."""
    files = sorted((root / "tests").rglob("test_*.py"))
    return [str(file.relative_to(root)) for file in files if "hypothesis" in file.read_text()]


def pytest_command(seed: int, tests: Sequence[str], *, parallel: bool) -> list[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-m", "hypothesis", f"--hypothesis-seed={seed}"]
    command += [f"--timeout={EXAMPLE_TIMEOUT_S}", "-p", "no:cacheprovider"]
    return [*command, *(["-n", "auto"] if parallel else []), *tests]


def surroundings(effort: int) -> dict[str, str]:
    return {"HYPOTHESIS_PROFILE": "hunt", "HUNT_EFFORT": str(effort)}


def failed_tests(output: str) -> list[str]:
    return re.findall(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)


def repeating_line(seed: int, test: str, effort: int) -> str:
    variables = [f"{name}={value}" for name, value in surroundings(effort).items()]
    return shlex.join([*variables, *pytest_command(seed, [test], parallel=False)])


def run(command: list[str], effort: int, seconds: float) -> tuple[int, str]:
    """The exit code and the output. A round that the end of the time interrupts has found nothing."""
    environment = os.environ | surroundings(effort)
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return NOTHING_FAILED, ""
    return process.returncode, output


def hunt(minutes: float, seeds: Iterable[int], tests: Sequence[str], effort: int = EFFORT) -> int:
    end_s = time.monotonic() + minutes * 60
    lines: dict[str, str] = {}  # by test
    rounds = 0
    for seed in seeds:
        left_s = end_s - time.monotonic()
        if left_s <= 0:
            break
        rounds += 1
        print(f"round {rounds}, seed {seed}, {left_s / 60:.1f} minutes left", flush=True)
        code, output = run(pytest_command(seed, tests, parallel=len(tests) > 1), effort, left_s)
        if code == NOTHING_FAILED:
            continue
        found = failed_tests(output)
        print(output)
        if code != SOME_FAILED or not found:
            return code
        for test in found:
            lines.setdefault(test, repeating_line(seed, test, effort))
            print(f"to repeat it: {lines[test]}", flush=True)
    print(f"{rounds} rounds, {len(lines)} failures")
    for line in lines.values():
        print(f"to repeat it: {line}")
    return SOME_FAILED if lines else NOTHING_FAILED


def new_seeds() -> Iterable[int]:
    chance = random.SystemRandom()
    while True:
        yield chance.randrange(SEED_MAX)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--effort", type=int, default=EFFORT)
    parser.add_argument("tests", nargs="*")
    asked = parser.parse_args()
    return hunt(asked.minutes, new_seeds(), asked.tests or property_files(ROOT), asked.effort)


if __name__ == "__main__":
    sys.exit(main())
