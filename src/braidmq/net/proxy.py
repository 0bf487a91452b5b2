"""The PROXY protocol, versions 1 and 2: a proxy tells, before anything else, whose connection it passes on.

The header is read to its last byte and no further, from the bare socket, because what follows may be a TLS
handshake that the event loop has to see from its first byte. A connection without a good header is closed
without a word.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from braidmq.net.accepting import Address

SIGNATURE: Final = b"\r\n\r\n\x00\r\nQUIT\n"
VERSION_1_BYTES_MAX: Final = 107
VERSION_2_BYTES_MAX: Final = 4096  # addresses and extensions; real headers have some hundred bytes
ADDRESS_BYTES: Final = {0x11: 4, 0x21: 16}  # TCP over IPv4 and over IPv6

Read = Callable[[int], Awaitable[bytes]]


class HeaderError(Exception):
    """The connection does not begin with a PROXY header."""


async def read_header(read: Read) -> Address | None:
    """The client's address; None if the proxy speaks for itself or does not know. `read` gives n bytes."""
    start = await read(len(SIGNATURE))
    if start == SIGNATURE:
        return await _read_version_2(read)
    if not start.startswith(b"PROXY "):
        raise HeaderError("no PROXY header")
    while not start.endswith(b"\r\n"):
        if len(start) == VERSION_1_BYTES_MAX:
            raise HeaderError("a PROXY line without an end")
        start += await read(1)
    return parse_version_1(start)


def parse_version_1(line: bytes) -> Address | None:
    """`PROXY TCP4 192.0.2.1 192.0.2.9 56324 1883` and its end of line."""
    words = line.removesuffix(b"\r\n").decode("ascii", "replace").split(" ")
    if words[1] == "UNKNOWN":
        return None
    if len(words) != 6 or words[1] not in ("TCP4", "TCP6"):
        raise HeaderError("a PROXY line of another form")
    kind = IPv4Address if words[1] == "TCP4" else IPv6Address
    try:
        hosts = [kind(word) for word in words[2:4]]
        ports = [int(word) for word in words[4:6] if word.isascii() and word.isdigit()]
    except ValueError as error:
        raise HeaderError("a PROXY line with a bad address") from error
    if len(ports) != 2 or max(ports) > 65_535:
        raise HeaderError("a PROXY line with a bad port")
    return str(hosts[0]), ports[0]


async def _read_version_2(read: Read) -> Address | None:
    head = await read(4)
    size = int.from_bytes(head[2:])
    if size > VERSION_2_BYTES_MAX:
        raise HeaderError("a PROXY header too long")
    body = await read(size) if size else b""
    return parse_version_2(head, body)


def parse_version_2(head: bytes, body: bytes) -> Address | None:
    """`head`: version and command, family, length; `body`: addresses and extensions."""
    match head[0]:
        case 0x20:  # LOCAL: the proxy's own connection, as for its health check
            return None
        case 0x21:
            pass
        case _:
            raise HeaderError("a PROXY header of another version or command")
    host_bytes = ADDRESS_BYTES.get(head[1])
    if host_bytes is None:
        return None
    if len(body) < 2 * host_bytes + 4:
        raise HeaderError("a PROXY header shorter than its addresses")
    port_at = 2 * host_bytes
    return str(ip_address(body[:host_bytes])), int.from_bytes(body[port_at : port_at + 2])


async def read_client(accepted: socket.socket, timeout_s: float) -> Address | None:
    """The address that a connection's header tells. HeaderError, OSError or TimeoutError: it has none."""
    async with asyncio.timeout(timeout_s):
        return await read_header(_reader(accepted))


def _reader(accepted: socket.socket) -> Read:
    loop = asyncio.get_running_loop()

    async def read(count: int) -> bytes:
        data = b""
        while len(data) < count:
            part = await loop.sock_recv(accepted, count - len(data))
            if not part:
                raise HeaderError("the end of the connection inside the PROXY header")
            data += part
        return data

    return read
