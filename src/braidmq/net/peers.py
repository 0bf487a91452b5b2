"""Connections between nodes: dials and accepts them, over TCP or TLS, and decides nothing.

Each is a `Link` like a client's, whose lane is made by the node's joint (`clustered`). Plain sockets are read
by the poller that reads the clients', so that a forwarded message costs what a delivered one does.
"""

import asyncio
import os
import socket
import ssl
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

import structlog

from braidmq.broker.lane import Lane
from braidmq.config import Place, parse_place
from braidmq.net.accepted import address_text
from braidmq.net.accepting import AcceptingServer, Address
from braidmq.net.binding import bound_sockets, cant_listen
from braidmq.net.keepalive import keep_alive
from braidmq.net.listener import StreamProtocol
from braidmq.net.sockets import Poller, SocketLink
from braidmq.net.stream import LINGER_S, Link, TransportLink, Turn, clock_s
from braidmq.net.tls import LinkContexts

log = structlog.get_logger("braidmq.net")

CONNECT_S: Final = 10.0  # for the connection and its TLS handshake; the nodes' own has as long again
STRANGERS_MAX: Final = 64  # links beyond two a peer: of those who have yet to prove who they are

OpenLane = Callable[[Any, str, float], Lane]  # link, address of the other end, now


class Joint(Protocol):
    """Who has to be told of connections: `clustered.Node`."""

    def open_link(self, shell: Any, dialled: str | None, now: float, source: str) -> Lane: ...

    def not_reached(self, address: str, why: str, now: float) -> None: ...


class PlainPeerLink(SocketLink):
    """A plain socket to a peer, among `links` while it is open."""

    __slots__ = ("_links",)

    def __init__(
        self, poller: Poller, descriptor: int, peer: str, open_lane: OpenLane, links: set[Link]
    ) -> None:
        self._links = links
        links.add(self)
        super().__init__(poller, descriptor, peer, open_lane)

    def lost(self, error: Exception | None) -> None:
        self._links.discard(self)
        super().lost(error)


class EncryptedPeerLink(TransportLink):
    """A TLS connection to a peer, among `links` while it is open."""

    __slots__ = ("_links",)

    def __init__(self, turn: Turn, open_lane: OpenLane, links: set[Link]) -> None:
        super().__init__(turn, open_lane)
        self._links = links
        links.add(self)

    def lost(self, error: Exception | None) -> None:
        self._links.discard(self)
        super().lost(error)


async def bind(place: Place) -> list[socket.socket]:
    """Sockets that listen for other nodes; nothing accepts from them yet."""
    try:
        listening = await bound_sockets(place.host, place.port)
    except OSError as error:
        raise cant_listen(error, place.host, place.port, "--cluster-listen") from error
    keep_alive(listening)
    return listening


class PeerLinks:
    """All connections of one node with others; `contexts` are TLS's for accepting and for dialling."""

    def __init__(
        self,
        turn: Turn,
        poller: Poller | None,
        joint: Joint,
        contexts: LinkContexts | None,
        peers_max: int,
    ) -> None:
        self._turn = turn
        self._poller = poller
        self._joint = joint
        self._contexts = contexts
        self._links_max = 2 * peers_max + STRANGERS_MAX
        self._links: set[Link] = set()
        self._dialling: dict[str, asyncio.Task[None]] = {}
        self._server: AcceptingServer | None = None
        self._is_closed = False

    # ---- being dialled -------------------------------------------------------------------------------

    def accept(self, listening: list[socket.socket]) -> None:
        """Accept connections from sockets of `bind`."""
        self._server = AcceptingServer(listening, self._introduce)

    async def _introduce(self, accepted: socket.socket, peer: Address) -> None:
        if len(self._links) >= self._links_max:
            accepted.close()
            log.warning("a link is refused: there are too many", peer=address_text(peer))
            return
        try:
            await self._adopt(accepted, address_text(peer), None)
        except (OSError, TimeoutError) as error:
            accepted.close()
            log.debug("a link is refused before it is one", peer=address_text(peer), why=str(error))

    # ---- dialling ------------------------------------------------------------------------------------

    def dial(self, address: str) -> None:
        """Connect to an address; the joint is told of a link, or why there is none."""
        if not self._is_closed and address not in self._dialling:
            self._dialling[address] = asyncio.ensure_future(self._dial(address))

    async def _dial(self, address: str) -> None:
        try:
            async with asyncio.timeout(CONNECT_S):
                await self._connect(address)
        except (OSError, TimeoutError) as error:
            self._joint.not_reached(address, _in_words(error), clock_s())
            self._turn.begun()
        finally:
            del self._dialling[address]

    async def _connect(self, address: str) -> None:
        place = parse_place(address)
        if place is None:
            raise OSError(f"{address!r} is no address")
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM)
        failure = OSError("there is no such address")
        for family, kind, protocol, _, target in found:
            connecting = socket.socket(family, kind, protocol)
            connecting.setblocking(False)
            try:
                await loop.sock_connect(connecting, target)
                keep_alive([connecting])
                await self._adopt(connecting, address, address)
                return
            except OSError as error:
                connecting.close()
                failure = error
            except BaseException:
                connecting.close()
                raise
        raise failure

    # ---- both ----------------------------------------------------------------------------------------

    async def _adopt(self, connected: socket.socket, peer: str, dialled: str | None) -> None:
        """Make a link of a connected socket."""

        def open_lane(link: Any, peer: str, now: float) -> Lane:
            return self._joint.open_link(link, dialled, now, peer)

        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._contexts is None and self._poller is not None:
            PlainPeerLink(self._poller, connected.fileno(), peer, open_lane, self._links)
            connected.detach()  # the link's from now on
            return
        link = EncryptedPeerLink(self._turn, open_lane, self._links)
        try:
            await self._encrypt(connected, StreamProtocol(link, peer), is_dialled=dialled is not None)
        except BaseException:
            self._links.discard(link)  # it never came to be
            raise

    def _encrypt(
        self, connected: socket.socket, protocol: StreamProtocol, *, is_dialled: bool
    ) -> Coroutine[Any, Any, object]:
        loop = asyncio.get_running_loop()
        if self._contexts is None:  # where there is no epoll
            return loop.connect_accepted_socket(lambda: protocol, connected)
        times: dict[str, Any] = {"ssl_handshake_timeout": CONNECT_S, "ssl_shutdown_timeout": LINGER_S}
        accepting, dialling = self._contexts
        if not is_dialled:
            return loop.connect_accepted_socket(lambda: protocol, connected, ssl=accepting, **times)
        return loop.create_connection(
            lambda: protocol, sock=connected, ssl=dialling, server_hostname="", **times
        )

    async def close(self) -> None:
        """End all connections, and make no new ones."""
        self._is_closed = True
        for task in list(self._dialling.values()):
            task.cancel()
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
        for link in list(self._links):
            link.give_up()


def _in_words(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {CONNECT_S:.0f} seconds"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {(error.reason or str(error)).replace('_', ' ').lower()}"
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return getattr(error, "strerror", None) or str(error)
