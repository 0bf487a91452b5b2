"""What can be decided about a client that wants to come in."""

from collections.abc import Callable
from typing import Any, Literal, Protocol

import msgspec


class Visitor(msgspec.Struct, frozen=True):
    """What the network knows of a client before it says anything."""

    peer: str  # its address and port
    certified_user: str | None = None  # whom its verified TLS certificate names


class Claim(msgspec.Struct, frozen=True):
    """Who a client says that it is."""

    client_id: str
    username: str | None
    password: bytes | None
    peer: str
    proven_user: str | None = None  # whom a TLS certificate or SCRAM has shown it to be

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known about the client."""
        return self.username is None and self.password is None and self.proven_user is None


class Admitted(msgspec.Struct, frozen=True):
    """The client is who it says it is; `user` is None for an anonymous one."""

    user: str | None = None
    data: bytes | None = None  # authentication data for the last word to the client
    grounds: tuple[Any, ...] = ()  # what it was let in for, about which `still_holds` is asked later
    lasts_s: float | None = None  # how long it may stay; None: as long as it likes


class Refused(msgspec.Struct, frozen=True):
    """The client is not let in."""

    reason: int
    detail: str


class Challenge(msgspec.Struct, frozen=True):
    """The client has to answer `data` before it is decided."""

    data: bytes


WorkKind = Literal["password", "callout", "policy"]  # what takes long; each kind has threads of its own


class Pending(msgspec.Struct, frozen=True):
    """`work` decides, but takes long: it is to be called, perhaps in a thread, where nobody waits.

    It may find that more work has to be done, of another kind perhaps.
    """

    work: "Callable[[], Admitted | Refused | Pending]"
    kind: WorkKind


Verdict = Admitted | Refused | Challenge | Pending


class Slow(msgspec.Struct, frozen=True):
    """An authenticator's `work` has to find out; None: the next one is asked."""

    work: Callable[[], Admitted | Refused | None]
    kind: WorkKind = "policy"


class Authenticator(Protocol):
    """One way to find out whether a claim is true."""

    def judge(self, claim: Claim) -> Admitted | Refused | Slow | None:
        """None: this is for others to decide. Doesn't wait; what takes long is answered with `Slow`."""

    def still_holds(self, admitted: Admitted) -> bool:
        """Whether whom this way to authenticate let in, before a reload perhaps, would be let in today."""
