"""What holds for the whole suite."""

import os
import signal
from collections import Counter
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

# Machines are shared: an example that takes long says something about the neighbours, not about the code.
COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}

# `make test` draws the same examples every time; `make hunt` sets HYPOTHESIS_PROFILE=hunt and draws new ones.
settings.register_profile("suite", derandomize=True, database=None, **COMMON)
settings.register_profile("hunt", max_examples=300, database=None, **COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))

# What a shell runs in the background ignores SIGINT, and with it every program that a test would start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def left_out_line(reasons: Counter[str]) -> str:
    """How many tests did not run, and for what."""
    if not reasons:
        return "left out: nothing"
    why = "; ".join(f"{count} for: {reason}" for reason, count in sorted(reasons.items()))
    return f"left out: {reasons.total()} tests. {why}"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, None, None]:
    """The last line of all, below pytest's own summary."""
    yield
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or hasattr(session.config, "workerinput"):
        return
    skipped = [report.longrepr[2] for report in reporter.stats.get("skipped", ())]
    reporter.ensure_newline()
    reporter.write_line(left_out_line(Counter(reason.removeprefix("Skipped: ") for reason in skipped)))
