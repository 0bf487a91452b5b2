"""The examples run, and do what they say."""

import signal
import subprocess
import sys
from pathlib import Path

from braidmq.client import BlockingClient
from tests.client.conftest import RunningBroker
from tests.client.waiting import eventually

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(example: str, *arguments: str) -> str:
    command = [sys.executable, str(EXAMPLES / example), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


def test_hello(broker: RunningBroker) -> None:
    assert run("client_hello.py", broker.address).splitlines() == [
        "greetings/hello HELLO", "greetings/bonjour BONJOUR", "greetings/moin MOIN",
    ]


def test_request_response(broker: RunningBroker) -> None:
    assert run("client_request_response.py", broker.address) == "{1: 2, 20: 40, 300: 600}\n"


def test_durable_receiver(broker: RunningBroker, name: str, tmp_path: Path) -> None:
    """Killed in the middle: what was acknowledged is in the file, and the rest comes after a restart."""
    file = tmp_path / name
    example = EXAMPLES / "client_durable_receiver.py"
    command = [sys.executable, str(example), f"{name}/#", str(file), broker.address]
    receiver = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert receiver.stdout is not None
    assert receiver.stdout.readline() == "receiving\n"
    with BlockingClient(broker.address, client_id=f"{name}p") as publisher:
        publisher.publish_many([(f"{name}/x", b"%d" % number) for number in range(1000)])
        eventually(lambda: file.stat().st_size > 0)
        receiver.kill()
        receiver.communicate()
        publisher.publish_many([(f"{name}/x", b"%d" % number) for number in range(1000, 2000)])
        receiver = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        wanted = {b"%d" % number for number in range(2000)}
        eventually(lambda: set(file.read_bytes().splitlines()) == wanted)
        receiver.send_signal(signal.SIGTERM)
        receiver.communicate(timeout=20)
        assert receiver.returncode == 0
