"""Who is let in, and what they may do: the questions that the broker asks, and the answers it understands.

The broker asks a `Gate`. The one built in asks its authenticators one after the other, runs SCRAM-SHA-256 for
the users who have it, and asks its rules, if there are any, what they may do.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec

from braidmq.access.policy import Action, Policy
from braidmq.access.rules import Rules
from braidmq.access.verdicts import (
    Admitted,
    Authenticator,
    Challenge,
    Claim,
    Pending,
    Refused,
    Slow,
    Verdict,
    Visitor,
)
from braidmq.limits import Overflow
from braidmq.scram import METHOD, Credential, ScramError, ScramServer
from braidmq.wire import Connect, ReasonCode


class Exchange(Protocol):
    """One run of an enhanced authentication [MQTT 5, section 4.12]."""

    def step(self, data: bytes | None) -> Verdict:
        """The client has said `data`; what now?"""


class Gate(Protocol):
    """What the broker asks before it does what a client wants."""

    checks_topics: bool  # False: every client may publish and subscribe anywhere, and isn't asked about

    def admit(self, connect: Connect, visitor: Visitor) -> Verdict:
        """Judge a CONNECT without an authentication method."""

    def exchange(self, method: str, connect: Connect, visitor: Visitor) -> Exchange | None:
        """Begin an enhanced authentication; None if the method isn't offered."""

    def still_admits(self, admitted: Admitted) -> bool:
        """Whether somebody whom an earlier gate has let in may stay."""

    def may_publish(self, user: str | None, client_id: str, topic: str) -> bool: ...

    def may_subscribe(self, user: str | None, client_id: str, filter: str) -> bool: ...

    def may_read(self, user: str | None, client_id: str, topic: str) -> bool: ...

    def overflow(self, user: str | None, client_id: str) -> Overflow | None:
        """What becomes of messages that find this client's queue full; None: what becomes of everybody's."""


class ScramExchange:
    """SCRAM-SHA-256 from the server's side: client-first, then client-final."""

    def __init__(self, users: Mapping[str, Credential], nonce: str, decoy_key: bytes) -> None:
        self._users = users
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
        user = self._server.username
        return Admitted(user, final, grounds=(METHOD, self._users.get(user)))


class _Objection:
    """A policy that is only asked whether it objects: who the client is, is settled."""

    def __init__(self, policy: "PolicyJudge") -> None:
        self._policy = policy

    def judge(self, claim: Claim) -> Refused | Slow | None:
        found = self._policy.judge(claim)
        if isinstance(found, Slow):
            work = found.work
            return Slow(lambda: _refusal(work()), found.kind)
        return _refusal(found)

    def still_holds(self, admitted: Admitted) -> bool:
        return False


def _refusal(found: Admitted | Refused | None) -> Refused | None:
    return found if isinstance(found, Refused) else None


class _Settled:
    """Says what was found out before."""

    def __init__(self, verdict: Admitted) -> None:
        self._verdict = verdict

    def judge(self, claim: Claim) -> Admitted:
        return self._verdict

    def still_holds(self, admitted: Admitted) -> bool:
        return False


class _PolicedExchange:
    """An exchange at whose end the policies may object."""

    def __init__(self, exchange: Exchange, policies: Sequence["PolicyJudge"], claim: Claim) -> None:
        self._exchange = exchange
        self._objections = [_Objection(policy) for policy in policies]
        self._claim = claim

    def step(self, data: bytes | None) -> Verdict:
        verdict = self._exchange.step(data)
        if not isinstance(verdict, Admitted):
            return verdict
        claim = msgspec.structs.replace(self._claim, proven_user=verdict.user)
        return _ask((*self._objections, _Settled(verdict)), claim)


def _ask(authenticators: Sequence[Authenticator], claim: Claim) -> Admitted | Refused | Pending:
    """The first decision; from the first slow authenticator on, the rest is asked where it may take time."""
    for index, authenticator in enumerate(authenticators):
        found = authenticator.judge(claim)
        if isinstance(found, Slow):
            return _pending(found, authenticators[index + 1 :], claim)
        if found is not None:
            return found
    return Refused(ReasonCode.BAD_USER_NAME_OR_PASSWORD, "the user name or the password is wrong")


def _pending(slow: Slow, rest: Sequence[Authenticator], claim: Claim) -> Pending:
    return Pending(lambda: slow.work() or _ask(rest, claim), slow.kind)


class Errand(NamedTuple):
    """A decision that takes long, to be made while the broker goes on."""

    pending: Pending
    peer: str  # whose client it is about: its address and port
    name: str  # whom the client says that it is
    is_wanted: Callable[[], bool]  # False once the client has gone
    decided: Callable[[Admitted | Refused], None]

    def with_next(self, pending: Pending) -> "Errand":
        """The same with the work that is left."""
        return self._replace(pending=pending)

    def run(self) -> None:
        """Do all of the work here and now."""
        found: Admitted | Refused | Pending = self.pending
        while isinstance(found, Pending):
            found = found.work()
        self.decided(found)


