"""Listeners: each accepted connection becomes a Link, over TCP or TLS, bare or in WebSocket frames."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import structlog

from braidmq.broker.broker import Broker
from braidmq.config import Listener
from braidmq.net.accepted import CertifiedLink, address_text, introduce
from braidmq.net.accepting import AcceptingServer, Address
from braidmq.net.binding import BACKLOG, bound_sockets, cant_listen
from braidmq.net.keepalive import keep_alive
from braidmq.net.plain import PlainServer, adopt
from braidmq.net.proxy import HeaderError, read_client
from braidmq.net.sockets import Poller
from braidmq.net.stream import LINGER_S, TransportLink, Turn
from braidmq.net.websocket import WebSocketProtocol

log = structlog.get_logger("braidmq.net")


class Listening(Protocol):
    """What can be stopped: asyncio's server, or ours for TLS and behind a proxy."""

    def close(self) -> None: ...

    async def wait_closed(self) -> None: ...


class StreamProtocol(asyncio.BufferedProtocol):
    """What the event loop calls; the hot methods are the link's own."""

    __slots__ = ("_link", "_peer", "buffer_updated", "get_buffer", "resume_writing")

    def __init__(self, link: TransportLink, peer: str | None) -> None:
        self._link = link
        self._peer = peer  # None: the socket's own
        # The loop looks these up once; a method of this class in between would cost a call for every read.
        self.get_buffer = link.get_buffer  # type: ignore[method-assign, assignment]
        self.buffer_updated = link.buffer_updated  # type: ignore[method-assign, assignment]
        self.resume_writing = link.resume_writing  # type: ignore[method-assign]

    def connection_made(self, transport: Any) -> None:
        # TLS is the transport's business, so only a bare socket is written to directly.
        is_bare = transport.get_extra_info("ssl_object") is None
        descriptor = transport.get_extra_info("socket").fileno() if is_bare else -1
        introduce(self._link, transport, transport, self._peer, descriptor)

    def pause_writing(self) -> None:
        """The link asks the transport itself how much it holds."""

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._link.lost(exc)


MakeProtocol = Callable[[str | None], asyncio.BaseProtocol]


def _protocol_maker(turn: Turn, listener: Listener) -> MakeProtocol:
    """What makes the protocol of an accepted connection, given its client's address behind a proxy."""

    def link() -> TransportLink:
        if listener.client_ca is not None:
            return CertifiedLink(turn, listener.certificate_user)
        return TransportLink(turn)

    if listener.protocol == "websocket":
        return lambda peer: WebSocketProtocol(turn, link(), peer, listener.origins)
    return lambda peer: StreamProtocol(link(), peer)


async def listen(
    turn: Turn, poller: Poller | None, listener: Listener, context: ssl.SSLContext | None
) -> tuple[Listening, list[str]]:
    """Listen at an address, with TLS if there is a context; the addresses that it came to."""
    try:
        server = await _open(turn, poller, listener, context)
    except OSError as error:
        raise cant_listen(error, listener.host, listener.port, "--port") from error
    keep_alive(server.sockets)
    return server, [address_text(listening.getsockname()) for listening in server.sockets]


async def _open(
    turn: Turn, poller: Poller | None, listener: Listener, context: ssl.SSLContext | None
) -> asyncio.Server | AcceptingServer | PlainServer:
    loop = asyncio.get_running_loop()
    make = _protocol_maker(turn, listener)
    is_bare = context is None and listener.protocol == "mqtt"
    if poller is not None and is_bare and not listener.proxy_protocol:
        return PlainServer(partial(adopt, poller), await bound_sockets(listener.host, listener.port))
    if context is None and not listener.proxy_protocol:
        return await loop.create_server(lambda: make(None), listener.host, listener.port, backlog=BACKLOG)
    porch = Porch(turn.broker, make, context, reads_header=listener.proxy_protocol)
    return AcceptingServer(await bound_sockets(listener.host, listener.port), porch.introduce)


class _Arrival:
    """A socket on the porch; it gives way by ending its task."""

    def __init__(self, task: "asyncio.Task[None] | None") -> None:
        self._task = task

    def close(self, why: str) -> None:
        if self._task is not None:
            self._task.cancel(why)


class Porch:
    """Where accepted sockets wait for a PROXY header and a TLS handshake before they are connections."""

    def __init__(
        self, broker: Broker, make: MakeProtocol, context: ssl.SSLContext | None, *, reads_header: bool
    ) -> None:
        self._broker = broker
        self._make = make
        self._reads_header = reads_header
        self._timeout_s = float(broker.limits.connect_timeout_s)
        self._tls: dict[str, Any] = {}
        if context is not None:
            times = {"ssl_handshake_timeout": self._timeout_s, "ssl_shutdown_timeout": LINGER_S}
            self._tls = {"ssl": context, **times}

    async def introduce(self, accepted: socket.socket, peer: Address) -> None:
        arrival = _Arrival(asyncio.current_task())
        self._broker.handshakes += 1
        self._broker.newcomers.add(arrival)
        try:
            if not self._broker.has_room():
                raise OSError("there are no more sockets")
            if self._reads_header:
                peer = await read_client(accepted, self._timeout_s) or peer
            await self._connect(accepted, address_text(peer))
        except (HeaderError, OSError, TimeoutError, asyncio.CancelledError) as error:
            accepted.close()
            log.debug("refused before CONNECT", peer=peer, why=str(error))
        finally:
            self._broker.handshakes -= 1
            self._broker.newcomers.settle(arrival)

    async def _connect(self, accepted: socket.socket, peer: str) -> None:
        loop = asyncio.get_running_loop()
        await loop.connect_accepted_socket(lambda: self._make(peer), accepted, **self._tls)
