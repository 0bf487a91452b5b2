"""`braidmq demo --broker-only`: its traffic arrives, its check can fail, and it draws only on a terminal."""

import os
import pty
import subprocess

import pytest

from braidmq.demo.traffic import LINES, Traffic
from tests.cli.program import TIMEOUT_S, braidmq, command, environment


def test_everything_arrives_and_is_told_in_plain_lines() -> None:
    # Settings of the user's own broker must not reach the demo's.
    shown = braidmq("demo", "--broker-only", "--seconds", "1.5", env={"BRAIDMQ_LISTENER_HOST": "192.0.2.1"})
    lines = shown.stdout.decode().splitlines()
    assert shown.returncode == 0, lines
    assert shown.stderr == b""
    assert lines[0].startswith("broker on 127.0.0.1:")
    assert "published" in lines[1]
    assert [line[:4] for line in lines[-5:]] == ["ok  "] * 5
    assert "\x1b" not in shown.stdout.decode()


def test_a_terminal_gets_a_table() -> None:
    controller, terminal = pty.openpty()
    wanted = command("demo", "--broker-only", "--seconds", "0.5")
    process = subprocess.Popen(wanted, stdout=terminal, env=environment({"TERM": "xterm"}))
    os.close(terminal)
    shown = b""
    while data := _read(controller):
        shown += data
    os.close(controller)
    assert process.wait(TIMEOUT_S) == 0
    assert "┃".encode() in shown
    assert b"archive has every message" in shown


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65_536)
    except OSError:  # how Linux says that the other side of a terminal has closed
        return b""


@pytest.mark.parametrize("seconds", ["0", "-1"])
def test_a_time_that_is_none_is_refused(seconds: str) -> None:
    assert braidmq("demo", "--broker-only", f"--seconds={seconds}").returncode == 2


def test_the_check_fails_for_a_message_too_few_and_for_one_too_many() -> None:
    traffic = Traffic("127.0.0.1:1")
    for publisher in traffic.publishers:
        publisher.temperatures, publisher.counts = 10, 2
    traffic.dashboard.received = 10 * LINES
    traffic.archive.received = 12 * LINES + LINES
    traffic.workers[0].received = traffic.workers[1].received = LINES
    traffic.newcomer.received = LINES
    assert all(passed for _, passed in traffic.checks())
    for subscriber in (traffic.dashboard, traffic.archive, traffic.newcomer, traffic.workers[0]):
        for change in (-1, 2):
            subscriber.received += change
            assert not all(passed for _, passed in traffic.checks())
        subscriber.received -= 1
