"""A fleet process against a real broker: its ledger names what was acknowledged; it ends with its parent."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from braidmq.client import BlockingClient
from braidmq.demo.checks import check_raw, read_arrivals
from braidmq.demo.fleet import FleetReport, FleetTask
from braidmq.demo.ledger import Ledger, read_ledger
from braidmq.demo.plan import FleetPlan, Name, Script
from tests.support.broker import start_braidmq

TIMEOUT_S = 60.0


@pytest.fixture
def address() -> Iterator[str]:
    broker = start_braidmq()
    yield f"127.0.0.1:{broker.port}"
    broker.stop()


def start(task: FleetTask) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen(
        [sys.executable, "-m", "braidmq.demo.fleet"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    process.stdin.write(msgspec.json.encode(task) + b"\n")
    process.stdin.flush()
    return process


def finished(process: "subprocess.Popen[bytes]") -> bytes:
    """What it said by the time that it ended by itself, with its stdin still open."""
    assert process.wait(TIMEOUT_S) == 0
    return process.communicate()[0]


def task(address: str, ledger: Path, seconds: float) -> FleetTask:
    start_ms = round(time.time() * 1_000)
    plan = FleetPlan(seed=5, start_ms=start_ms, seconds=seconds, devices=8, rate=400)
    return FleetTask(
        plan=plan, name="fleet", broker=address, devices=plan.devices_of(0, 2), ledger=str(ledger)
    )


def test_what_is_in_the_ledger_was_published(address: str, tmp_path: Path) -> None:
    with BlockingClient(address) as subscriber:
        subscriber.subscribe("plant/#", qos=1)
        work = task(address, tmp_path / "ledger", 1.0)
        process = start(work)
        received = []
        expected = sum(work.plan.count(device) for device in work.devices)
        while len(received) < expected:
            batch = subscriber.receive_batch(expected, TIMEOUT_S)
            assert len(batch), "messages are missing"
            received += zip(batch.topics, batch.payloads, strict=True)
        output = finished(process)
    promised = read_ledger(tmp_path / "ledger")
    assert promised == {name for name in work.plan.names() if name.device in work.devices}
    assert all(check.passed for check in check_raw(promised, read_arrivals(Script(work.plan), received)))
    last = msgspec.json.decode(output.splitlines()[-1], type=FleetReport)
    assert (last.acknowledged, last.refused, last.done) == (expected, 0, True)


def test_what_nobody_subscribed_to_is_not_promised(address: str, tmp_path: Path) -> None:
    process = start(task(address, tmp_path / "ledger", 0.3))
    output = finished(process)
    assert read_ledger(tmp_path / "ledger") == set()
    assert msgspec.json.decode(output.splitlines()[-1], type=FleetReport).refused > 0


def test_it_ends_when_its_parent_lets_go(address: str, tmp_path: Path) -> None:
    process = start(task(address, tmp_path / "ledger", 3_600))
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdout.readline()
    process.stdin.close()
    assert process.wait(TIMEOUT_S) == 0
    process.stdout.close()


def test_a_line_cut_short_is_no_promise(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger") as ledger:
        ledger.acknowledged([Name(1, 2), Name(3, 4)])
    with (tmp_path / "ledger").open("ab") as file:
        file.write(b"[[5,6],[7")
    assert read_ledger(tmp_path / "ledger") == {Name(1, 2), Name(3, 4)}
