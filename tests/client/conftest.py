"""Brokers for the client's socket tests: Mosquitto and ours, one process each for the whole run.

Tests are independent because each makes its client ids and topics from `name`.
"""

import itertools
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.fake_broker import FakeBroker
from tests.support.broker import Broker, UnsupportedError, start_braidmq, start_mosquitto

BROKERS = ("mosquitto", "braidmq")
QUEUE_MESSAGES = 200_000  # Mosquitto's own bound is 1,000, which the tests' backlogs exceed

_serial = itertools.count(1)


class RunningBroker:
    def __init__(self, kind: str, process: Broker) -> None:
        self.kind = kind
        self.process = process
        self.host = "127.0.0.1"
        self.port = process.port
        self.address = f"{self.host}:{self.port}"


def _start(kind: str) -> Broker:
    limits = {"limits": {"queue_messages_max": QUEUE_MESSAGES}}
    return start_mosquitto(limits) if kind == "mosquitto" else start_braidmq(limits)


@pytest.fixture(scope="session", params=BROKERS)
def broker(request: pytest.FixtureRequest) -> Iterator[RunningBroker]:
    """A real broker; the test runs once for each kind that is there."""
    try:
        process = _start(request.param)
    except UnsupportedError as why:
        pytest.skip(str(why))
    yield RunningBroker(request.param, process)
    process.stop()


@pytest.fixture
def fake() -> Iterator[FakeBroker]:
    with FakeBroker() as running:
        yield running


@pytest.fixture
def name() -> str:
    """A word that no other test has."""
    return f"{os.environ.get('PYTEST_XDIST_WORKER', 'gw')}x{next(_serial)}"


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(certificate, key) of a server named localhost, signed by itself."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed (Debian: apt-get install openssl)")
    directory = tmp_path_factory.mktemp("tls")
    certificate, key = directory / "server.crt", directory / "server.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )
    return certificate, key
