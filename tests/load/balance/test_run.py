"""Live runs, much shortened: real brokers, real members and a real death."""

import asyncio
import sys
from pathlib import Path

import msgspec
import pytest

from braidmq.errors import BraidError
from braidmq.load.balance import brokers
from braidmq.load.balance.outcome import Outcome, summed_up
from braidmq.load.balance.plan import CONTENDERS, TRIALS, Contender, shortened
from braidmq.load.balance.run import run_trial

needs_mosquitto = pytest.mark.skipif(brokers.find_mosquitto() is None, reason="mosquitto is not installed")


def outcome_of(trial_name: str, contender_name: str, seconds: float) -> Outcome:
    trial = shortened(TRIALS[trial_name], seconds)
    contender = trial.with_contender(CONTENDERS[contender_name])
    return summed_up(trial, contender, run_trial(trial, contender))


@needs_mosquitto
def test_mosquitto_takes_turns() -> None:
    outcome = outcome_of("2", "mosquitto", 0.6)
    assert outcome.lost == outcome.doubled == 0
    counts = [member.waits.messages for member in outcome.members]
    assert sum(counts) == outcome.sent
    assert max(counts) - min(counts) <= 1
    assert all(member.work_mean_ms >= 25.0 for member in outcome.members)


def test_adaptive_gives_the_slow_member_less() -> None:
    """Scenario 2, too short for more than a glance."""
    outcome = outcome_of("2", "adaptive", 1.2)
    assert outcome.lost == outcome.doubled == 0
    assert outcome.members[2].waits.messages < 0.3 * outcome.sent


def test_a_member_that_is_killed_loses_nothing() -> None:
    outcome = outcome_of("death", "adaptive", 0.9)
    assert (outcome.lost, outcome.doubled) == (0, 0)
    counts = [member.waits.messages for member in outcome.members]
    assert counts[0] < min(counts[1:])


def test_a_broker_that_cannot_start_is_named() -> None:
    async def start() -> None:
        async with brokers.broker(Contender("x", policy="no such policy")):
            pass

    with pytest.raises(BraidError, match="didn't start"):
        asyncio.run(start())


def test_the_command(tmp_path: Path) -> None:
    path = tmp_path / "out.json"

    async def run() -> bytes:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "braidmq", "load", "balance", "--scenario", "1", "--policy", "round_robin",
            "--seconds", "0.3", "--json", str(path), stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        out, _ = await process.communicate()
        assert process.returncode == 0
        return out

    assert b"1: 25/25/25 ms" in asyncio.run(run())
    assert msgspec.json.decode(path.read_bytes())["command"].endswith("--seconds 0.3")
