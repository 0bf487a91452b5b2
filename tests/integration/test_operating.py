"""A real broker process and its admin API: the port it says it has, traffic that shows, and how it stops."""

import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from braidmq.client import BlockingClient
from tests.support.broker import POLL_S, Broker, start_braidmq

TOKEN = "a-token-that-is-long-enough"


@contextmanager
def operated(*flags: str) -> Iterator[tuple[Broker, httpx.Client]]:
    broker = start_braidmq(None, "--admin-port", "0", *flags)
    try:
        with httpx.Client(base_url=_admin_address(broker), timeout=20) as api:
            yield broker, api
    finally:
        broker.stop()


def _admin_address(broker: Broker) -> str:
    """It is printed after the listeners' addresses."""
    while broker.running():
        found = re.search(r"listening on (http://127\.0\.0\.1:\d+) \(admin API\)", broker.log())
        if found:
            return found[1]
        time.sleep(POLL_S)
    pytest.fail(broker.log())


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
