"""Finds out where other nodes are: seeds that were named, and the addresses of a name.

An address of this node itself is no seed: somebody has to be the first of a cluster, and every node may be
told the same list.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import structlog

from braidmq.config import Place, parse_place

log = structlog.get_logger("braidmq.net")

ASK_AGAIN_S: Final = 30.0
# Addresses that are nobody's: only the way towards them is asked for.
ANYWHERE: Final = "192.0.2.1"
ANYWHERE6: Final = "2001:db8::1"

Resolve = Callable[[Place], Awaitable[list[Place]]]


async def resolved(place: Place) -> list[Place]:
    """All addresses of a place; OSError if there are none. Asked in a thread."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM)
    return [Place(str(address[0]), place.port) for *_, address in dict.fromkeys(found)]


def is_of_this_machine(host: str) -> bool:
    """Whether an address, given in digits, is one of this machine: only on such can a socket be bound."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((host, 0))
        except OSError:
            return False
    return True


def address_towards(host: str) -> str:
    """The address of this machine that who is at `host` sees. Nothing is sent."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, 9))
        except OSError:
            return "::1" if family == socket.AF_INET6 else "127.0.0.1"
        name: str = probe.getsockname()[0]
        return name


class Seeds:
    """The places where other nodes may be; `own` are those of this node."""

    def __init__(
        self,
        named: Iterable[str],
        discovered: Place | None,
        own: Iterable[Place],
        resolve: Resolve = resolved,
    ) -> None:
        self._named = [place for text in named if (place := parse_place(text)) is not None]
        self._discovered = discovered
        self._own = set(own)
        self._resolve = resolve
        self._last_found: list[Place] = []  # by the name, while it could be resolved
        self.includes_us = False  # an address of this node was among them

    async def find(self) -> list[str]:
        """The addresses of others, as far as they can be found now."""
        # By their names, not by what those are resolved to: that may be something else tomorrow.
        others = [place.text for place in self._named if not await self._is_own(place)]
        if self._discovered is not None:
            others += [place.text for place in await self._found(self._discovered)]
        return list(dict.fromkeys(others))

    async def _found(self, name: Place) -> list[Place]:
        try:
            self._last_found = await self._resolve(name)
        except OSError as error:
            log.warning("no address found", name=name.host, why=error.strerror)
        return [place for place in self._last_found if not self._counts_us(self._is_here(place))]

    async def _is_own(self, place: Place) -> bool:
        if place in self._own:
            return self._counts_us(True)
        if place.port not in {own.port for own in self._own}:
            return False
        try:
            return self._counts_us(any(self._is_here(found) for found in await self._resolve(place)))
        except OSError:
            return False

    def _is_here(self, place: Place) -> bool:
        if place in self._own:
            return True
        return place.port in {own.port for own in self._own} and is_of_this_machine(place.host)

    def _counts_us(self, is_own: bool) -> bool:
        self.includes_us = self.includes_us or is_own
        return is_own
