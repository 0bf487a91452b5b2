"""Receivers seen from outside: their reports, and one that is held up."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from braidmq.demo.receivers import Receiver, find_receiver, parse_receivers, read_receivers, slow_down
from tests.support.broker import free_port

REPORT = """\
# HELP braidmq_spark_receiver_connected x
# TYPE braidmq_spark_receiver_connected gauge
braidmq_spark_receiver_connected{subscriber="b-0"} 1.0
braidmq_spark_receiver_connected{subscriber="a-0"} 0.0
# HELP braidmq_spark_receiver_rows_total x
# TYPE braidmq_spark_receiver_rows_total counter
braidmq_spark_receiver_rows_total{subscriber="b-0"} 1200.0
braidmq_spark_receiver_rows_total{subscriber="a-0"} 7.0
"""


def test_reports_are_read_by_subscriber() -> None:
    assert parse_receivers(REPORT) == [Receiver("a-0", False, 7), Receiver("b-0", True, 1_200)]


def test_nobody_who_answers_is_no_receiver() -> None:
    assert read_receivers(free_port()) == []


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are found by /proc")
async def test_a_receiver_is_found_and_held_up_and_runs_on() -> None:
    command = [sys.executable, "-c", "import sys; print('up', flush=True); sys.stdin.read()", "the-receiver"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        assert find_receiver(os.getsid(0), "the-receiver") is None
        assert find_receiver(process.pid, "another") is None
        assert find_receiver(process.pid, "the-receiver") == process.pid
        slowing = asyncio.create_task(slow_down(process.pid, 60.0))
        while _state(process.pid) != "T":
            await asyncio.sleep(0.01)
        slowing.cancel()
        await asyncio.wait([slowing])
        while _state(process.pid) == "T":
            await asyncio.sleep(0.01)
    finally:
        process.kill()
        process.communicate()


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
