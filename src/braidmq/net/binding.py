"""Sockets that listen, and what to say when an address can't be had."""

import asyncio
import errno
import socket
from typing import Final

from braidmq.errors import ConfigError

BACKLOG: Final = 4096


async def bound_sockets(host: str, port: int) -> list[socket.socket]:
    """Listening sockets that nothing accepts from yet."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    listening = []
    for family, _, _, _, address in dict.fromkeys(found):
        bound = socket.create_server(address[:2], family=family, backlog=BACKLOG)
        bound.setblocking(False)
        listening.append(bound)
    return listening


def cant_listen(error: OSError, host: str, port: int, flag: str) -> ConfigError:
    """The error as the user should read it; `flag` is what chooses another address."""
    where = f"can't listen on {host}:{port}"
    if isinstance(error, socket.gaierror):
        return ConfigError(f"{where}: there is no such host")
    match error.errno:
        case errno.EADDRINUSE:
            return ConfigError(f"{where}: the port is taken by another process; choose another with {flag}")
        case errno.EACCES:
            return ConfigError(f"{where}: not permitted; ports below 1024 need root or CAP_NET_BIND_SERVICE")
        case errno.EADDRNOTAVAIL:
            return ConfigError(f"{where}: this machine has no such address")
    return ConfigError(f"{where}: {error.strerror or error}")
