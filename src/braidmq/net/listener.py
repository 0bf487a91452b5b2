"""TCP listeners: each accepted connection becomes a Link."""

import asyncio
import errno
import socket
from typing import Any

from braidmq.errors import ConfigError
from braidmq.net.stream import Link, Turn

BACKLOG = 4096


class StreamProtocol(asyncio.BufferedProtocol):
    """What the event loop calls; the hot methods are the link's own."""

    __slots__ = ("_link", "buffer_updated", "get_buffer", "resume_writing")

    def __init__(self, turn: Turn) -> None:
        self._link = link = Link(turn)
        # The loop looks these up once; a method of this class in between would cost a call for every read.
        self.get_buffer = link.get_buffer  # type: ignore[method-assign, assignment]
        self.buffer_updated = link.buffer_updated  # type: ignore[method-assign, assignment]
        self.resume_writing = link.resume_writing  # type: ignore[method-assign]

    def connection_made(self, transport: Any) -> None:
        peer = transport.get_extra_info("peername")
        descriptor = transport.get_extra_info("socket").fileno()
        self._link.made(transport, _address(peer), descriptor)

    def pause_writing(self) -> None:
        """The link asks the transport itself how much it holds."""

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._link.lost(exc)


def _address(name: Any) -> str:
    if isinstance(name, tuple) and len(name) >= 2:
        host, port = name[0], name[1]
        return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"
    return str(name)


async def listen(turn: Turn, host: str, port: int) -> tuple[asyncio.Server, list[str]]:
    """Listen at an address; the addresses that it came to."""
    loop = asyncio.get_running_loop()
    try:
        server = await loop.create_server(lambda: StreamProtocol(turn), host, port, backlog=BACKLOG)
    except OSError as error:
        raise ConfigError(_explained(error, host, port)) from error
    return server, [_address(listening.getsockname()) for listening in server.sockets]


def _explained(error: OSError, host: str, port: int) -> str:
    where = f"can't listen on {host}:{port}"
    if isinstance(error, socket.gaierror):
        return f"{where}: there is no such host"
    match error.errno:
        case errno.EADDRINUSE:
            return f"{where}: the port is taken by another process; choose another with --port"
        case errno.EACCES:
            return f"{where}: not permitted; ports below 1024 need root or CAP_NET_BIND_SERVICE"
        case errno.EADDRNOTAVAIL:
            return f"{where}: this machine has no such address"
    return f"{where}: {error.strerror or error}"
