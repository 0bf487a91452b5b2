"""Accepts plain TCP connections whose sockets we read ourselves (`sockets`); needs Linux."""

import asyncio
import socket
from collections.abc import Callable
from typing import Final

import structlog

from braidmq.net.accepted import address_text
from braidmq.net.sockets import Poller, SocketLink

log = structlog.get_logger("braidmq.net")

ACCEPTED_AT_A_STRETCH: Final = 64  # before those who are connected have their turn
ACCEPT_PAUSE_S: Final = 0.1


def adopt(poller: Poller, accepted: socket.socket, peer: str) -> None:
    """Make a connection of an accepted socket, which is ours from now on."""
    accepted.setblocking(False)
    accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    SocketLink(poller, accepted.fileno(), peer)
    accepted.detach()  # the link's from now on


class PlainServer:
    """Looks like asyncio's server to those who stop it; `arrived` takes each socket and its address."""

    def __init__(self, arrived: Callable[[socket.socket, str], None], listening: list[socket.socket]) -> None:
        self.sockets = listening
        self._arrived = arrived
        self._loop = asyncio.get_running_loop()
        self._is_closed = False
        self._listen()

    def _listen(self) -> None:
        if not self._is_closed:
            for listening in self.sockets:
                self._loop.add_reader(listening.fileno(), self._accept, listening)

    def _rest(self) -> None:
        for listening in self.sockets:
            self._loop.remove_reader(listening.fileno())

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTED_AT_A_STRETCH):
            try:
                accepted, address = listening.accept()
            except BlockingIOError:
                return
            except ConnectionAbortedError:  # it has gone again
                continue
            except OSError as error:
                # Out of files, most likely: some may be free soon.
                log.warning("can't accept a connection", why=str(error))
                self._rest()
                self._loop.call_later(ACCEPT_PAUSE_S, self._listen)
                return
            self._introduce(accepted, address_text(address))

    def _introduce(self, accepted: socket.socket, peer: str) -> None:
        try:
            self._arrived(accepted, peer)
        except OSError as error:
            accepted.close()
            log.debug("refused before CONNECT", peer=peer, why=str(error))

    def close(self) -> None:
        self._is_closed = True
        self._rest()

    async def wait_closed(self) -> None:
        for listening in self.sockets:
            listening.close()
