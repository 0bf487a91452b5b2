"""Fixtures of the conformance suite: brokers shared by configuration, clients closed after each test.

Tests share a broker, so that a run takes seconds; they are independent because every client id, topic and
group they use is made from `name`, which no other test has.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from braidmq.wire import V5
from tests.conformance.kit import BARE, SMALL
from tests.support.broker import Broker, UnsupportedError, serve, under_test
from tests.support.raw import RawClient

Config = Mapping[str, Mapping[str, object]]
_serial = itertools.count(1)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "mqtt(*ids): the MQTT 5.0 statements that this test shows")
    config.addinivalue_line("markers", "mqtt311(*ids): the MQTT 3.1.1 statements that this test shows")
    config.addinivalue_line("markers", "braidmq_only: shows a promise of BraidMQ beyond the standard")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if under_test() != "braidmq" and item.get_closest_marker("braidmq_only"):
        pytest.skip("a promise of BraidMQ, not of MQTT")


@pytest.fixture(scope="session")
def brokers() -> Iterator[Callable[[Config | None], Broker]]:
    """`brokers(config)` gives a running broker with this configuration, one process per configuration."""
    running: dict[str, Broker] = {}

    def running_broker(config: Config | None = None) -> Broker:
        key = repr(config)
        if key not in running:
            try:
                running[key] = serve(config)
            except UnsupportedError as why:
                pytest.skip(str(why))
        return running[key]

    yield running_broker
    for broker in running.values():
        broker.stop()


@pytest.fixture
def broker(brokers: Callable[[Config | None], Broker]) -> Iterator[Broker]:
    """The broker with default settings. Whatever a test does to it, it has to survive."""
    shared = brokers(None)
    yield shared
    assert shared.running(), f"the broker died:\n{shared.log()}"


@pytest.fixture
def limited(brokers: Callable[[Config | None], Broker]) -> Callable[..., Broker]:
    """`limited(queue_messages_max=3)`: a broker with these limits."""

    def limited_broker(**limits: object) -> Broker:
        return brokers({"limits": limits})

    return limited_broker


@pytest.fixture
def small(limited: Callable[..., Broker]) -> Broker:
    """A broker whose limits are all small enough to be met."""
    return limited(**SMALL, overflow="refuse")


@pytest.fixture
def bare(limited: Callable[..., Broker]) -> Broker:
    """A broker with retained messages and topic aliases turned off."""
    return limited(**BARE)


@pytest.fixture
def name() -> str:
    """A word no other test has: 1 to 23 letters and digits, good for client ids, topics and groups."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw")
    return f"{worker}n{next(_serial)}"


@pytest.fixture
def dial(broker: Broker) -> Iterator[Callable[..., RawClient]]:
    """`dial(version, to=broker)` opens a connection and sends nothing."""
    opened: list[RawClient] = []

    def open_connection(version: int = V5, to: Broker | None = None) -> RawClient:
        opened.append(RawClient((to or broker).port, version))
        return opened[-1]

    yield open_connection
    for client in opened:
        client.close()


@pytest.fixture
def connect(dial: Callable[..., RawClient], name: str) -> Callable[..., RawClient]:
    """`connect(client_id, version=…, to=…, **CONNECT fields and properties)` gives a connected client."""
    serial = itertools.count(1)

    def connected(
        client_id: str | None = None, *, version: int = V5, to: Broker | None = None, **options: Any
    ) -> RawClient:
        client = dial(version, to)
        client.connect(f"{name}c{next(serial)}" if client_id is None else client_id, **options)
        return client

    return connected


@pytest.fixture
def elapse(dial: Callable[..., RawClient], name: str) -> Callable[..., None]:
    """`elapse()` returns when the broker has let a second and a half go by.

    The broker is its own clock: it hangs up on a silent client with a keep alive of one second.
    """
    serial = itertools.count(1)

    def wait(to: Broker | None = None) -> None:
        sand_glass = dial(V5, to)
        sand_glass.connect(f"{name}glass{next(serial)}", keep_alive_s=1)
        sand_glass.drain()

    return wait
