"""What the parts that care for sessions ask about the sessions of this node."""

from collections.abc import Iterable
from typing import NamedTuple, Protocol, TypeAlias

Stamp: TypeAlias = tuple[int, int]  # hybrid time and node of a CONNECT: any two of them differ
NO_STAMP: Stamp = (0, 0)  # of a session that is older than its node's membership


class Home(NamedTuple):
    """A session that this node has."""

    stamp: Stamp
    user: str | None
    lasts: bool  # it outlives its connection
    is_connected: bool


class Homes(Protocol):
    """The sessions of this node."""

    def find(self, client: str) -> Home | None:
        """The session of that client id, if it is here."""

    def clients(self) -> Iterable[str]:
        """The client ids of all sessions here, as of now."""
