"""Runs the braidmq program as a user would: another process, its output, its exit code."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

TIMEOUT_S = 60.0


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "braidmq", *words]


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Ours, without settings of the person who runs the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BRAIDMQ_")}
    return kept | {"COLUMNS": "100", "PYTHONUNBUFFERED": "1"} | dict(extra or {})


def braidmq(
    *words: str, stdin: bytes = b"", env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end."""
    return subprocess.run(
        command(*words),
        input=stdin,
        capture_output=True,
        timeout=TIMEOUT_S,
        env=environment(env),
        cwd=cwd,
        check=False,
    )


def start(*words: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Start a command and leave it running."""
    pipe = subprocess.PIPE
    return subprocess.Popen(command(*words), stdin=pipe, stdout=pipe, stderr=pipe, env=environment(env))