CERTIFICATE: Final = ("certificate",)
ANONYMOUS: Final = ("anonymous",)


class PolicyJudge(Policy, Authenticator, Protocol):
    """A policy of which is known whom it has let in."""


class _Certificate:
    """Lets in whom a client certificate names: the handshake has verified it."""

    def judge(self, claim: Claim) -> Admitted:
        return Admitted(claim.proven_user, grounds=CERTIFICATE)

    def still_holds(self, admitted: Admitted) -> bool:
        return admitted.grounds == CERTIFICATE


class _Anonymous:
    """Lets in, or not, clients that don't say who they are."""

    def __init__(self, allowed: bool) -> None:
        self._allowed = allowed

    def judge(self, claim: Claim) -> Admitted | Refused:
        if not self._allowed:
            return Refused(ReasonCode.NOT_AUTHORIZED, "anonymous clients are not let in")
        return Admitted(None, grounds=ANONYMOUS)

    def still_holds(self, admitted: Admitted) -> bool:
        return self._allowed and admitted.grounds == ANONYMOUS


class BuiltInGate:
    """Everybody may do everything, once let in, unless there are rules.

    Policies are asked first, about everybody. Then a client certificate is enough; else the authenticators
    are asked in turn, until one decides. A client that claims nothing is anonymous. Users with a SCRAM
    credential come in by SCRAM-SHA-256, if no policy objects.
    """

    def __init__(
        self,
        users: Mapping[str, Credential] | None = None,
        *,
        authenticators: Sequence[Authenticator] = (),
        rules: Rules | None = None,
        policies: Sequence[PolicyJudge] = (),
        allow_anonymous: bool = True,
        make_nonce: Callable[[], str] = lambda: secrets.token_urlsafe(18),
    ) -> None:
        self._users = dict(users or {})
        self._authenticators = tuple(authenticators)
        self._rules = rules
        self._policies = tuple(policies)
        self.checks_topics = rules is not None or bool(policies)
        self._certificate = _Certificate()
        self._anonymous = _Anonymous(allow_anonymous)
        self._make_nonce = make_nonce
        self._decoy_key = make_nonce().encode()  # one for all exchanges, so that a name's decoy never changes

    def admit(self, connect: Connect, visitor: Visitor) -> Verdict:
        claim = Claim(
            connect.client_id, connect.username, connect.password, visitor.peer, visitor.certified_user
        )
        return _ask((*self._policies, *self._judges_of(claim)), claim)

    def _judges_of(self, claim: Claim) -> Sequence[Authenticator]:
        """Who decides about a client that no policy decides about."""
        if claim.proven_user is not None:
            return (self._certificate,)
        if claim.is_empty or not (self._authenticators or self._policies):
            return (self._anonymous,)
        return self._authenticators

    def exchange(self, method: str, connect: Connect, visitor: Visitor) -> Exchange | None:
        if method != METHOD or not self._users:
            return None
        scram = ScramExchange(self._users, self._make_nonce(), self._decoy_key)
        claim = Claim(connect.client_id, connect.username, connect.password, visitor.peer)
        return _PolicedExchange(scram, self._policies, claim)

    def still_admits(self, admitted: Admitted) -> bool:
        if admitted.grounds[:1] == (METHOD,) and admitted.user is not None:
            return admitted.grounds == (METHOD, self._users.get(admitted.user))
        judges: list[Authenticator] = [self._certificate, self._anonymous]
        judges += [*self._policies, *self._authenticators]
        return any(judge.still_holds(admitted) for judge in judges)

    def may_publish(self, user: str | None, client_id: str, topic: str) -> bool:
        decided = self._ask_policies("write", user, client_id, topic)
        if decided is not None:
            return decided
        return self._rules is None or self._rules.may_write(user, client_id, topic)

    def may_subscribe(self, user: str | None, client_id: str, filter: str) -> bool:
        decided = self._ask_policies("subscribe", user, client_id, filter)
        if decided is not None:
            return decided
        return self._rules is None or self._rules.may_subscribe(user, client_id, filter)

    def may_read(self, user: str | None, client_id: str, topic: str) -> bool:
        decided = self._ask_policies("read", user, client_id, topic)
        if decided is not None:
            return decided
        return self._rules is None or self._rules.may_read(user, client_id, topic)

    def overflow(self, user: str | None, client_id: str) -> Overflow | None:
        return self._rules.overflow(user, client_id) if self._rules is not None else None

    def _ask_policies(self, action: Action, user: str | None, client_id: str, topic: str) -> bool | None:
        for policy in self._policies:
            decided = policy.may(action, user, client_id, topic)
            if decided is not None:
                return decided
        return None
