"""Connections that are over, and whose clients do not read the rest: their sockets are in nobody's way."""

import asyncio
import socket

from braidmq.net.sockets import Poller, SocketLink
from braidmq.net.stream import Turn
from braidmq.wire import V5, Connect, Publish, Subscribe, Subscription, encode
from tests.broker.world import World

NONSENSE = b"\xf0\x00"


def dial(poller: Poller) -> socket.socket:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    SocketLink(poller, theirs.detach(), "a test")
    return ours


async def test_they_give_way_to_who_needs_a_socket() -> None:
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
