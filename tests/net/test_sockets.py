"""Plain sockets that are of no use any more: they are in nobody's way."""

import asyncio
import socket
from collections.abc import Callable

from braidmq.access.rules import Rules
from braidmq.broker.access import BuiltInGate
from braidmq.net.sockets import Poller, SocketLink
from braidmq.net.stream import Turn
from braidmq.wire import V5, Connect, Publish, Subscribe, Subscription, encode
from tests.broker.world import World
from tests.support.raw import TIMEOUT_S

NONSENSE = b"\xf0\x00"


def dial(poller: Poller) -> socket.socket:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    SocketLink(poller, theirs.detach(), "a test")
    return ours


class FaultyGate(BuiltInGate):
    """An error of the broker's own."""

    def may_subscribe(self, user: str | None, client_id: str, filter: str) -> bool:
        raise RuntimeError("not foreseen")


async def test_an_error_ends_one_connection_alone() -> None:
    loop, told = asyncio.get_running_loop(), []
    loop.set_exception_handler(lambda _, context: told.append(str(context["exception"])))
    broker = World(gate=FaultyGate(rules=Rules([]))).broker
    turn = Turn(broker, loop)
    poller = Poller(turn, 0.0)
    unlucky, other = dial(poller), dial(poller)
    try:
        await loop.sock_sendall(
            unlucky, encode(Connect("unlucky"), V5) + encode(Subscribe(1, (Subscription("t"),)), V5)
        )
        await loop.sock_sendall(other, encode(Connect("other"), V5))
        assert (await loop.sock_recv(other, 1))[0] >> 4 == 2
        while await asyncio.wait_for(loop.sock_recv(unlucky, 100), TIMEOUT_S):
            pass
        assert told == ["not foreseen"]
        assert len(broker.connections) == 1
    finally:
        unlucky.close()
        other.close()
        poller.close()
        turn.stop()


async def test_lingerers_give_way_to_who_needs_a_socket() -> None:
    loop, broker = asyncio.get_running_loop(), World().broker
    turn = Turn(broker, loop)
    poller = Poller(turn, 0.0)
    broker.grant_sockets(1)
    wide, late = dial(poller), None
    try:
        await loop.sock_sendall(wide, encode(Connect("wide"), V5))
        await loop.sock_sendall(wide, encode(Publish("r", bytes(1_000_000), retain=True), V5))
        await loop.sock_sendall(wide, encode(Subscribe(1, (Subscription("r"),)), V5) + NONSENSE)
        while broker.connections:
            await asyncio.sleep(0)
        assert len(broker.lingering) == 1
        late = dial(poller)
        assert not broker.lingering
        await loop.sock_sendall(late, encode(Connect("late"), V5))
        assert (await loop.sock_recv(late, 1))[0] >> 4 == 2
        assert broker.refused_connections == 0
    finally:
        wide.close()
        if late is not None:
            late.close()
        poller.close()
        turn.stop()


def test_a_turn_is_finished_once_however_often_it_was_finished_before() -> None:
    class Loop:
        def __init__(self) -> None:
            self.soon: list[Callable[[], None]] = []

        def call_soon(self, action: Callable[[], None]) -> None:
            self.soon.append(action)

        def call_later(self, delay_s: float, action: Callable[[], None]) -> None:
            """The broker's own timers."""

    loop = Loop()
    turn = Turn(World().broker, loop)
    for _ in range(10):
        turn.begun()
        turn.finish()  # as after each reading of sockets
    assert len(loop.soon) == 1
    loop.soon.pop()()
    assert not loop.soon
    turn.begun()
    assert len(loop.soon) == 1
