"""Who is let in, and what they may do: the questions that the broker asks, and the answers it understands.

The broker asks a `Gate`. The one built in lets everybody do everything, and checks SCRAM-SHA-256 users when
there are any.
"""

import secrets
from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from braidmq.scram import METHOD, Credential, ScramError, ScramServer
from braidmq.wire import Connect, ReasonCode


class Admitted(msgspec.Struct, frozen=True):
    """The client is who it says it is; `user` is None for an anonymous one."""

    user: str | None = None
    data: bytes | None = None  # authentication data for the last word to the client


class Refused(msgspec.Struct, frozen=True):
    """The client is not let in."""

    reason: int
    detail: str


class Challenge(msgspec.Struct, frozen=True):
    """The client has to answer `data` before it is decided."""

    data: bytes


class Visitor(msgspec.Struct, frozen=True):
    """What the network knows of a client before it says anything."""

    peer: str  # its address and port
    certified_user: str | None = None  # whom its verified TLS certificate names


Verdict = Admitted | Refused | Challenge


class Exchange(Protocol):
    """One run of an enhanced authentication [MQTT 5, section 4.12]."""

    def step(self, data: bytes | None) -> Verdict:
        """The client has said `data`; what now?"""


class Gate(Protocol):
    """What the broker asks before it does what a client wants."""

    checks_topics: bool  # False: every client may publish and subscribe anywhere, and isn't asked about

    def admit(self, connect: Connect, visitor: Visitor) -> Verdict:
        """Judge a CONNECT without an authentication method."""

    def exchange(self, method: str) -> Exchange | None:
        """Begin an enhanced authentication; None if the method isn't offered."""

    def may_publish(self, user: str | None, client_id: str, topic: str) -> bool: ...

    def may_subscribe(self, user: str | None, client_id: str, filter: str) -> bool: ...


class ScramExchange:
    """SCRAM-SHA-256 from the server's side: client-first, then client-final."""

    def __init__(self, users: Mapping[str, Credential], nonce: str, decoy_key: bytes) -> None:
        self._server = ScramServer(users.get, nonce, decoy_key)
        self._challenged = False

    def step(self, data: bytes | None) -> Verdict:
        try:
            if not self._challenged:
                self._challenged = True
                return Challenge(self._server.challenge(data or b""))
            final = self._server.finish(data or b"")
        except ScramError as error:
            return Refused(ReasonCode.NOT_AUTHORIZED, str(error))
        return Admitted(self._server.username, final)


class BuiltInGate:
    """Everybody may do everything, once let in. Users, if any are configured, come in by SCRAM-SHA-256."""

    checks_topics = False

    def __init__(
        self,
        users: Mapping[str, Credential] | None = None,
        *,
        allow_anonymous: bool = True,
        make_nonce: Callable[[], str] = lambda: secrets.token_urlsafe(18),
    ) -> None:
        self._users = dict(users or {})
        self._allow_anonymous = allow_anonymous
        self._make_nonce = make_nonce
        self._decoy_key = make_nonce().encode()  # one for all exchanges, so that a name's decoy never changes

    def admit(self, connect: Connect, visitor: Visitor) -> Verdict:
        if visitor.certified_user is not None:
            return Admitted(visitor.certified_user)
        if not self._allow_anonymous:
            return Refused(ReasonCode.NOT_AUTHORIZED, "anonymous clients are not let in")
        return Admitted(None)

    def exchange(self, method: str) -> Exchange | None:
        if method != METHOD or not self._users:
            return None
        return ScramExchange(self._users, self._make_nonce(), self._decoy_key)

    def may_publish(self, user: str | None, client_id: str, topic: str) -> bool:
        return True

    def may_subscribe(self, user: str | None, client_id: str, filter: str) -> bool:
        return True
