"""Runs the admin API in the broker's event loop, on a port of its own."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from braidmq.admin.app import make_app
from braidmq.admin.desk import Desk
from braidmq.admin.metrics import Metrics
from braidmq.errors import ConfigError

GOODBYE_S: Final = 1  # how long running requests may take when the broker stops
BACKLOG: Final = 128
CONNECTIONS_MAX: Final = 64  # half of the files that are kept back
SILENCE_S: Final = 10.0  # how long a caller may take for its first request


class BoundedProtocol(H11Protocol):
    """HTTP for a few callers at a time: files that they would use up are the clients' and the store's."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > CONNECTIONS_MAX:
            transport.close()
        else:
            self.loop.call_later(SILENCE_S, self._close_if_silent)

    def _close_if_silent(self) -> None:
        """uvicorn waits without end for a first request."""
        if self.cycle is None and not self.transport.is_closing():
            self.transport.close()


class _Server(uvicorn.Server):
    """Signals are the node's to handle."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class AdminServer:
    """The admin API, listening."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._metrics = Metrics(desk)
        settings = uvicorn.Config(
            make_app(desk, self._metrics),
            http=BoundedProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            backlog=BACKLOG,
            timeout_graceful_shutdown=GOODBYE_S,
        )
        self._server = _Server(settings)
        self._socket = _bound(desk.config.admin.host, desk.config.admin.port or 0)
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def address(self) -> str:
        host, port = self._socket.getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def start(self) -> None:
        self._tasks = [
            asyncio.create_task(self._server.serve([self._socket])),
            asyncio.create_task(self._metrics.watch_lag()),
        ]

    async def stop(self) -> None:
        serving, watching = self._tasks
        watching.cancel()
        self._desk.end_streams()
        self._server.should_exit = True
        await serving
        self._socket.close()


def _bound(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
    except OSError as error:
        raise ConfigError(f"[admin] can't listen on {host}:{port}: {error.strerror}") from error
    listening.listen(BACKLOG)
    return listening
