"""Connections between nodes: made, refused and ended; what they say is others' business."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from braidmq.broker.lane import Lane
from braidmq.config import ClusterConfig, Place
from braidmq.errors import ConfigError
from braidmq.net.peers import STRANGERS_MAX, PeerLinks, bind
from braidmq.net.sockets import Poller
from braidmq.net.stream import Turn
from braidmq.net.tls import link_contexts
from tests.broker.world import World
from tests.net.certificates import Authority
from tests.support.broker import free_port
from tests.support.raw import TIMEOUT_S

LOOPBACK = Place("127.0.0.1", 0)


class FakeJoint:
    """Takes every link for a client's; notes what it is told."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self.dialled: list[str | None] = []
        self.failures: list[tuple[str, str]] = []

    def open_link(self, shell: Any, dialled: str | None, now: float, source: str) -> Lane:
        self.dialled.append(dialled)
        return self._turn.broker.open(shell, "a peer", now)

    def not_reached(self, address: str, why: str, now: float) -> None:
        self.failures.append((address, why))


class Node:
    def __init__(self, contexts: Any = None, *, has_poller: bool = True) -> None:
        self.broker = World().broker
        self.turn = Turn(self.broker, asyncio.get_running_loop())
        self.poller = Poller(self.turn, 0.0) if has_poller else None
        self.joint = FakeJoint(self.turn)
        self.links = PeerLinks(self.turn, self.poller, self.joint, contexts, peers_max=1)

    async def listen(self) -> list[Place]:
        listening = await bind(LOOPBACK)
        self.links.accept(listening)
        return [Place(*one.getsockname()[:2]) for one in listening]

    async def stop(self) -> None:
        await self.links.close()
        if self.poller is not None:
            self.poller.close()
        self.turn.stop()


@asynccontextmanager
async def two_nodes(contexts: Any = None, *, has_poller: bool = True) -> AsyncIterator[tuple[Node, Node]]:
    one, other = Node(contexts, has_poller=has_poller), Node(contexts, has_poller=has_poller)
    try:
        yield one, other
    finally:
        await one.stop()
        await other.stop()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while not condition():
            await asyncio.sleep(0.005)


def tls_of(authority: Authority, name: str) -> Any:
    files = authority.issue(name, f"{name}.example")
    names = {"certificate": str(files.certificate), "key": str(files.key), "ca": str(authority.path)}
    return link_contexts(ClusterConfig(**names))  # type: ignore[arg-type]


@pytest.fixture(params=["poller", "transport", "tls"])
def kind(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    return {
        "poller": {},
        "transport": {"has_poller": False},
        "tls": {"contexts": tls_of(Authority(tmp_path), "node") if request.param == "tls" else None},
    }[str(request.param)]


async def test_a_link_is_opened_at_both_ends_and_ends_at_both(kind: dict[str, Any]) -> None:
    async with two_nodes(**kind) as (one, other):
        (place,) = await one.listen()
        other.links.dial(place.text)
        other.links.dial(place.text)  # it is under way
        await until(lambda: one.turn.open_links and other.turn.open_links)
        assert one.joint.dialled == [None]
        assert other.joint.dialled == [place.text]
        await one.links.close()
        await until(lambda: not one.turn.open_links and not other.turn.open_links)
        assert other.joint.failures == []


async def test_who_isnt_there_is_told_with_its_reason() -> None:
    async with two_nodes() as (one, _):
        address = f"127.0.0.1:{free_port()}"
        for wrong in (address, "no.such.host.invalid:1", "nonsense"):
            one.links.dial(wrong)
        await until(lambda: len(one.joint.failures) == 3)
        assert dict(one.joint.failures)[address] == "Connection refused"
        one.links.dial(address)  # each time anew
        await until(lambda: len(one.joint.failures) == 4)


async def test_a_certificate_of_another_authority_makes_no_link(tmp_path: Path) -> None:
    for name in ("ours", "theirs"):
        (tmp_path / name).mkdir()
    one = Node(tls_of(Authority(tmp_path / "ours"), "node"))
    other = Node(tls_of(Authority(tmp_path / "theirs"), "node"))
    try:
        (place,) = await one.listen()
        other.links.dial(place.text)
        await until(lambda: other.joint.failures)
        assert other.joint.failures == [(place.text, "TLS: certificate verify failed")]
        assert one.joint.dialled == []
    finally:
        await one.stop()
        await other.stop()


async def test_strangers_dont_take_more_than_their_places() -> None:
    async with two_nodes() as (one, _):
        (place,) = await one.listen()
        strangers = [socket.create_connection(place) for _ in range(STRANGERS_MAX + 10)]
        refused = 8  # two places a peer are beside those of strangers
        try:
            await until(lambda: one.turn.open_links == STRANGERS_MAX + 2)
            loop = asyncio.get_running_loop()
            for stranger in strangers[-refused:]:
                stranger.setblocking(False)
                assert await asyncio.wait_for(loop.sock_recv(stranger, 1), TIMEOUT_S) == b""
            assert one.turn.open_links == STRANGERS_MAX + 2
        finally:
            for stranger in strangers:
                stranger.close()


async def test_a_port_that_is_taken_is_told_with_the_flag_that_chooses_another() -> None:
    async with two_nodes() as (one, _):
        (place,) = await one.listen()
        with pytest.raises(ConfigError, match=r"taken by another process; choose .* --cluster-listen"):
            await bind(place)


async def test_a_node_that_stops_dials_nobody_any_more() -> None:
    async with two_nodes() as (one, other):
        (place,) = await one.listen()
        await other.links.close()
        other.links.dial(place.text)
        other.links.dial(f"127.0.0.1:{free_port()}")
        one.links.dial(place.text)
        await until(lambda: one.turn.open_links == 2)
        assert other.joint.dialled == []
        assert other.joint.failures == []
