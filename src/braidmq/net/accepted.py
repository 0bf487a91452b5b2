"""What is known of a client when its connection is accepted: its address, and perhaps its certificate."""

from typing import Any

from braidmq.net.stream import TransportLink, Turn
from braidmq.net.tls import user_of


def address_text(name: Any) -> str:
    if isinstance(name, tuple) and len(name) >= 2:
        host, port = name[0], name[1]
        return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"
    return str(name)


class CertifiedLink(TransportLink):
    """The link of a client whose certificate says who it is."""

    __slots__ = ("_source", "certified_user")

    def __init__(self, turn: Turn, source: str) -> None:
        super().__init__(turn)
        self._source = source
        self.certified_user: str | None = None

    def read_certificate(self, transport: Any) -> None:
        self.certified_user = user_of(transport.get_extra_info("peercert") or {}, self._source)


def introduce(link: TransportLink, transport: Any, raw: Any, peer: str | None, descriptor: int) -> None:
    """Open the connection: `transport` is what the link writes to, `raw` the event loop's own."""
    if isinstance(link, CertifiedLink):
        link.read_certificate(raw)
    link.made(transport, peer or address_text(raw.get_extra_info("peername")), descriptor)
    if isinstance(link, CertifiedLink) and link.certified_user is None:
        raw.abort()  # the authority has signed it, but it names nobody
