"""Every kind of client reports its status to our broker, whose API shows what it knows."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from paho.mqtt.client import Client as PahoClient
from paho.mqtt.client import MQTTv311
from paho.mqtt.enums import CallbackAPIVersion

from braidmq.client import BlockingClient, Client, StatusReporting
from braidmq.client.paho import report_status
from braidmq.wire import V5, V311
from tests.client.waiting import eventually, until
from tests.support.broker import Broker, start_braidmq

OFTEN = {"groups": {"status_interval_ms": 50, "status_topic": True}}
BY_PUBLISH = StatusReporting(carrier="publish")
EXAMPLE = Path(__file__).parents[2] / "examples" / "paho_status" / "worker.py"


class Watched:
    """A broker that is asked what it knows of the members of its groups."""

    def __init__(self, broker: Broker) -> None:
        self.port = broker.port
        self.address = f"127.0.0.1:{broker.port}"
        self._api = httpx.Client(base_url=broker.admin_address(), timeout=20)

    def members(self) -> dict[str, dict[str, Any]]:
        groups = self._api.get("/groups").raise_for_status().json()["items"]
        return {member["client_id"]: member for group in groups for member in group["members"]}

    def knows(self, client_id: str, **expected: object) -> bool:
        state = self.members().get(client_id, {})
        return bool(state) and all(state[name] == value for name, value in expected.items())

    def close(self) -> None:
        self._api.close()


@pytest.fixture(scope="module")
def watched() -> Iterator[Watched]:
    broker = start_braidmq(OFTEN, "--admin-port", "0")
    asked = Watched(broker)
    yield asked
    asked.close()
    broker.stop()


async def test_asyncio(watched: Watched) -> None:
    async with Client(watched.address, client_id="a") as member, Client(watched.address) as publisher:
        await member.subscribe("$share/g/jobs", qos=1)
        for _ in range(4):
            await publisher.publish("jobs", b"x", qos=1)
        await until(lambda: member.session.queued_messages >= 2)
        await until(lambda: watched.knows("a", reported_queue=member.session.queued_messages))
        assert watched.knows("a", acks_when_processed=True)


@pytest.mark.parametrize(
    ("version", "status"), [(V5, StatusReporting()), (V5, BY_PUBLISH), (V311, BY_PUBLISH)]
)
def test_blocking(watched: Watched, version: int, status: StatusReporting) -> None:
    with BlockingClient(watched.address, client_id="b", version=version, status=status) as member:
        member.subscribe("$share/g/jobs", qos=1)
        member.report(17, 0.25)
        eventually(lambda: watched.knows("b", reported_queue=17, service_ms=250.0))


def test_acknowledging_by_hand_is_declared_by_who_means_it(watched: Watched) -> None:
    with BlockingClient(watched.address, client_id="silent", manual_ack=True) as silent:
        silent.subscribe("$share/g/jobs", qos=1)
        assert watched.knows("silent", acks_when_processed=False)
    with BlockingClient(watched.address, client_id="open", manual_ack=True, acks_when_processed=True) as told:
        told.subscribe("$share/g/jobs", qos=1)
        assert watched.knows("open", acks_when_processed=True)


def test_paho_without_properties(watched: Watched) -> None:
    member = PahoClient(CallbackAPIVersion.VERSION2, client_id="p", protocol=MQTTv311)
    member.on_message = lambda client, userdata, message: None
    status = report_status(member, "p", interval_s=0.05, asks=False)
    member.connect("127.0.0.1", watched.port)
    member.loop_start()
    try:
        member.subscribe("$share/g/jobs", qos=1)
        eventually(lambda: watched.knows("p", reported_queue=0))
    finally:
        member.disconnect()
        member.loop_stop()
        status.stop()


def test_the_example_with_paho(watched: Watched) -> None:
    """Two workers share the work, and the broker knows both."""
    command = [sys.executable, str(EXAMPLE), "--port", str(watched.port)]
    workers = [subprocess.Popen([*command, name], stdout=subprocess.PIPE, text=True) for name in ("w0", "w1")]
    try:
        for name in ("w0", "w1"):
            eventually(lambda: watched.knows(name, reported_queue=0, acks_when_processed=True))  # noqa: B023
        with BlockingClient(watched.address) as publisher:
            publisher.publish_many([("jobs/1", f"{number}") for number in range(40)])

        def all_done() -> bool:
            states = [watched.members()[name] for name in ("w0", "w1")]
            given = sum(state["given_messages"] for state in states)
            return given == 40 and not any(state["in_flight_messages"] for state in states)

        eventually(all_done)
        assert all(watched.members()[name]["service_ms"] >= 20 for name in ("w0", "w1"))
    finally:
        for worker in workers:
            worker.terminate()
    lines = [line for worker in workers for line in worker.communicate(timeout=20)[0].splitlines()]
    assert sorted(lines) == sorted(f"jobs/1 {number}" for number in range(40))
