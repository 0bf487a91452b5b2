"""What is said and done about claims: messages between nodes, events and effects of `claims.Claims`."""

from dataclasses import dataclass
from enum import IntEnum

import msgspec

from braidmq.cluster.frames import Control
from braidmq.cluster.homes import NO_STAMP, Stamp
from braidmq.wire import ReasonCode

# ---- events ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ClaimAsked:
    """A client wants to use its session here. `Granted` or `Denied` with the same token is the answer."""

    token: int
    client: str
    user: str | None
    clean_start: bool


@dataclass(frozen=True, slots=True)
class ClaimWithdrawn:
    """The client that asked has gone."""

    token: int


# ---- effects -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Granted:
    """The session may be used here: what there is of it is here now. It gets this stamp."""

    token: int
    client: str
    stamp: Stamp


@dataclass(frozen=True, slots=True)
class Denied:
    token: int
    reason: ReasonCode
    why: str


# ---- messages ----------------------------------------------------------------------------------------


class Answer(IntEnum):
    NONE = 0
    YIELD = 1
    REFUSED = 2
    BUSY = 3
    HAVE = 4


class Claim(msgspec.Struct, frozen=True, array_like=True):
    """The node that sends it wants a session, or holds it already. Its stamp is (hlc, node)."""

    client: str
    hlc: int
    user: str | None
    clean_start: bool
    is_held: bool = False
    node: int = 0  # of the stamp, if it isn't the sender: 0 = it is


class ClaimAnswer(msgspec.Struct, frozen=True, array_like=True):
    client: str
    hlc: int  # of the claim
    answer: int
    stamp: tuple[int, int] = NO_STAMP  # of what the other node has


class ClaimSessions(Control, frozen=True):
    claims: tuple[Claim, ...]


class AnswerClaims(Control, frozen=True):
    answers: tuple[ClaimAnswer, ...]


class Invite(Control, frozen=True):
    """Claim this session, whose client is away: the sender would like to be rid of it.

    `hlc` is of the session's stamp: the claim is later than that, and earlier than a connection made since.
    """

    client: str
    user: str | None
    hlc: int
