"""How checks are told."""

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from braidmq.demo.checks import Check


def print_checks(checks: Sequence[Check], console: Console) -> int:
    """One line each; the exit code."""
    for check in checks:
        verdict = Text("ok", "green") if check.passed else Text("FAILED", "red")
        console.print(verdict + Text(f"  {check.text}"), highlight=False, soft_wrap=True)
    return 0 if all(check.passed for check in checks) else 1
