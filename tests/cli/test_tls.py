"""The TLS flags of pub and sub, against Mosquitto with a certificate made for the test."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli.program import TIMEOUT_S, braidmq
from tests.support.broker import Broker, free_port

MOSQUITTO = shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin:/usr/bin")
pytestmark = pytest.mark.skipif(
    MOSQUITTO is None or shutil.which("openssl") is None, reason="needs mosquitto and openssl"
)


class Secured(NamedTuple):
    port: int
    certificate: Path
    directory: Path


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A Mosquitto that wants a client certificate; one certificate serves as authority, server and client."""
    directory = tmp_path_factory.mktemp("tls")
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    files = ["-keyout", "key.pem", "-out", "cert.pem"]
    make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    subprocess.run([*make, *subject, *files], cwd=directory, check=True, capture_output=True)
    # Mosquitto run by root gives up its rights before it reads them.
    directory.chmod(0o755)
    (directory / "key.pem").chmod(0o644)
    port = free_port()
    certificate, key = directory / "cert.pem", directory / "key.pem"
    settings = [f"listener {port} 127.0.0.1", "allow_anonymous true", "user root", "require_certificate true"]
    settings += [f"certfile {certificate}", f"keyfile {key}", f"cafile {certificate}"]
    (directory / "mosquitto.conf").write_text("\n".join(settings) + "\n")
    assert MOSQUITTO is not None
    broker = Broker([MOSQUITTO, "-c", str(directory / "mosquitto.conf")], directory, port)
    yield Secured(port, certificate, directory)
    broker.stop()


def flags(secured: Secured, *more: str) -> tuple[str, ...]:
    ours = ("--cert", str(secured.certificate), "--key", str(secured.directory / "key.pem"))
    return ("-p", str(secured.port), "--cafile", str(secured.certificate), *ours, *more)


def test_a_message_goes_out_and_back_over_tls(secured: Secured) -> None:
    kept = braidmq(
        "pub", *flags(secured, "-t", "t", "-m", "secret", "-r", "-q", "1", "--tls-version", "tlsv1.3")
    )
    assert (kept.returncode, kept.stderr) == (0, b"")
    heard = braidmq("sub", *flags(secured, "-t", "t", "-C", "1", "-W", str(TIMEOUT_S)))
    assert heard.stdout == b"secret\n"


def test_a_certificate_for_another_name_is_refused_unless_told_otherwise(secured: Secured) -> None:
    elsewhere = flags(secured, "-h", "127.0.0.1", "-t", "t", "-m", "x", "-q", "1")
    refused = braidmq("pub", *elsewhere)
    assert refused.returncode == 1
    assert b"certificate" in refused.stderr.lower()
    assert braidmq("pub", *elsewhere, "--insecure").returncode == 0


def test_an_authority_that_is_not_trusted_is_refused(secured: Secured) -> None:
    refused = braidmq("pub", "-L", f"mqtts://localhost:{secured.port}/t", "-m", "x")
    assert refused.returncode == 1
    assert b"certificate" in refused.stderr.lower()
