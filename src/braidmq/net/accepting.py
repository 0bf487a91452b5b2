"""A listener that accepts by itself: where something has to happen before a connection is one.

asyncio's own server tells nobody about connections whose TLS handshake is under way or has failed, and reads
before a PROXY header could be. Here each accepted socket is a task until it is introduced.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

log = structlog.get_logger("braidmq.net")

ACCEPT_PAUSE_S: Final = 0.1

Address = tuple[str, int]


class AcceptingServer:
    """Looks like asyncio's server to those who stop it.

    `introduce` makes a connection of each accepted socket, or closes it, and bounds how many there are.
    """

    def __init__(
        self,
        listening: list[socket.socket],
        introduce: Callable[[socket.socket, Address], Awaitable[None]],
    ) -> None:
        self.sockets = listening
        self._introduce = introduce
        self._waiting: set[asyncio.Future[None]] = set()
        self._accepting = [asyncio.ensure_future(self._accept(each)) for each in listening]

    def close(self) -> None:
        for task in (*self._accepting, *self._waiting):
            task.cancel()

    async def wait_closed(self) -> None:
        await asyncio.gather(*self._accepting, *self._waiting, return_exceptions=True)
        for listening in self.sockets:
            listening.close()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, peer = await loop.sock_accept(listening)
            except OSError as error:
                # Out of files, most likely: some may be free soon.
                log.warning("can't accept a connection", why=str(error))
                await asyncio.sleep(ACCEPT_PAUSE_S)
                continue
            accepted.setblocking(False)
            task = asyncio.ensure_future(self._introduce(accepted, peer[:2]))
            self._waiting.add(task)
            task.add_done_callback(self._waiting.discard)
