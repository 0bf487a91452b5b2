"""Broker addresses, and in which order to try them.

An `Address` is what the application wrote: a host name and a port. An `Endpoint` is one IP address behind a
name; a name may have several. The order: the endpoint that worked last (the session is there), then the rest
of its name's endpoints, then the other names in the order given. A failed endpoint moves to the end of its
name's turn, so that every endpoint gets tried before one is tried twice.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from braidmq.errors import ConfigError

PORT = 1883
TLS_PORT = 8883


class Address(msgspec.Struct, frozen=True):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Endpoint(msgspec.Struct, frozen=True):
    """One way to reach an address: `family` and the IP address and port that getaddrinfo gives."""

    family: int
    sockaddr: tuple[str, int]

    def __str__(self) -> str:
        return str(Address(*self.sockaddr))


def endpoints_of(found: Iterable[tuple[int, int, int, str, tuple[Any, ...]]]) -> list[Endpoint]:
    """What getaddrinfo has found."""
    return [Endpoint(int(family), (sockaddr[0], sockaddr[1])) for family, _, _, _, sockaddr in found]


def parse_address(text: str, default_port: int) -> Address:
    """Reads `host`, `host:port`, `[v6]:port`, with or without `mqtt://` or `mqtts://` in front."""
    scheme, separator, rest = text.strip().rpartition("://")
    if separator and scheme not in ("mqtt", "mqtts"):
        raise ConfigError(f"broker address {text!r}: only mqtt:// and mqtts:// are known")
    if scheme == "mqtts":
        default_port = TLS_PORT
    host, port_text = _split_port(rest.rstrip("/"))
    if not host:
        raise ConfigError(f"broker address {text!r} has no host")
    if port_text is None:
        return Address(host, default_port)
    if not (port_text.isascii() and port_text.isdigit() and 0 < int(port_text) < 65_536):
        raise ConfigError(f"broker address {text!r}: {port_text!r} is no port")
    return Address(host, int(port_text))


def _split_port(text: str) -> tuple[str, str | None]:
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        return host, rest[1:] if rest.startswith(":") else None
    if text.count(":") != 1:
        return text, None  # no port, or a bare IPv6 address
    host, _, port = text.partition(":")
    return host, port


def parse_addresses(addresses: str | Iterable[str], default_port: int) -> tuple[Address, ...]:
    texts = addresses.split(",") if isinstance(addresses, str) else addresses
    parsed = tuple(dict.fromkeys(parse_address(text, default_port) for text in texts))
    if not parsed:
        raise ConfigError("no broker address given")
    return parsed


class Rotation:
    """Remembers which names and endpoints had their turn."""

    def __init__(self, addresses: Sequence[Address], random: Callable[[], float]) -> None:
        self._addresses = list(addresses)
        self._random = random
        self._turns: dict[Address, list[Endpoint]] = {}

    def addresses(self) -> list[Address]:
        """The names in the order of this round."""
        return list(self._addresses)

    def endpoints(self, address: Address, resolved: Sequence[Endpoint]) -> list[Endpoint]:
        """What a name resolves to now, in the order of this round.

        Endpoints that are seen for the first time come in a random order: a thousand clients that start
        together do not all go to the same one.
        """
        found = list(dict.fromkeys(resolved))
        known = [endpoint for endpoint in self._turns.get(address, ()) if endpoint in found]
        new = sorted((endpoint for endpoint in found if endpoint not in known), key=lambda _: self._random())
        self._turns[address] = known + new
        return list(self._turns[address])

    def failed(self, address: Address, endpoint: Endpoint) -> None:
        turns = self._turns[address]
        turns.remove(endpoint)
        turns.append(endpoint)

    def worked(self, address: Address, endpoint: Endpoint) -> None:
        turns = self._turns[address]
        turns.remove(endpoint)
        turns.insert(0, endpoint)
        self._to_front(address)

    def redirected(self, reference: str) -> None:
        """The server named other servers (Server Reference of MQTT 5): they come first from now on."""
        for text in reversed(reference.split()):
            try:
                self._to_front(parse_address(text, PORT))
            except ConfigError:
                continue  # a reference may have any form; one that we can't read helps nobody

    def _to_front(self, address: Address) -> None:
        if address in self._addresses:
            # The order of the others stays: turn the ring instead of pulling one out of it.
            at = self._addresses.index(address)
            self._addresses = self._addresses[at:] + self._addresses[:at]
        else:
            self._addresses.insert(0, address)
