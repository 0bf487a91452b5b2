"""Gets a connection and, when it is lost, another one: the asyncio hands of `dial_plan`."""

import asyncio
import random
import socket
from collections.abc import Callable, Iterable

from braidmq.client.addresses import (
    PORT,
    TLS_PORT,
    Address,
    Endpoint,
    Rotation,
    endpoints_of,
    parse_addresses,
)
from braidmq.client.aio_link import Link
from braidmq.client.backoff import Backoff
from braidmq.client.dialing import Dial, Outcome, Pause, Resolve, Step, dial_plan, judge
from braidmq.client.errors import ClientError
from braidmq.client.events import Event
from braidmq.client.options import Options
from braidmq.client.session import Session
from braidmq.client.tls import tls_context


class Connector:
    def __init__(
        self,
        session: Session,
        addresses: str | Iterable[str],
        options: Options,
        handle: Callable[[list[Event]], None],
    ) -> None:
        self._session = session
        self._options = options
        self._handle = handle
        self._tls = tls_context(options.tls)
        draw = options.random or random.random
        self._rotation = Rotation(parse_addresses(addresses, TLS_PORT if self._tls else PORT), draw)
        self._backoff = Backoff(options.backoff_min_s, options.backoff_max_s, draw)

    async def run(self, online: Callable[[Link], None], offline: Callable[[ClientError], None]) -> None:
        """Keeps a connection until there is no use in it any more; raises why."""
        loop = asyncio.get_running_loop()
        link = await self._dial(self._options.connect_patience_s, pause_first=False)
        while True:
            connected_at = loop.time()
            online(link)
            error = await asyncio.shield(link.lost)
            offline(error)
            self._backoff.connection_lasted(loop.time() - connected_at)
            if not self._options.reconnect:
                raise error
            judge(self._rotation, error)
            link = await self._dial(None, pause_first=True)

    async def _dial(self, patience_s: float | None, *, pause_first: bool) -> Link:
        loop = asyncio.get_running_loop()
        plan = dial_plan(
            self._rotation, self._backoff, loop.time(), patience_s=patience_s, pause_first=pause_first
        )
        step = next(plan)
        while True:
            link = Link(self._session, self._handle)
            outcome = await self._take(step, link)
            try:
                step = plan.send(outcome)
            except StopIteration:
                return link

    async def _take(self, step: Step, link: Link) -> Outcome:
        loop = asyncio.get_running_loop()
        try:
            if isinstance(step, Pause):
                await asyncio.sleep(step.delay_s)
            elif isinstance(step, Resolve):
                return Outcome(loop.time(), await self._resolve(step.address))
            else:
                await self._connect(step, link)
        except (OSError, ClientError) as error:  # TimeoutError is an OSError
            return Outcome(loop.time(), error=error)
        return Outcome(loop.time())

    async def _resolve(self, address: Address) -> list[Endpoint]:
        async with asyncio.timeout(self._options.connect_timeout_s):
            found = await asyncio.get_running_loop().getaddrinfo(
                address.host, address.port, type=socket.SOCK_STREAM
            )
        return endpoints_of(found)

    async def _connect(self, step: Dial, link: Link) -> None:
        """Opens a transport and waits for CONNACK."""
        host, port = step.endpoint.sockaddr
        name = step.address.host if self._tls else None
        try:
            async with asyncio.timeout(self._options.connect_timeout_s):
                await asyncio.get_running_loop().create_connection(
                    lambda: link, host, port, ssl=self._tls, server_hostname=name
                )
                await link.established
        except BaseException:
            await link.discard()
            raise
