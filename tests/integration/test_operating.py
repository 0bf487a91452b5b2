"""A real broker process and its admin API: the port it says it has, traffic that shows, and how it stops."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from braidmq.client import BlockingClient
from tests.cli.program import braidmq, environment, start
from tests.support.broker import Broker, start_braidmq

TOKEN = "a-token-that-is-long-enough"
VERIFIER = "SCRAM-SHA-256$4096:c2FsdA==$c3RvcmVk:c2VydmVy"


@contextmanager
def operated(*flags: str) -> Iterator[tuple[Broker, httpx.Client]]:
    broker = start_braidmq(None, "--admin-port", "0", *flags)
    try:
        with httpx.Client(base_url=broker.admin_address(), timeout=20) as api:
            yield broker, api
    finally:
        broker.stop()


def test_traffic_shows_in_the_api_and_a_kick_reaches_the_client() -> None:
    with operated() as (broker, api), BlockingClient(f"127.0.0.1:{broker.port}", client_id="seen") as client:
        client.publish("a/b", b"x", qos=1)
        shown = api.get("/clients/seen").json()
        assert shown["peer"].startswith("127.0.0.1:")
        assert "braidmq_publishes_received_total 1.0" in api.get("/metrics").text
        assert api.get("/ready").status_code == 200
        assert api.delete("/clients/seen").status_code == 200


def test_without_the_token_nothing_is_told() -> None:
    with operated("--admin-token", TOKEN) as (_, api):
        assert api.get("/health").status_code == 200
        assert api.get("/clients").status_code == 401
        assert api.get("/clients", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_broker_and_its_api(number: signal.Signals) -> None:
    with operated() as (broker, api):
        api.get("/health")  # a connection that is kept open must not hold it up
        broker.process.send_signal(number)
        assert broker.process.wait(20) == 0


def test_an_admin_port_that_is_taken_is_named() -> None:
    with operated() as (_, api):
        port = str(api.base_url.port)
        with pytest.raises(RuntimeError, match=f"127.0.0.1:{port}: Address already in use"):
            start_braidmq(None, "--admin-port", port)


def test_a_trace_shows_what_happens_and_ends_with_the_program() -> None:
    with operated() as (broker, api), BlockingClient(f"127.0.0.1:{broker.port}", client_id="seen") as client:
        port = str(api.base_url.port)
        tracing = start("trace", "--topic", "a/#", "--admin-port", port, "--count", "2")
        try:
            assert tracing.stdout is not None
            assert tracing.stderr is not None
            assert tracing.stderr.readline().startswith(b"following")
            client.publish("a/b", b"xyz", qos=1)
            client.publish("$SYS/a", b"", qos=0)
            client.publish("a/c", b"", qos=0)
            first, second = tracing.stdout.readline().decode(), tracing.stdout.readline().decode()
            assert re.search(r"published +seen a/b QoS 1 id \d+ bytes 3$", first.strip()), first
            assert re.search(r"published +seen a/c QoS 0$", second.strip()), second
            assert tracing.wait(20) == 0
        finally:
            tracing.kill()
            tracing.communicate()


def test_a_broker_that_is_traced_stops_at_once_and_the_trace_says_so() -> None:
    with operated() as (broker, api):
        tracing = start("trace", "--client", "x", "--admin-port", str(api.base_url.port))
        try:
            assert tracing.stderr is not None
            assert tracing.stderr.readline().startswith(b"following")
            broker.process.terminate()
            assert broker.process.wait(20) == 0
            assert "Cancel" not in broker.log()
            assert tracing.wait(20) == 1
            assert b"has ended it" in tracing.stderr.read()
        finally:
            tracing.kill()
            tracing.communicate()


def test_a_trace_that_can_not_be_says_why() -> None:
    with operated("--admin-token", TOKEN) as (_, api):
        port = str(api.base_url.port)
        refused = braidmq("trace", "--client", "x", "--admin-port", port)
        assert (refused.returncode, b"token is missing" in refused.stderr) == (1, True)
        wrong = braidmq("trace", "--topic", "a/#/b", "--admin-port", port, env={"BRAIDMQ_ADMIN_TOKEN": TOKEN})
        assert (wrong.returncode, b"filter" in wrong.stderr) == (1, True)
    assert braidmq("trace", "--client", "x", "--admin-port", port).returncode == 1
    assert braidmq("trace", "--admin-port", port).returncode == 2
    assert braidmq("trace", "--client", "x").returncode == 2


@pytest.mark.parametrize("absent", ["starlette", "uvicorn", "prometheus_client"])
def test_a_broker_without_the_extra_says_what_to_install_and_runs_without_the_api(absent: str) -> None:
    program = f"import sys; sys.modules[{absent!r}] = None; from braidmq.cli.main import main; main()"
    command = [sys.executable, "-c", program, "serve", "--in-memory", "--port", "0"]
    refused = subprocess.run(
        [*command, "--admin-port", "0"], capture_output=True, env=environment(), timeout=60, check=False
    )
    assert refused.returncode == 1
    [line] = refused.stderr.decode().splitlines()
    assert line.startswith(f"braidmq: [admin] needs {absent}")
    assert line.endswith("pip install 'braidmq[admin]'")
    plain = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment())
    try:
        assert plain.stdout is not None
        assert plain.stdout.readline().startswith(b"listening on 127.0.0.1:")
    finally:
        plain.kill()
        plain.communicate()


def test_a_reload_by_the_api_takes_effect_and_shows(tmp_path: Path) -> None:
    path = tmp_path / "broker.toml"
    path.write_text("[auth]\nallow_anonymous = true\n")
    with operated("--config", str(path)) as (_, api):
        assert api.get("/config").json()["auth"]["scram_users"] == {}
        path.write_text(f'[auth.scram_users]\nada = "{VERIFIER}"\n')
        assert api.post("/reload").status_code == 200
        assert api.get("/config").json()["auth"]["scram_users"] == {"ada": "***"}
        path.write_text("[auth]\nallow_anonymos = true\n")
        refused = api.post("/reload")
        assert (refused.status_code, "allow_anonymos" in refused.json()["detail"]) == (409, True)
        assert api.get("/config").json()["auth"]["scram_users"] == {"ada": "***"}
