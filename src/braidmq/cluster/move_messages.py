"""What is said and done when a session moves: messages between nodes, effects and events of `Moves`."""

from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from braidmq.cluster.frames import Control

CUT: Final = 1  # kinds of entries
SENT_ON: Final = 3
NO_ROUTE: Final = b"\0\0"  # of an entry that is for neither subscribers nor groups


class Move(NamedTuple):
    """One move of one session. (hlc, to) is the stamp of the claim that caused it."""

    client: str
    hlc: int
    to: int


# ---- what travels in streams -------------------------------------------------------------------------


class CutHead(msgspec.Struct, frozen=True, array_like=True):
    """Head of a CUT: all that its node published before this stands before it in the stream."""

    client: str
    hlc: int
    to: int
    origin: int = 0  # not 0: the end of what the old home sends on of this node's messages

    @property
    def move(self) -> Move:
        return Move(self.client, self.hlc, self.to)


class SentOnHead(msgspec.Struct, frozen=True, array_like=True):
    """Head of a SENT_ON: a message that came to the old home before its node's cut, after the state left."""

    client: str
    hlc: int
    to: int
    origin: int
    qos: int
    retain: bool
    identifiers: bytes

    @property
    def move(self) -> Move:
        return Move(self.client, self.hlc, self.to)


# ---- messages ----------------------------------------------------------------------------------------


class Fetch(Control, frozen=True):
    """New home to old home: tell what the session subscribes to."""

    client: str
    hlc: int


class Offer(Control, frozen=True):
    """Old home to new home: what the session subscribes to comes as this transfer."""

    client: str
    hlc: int
    transfer: int


class CutRequest(Control, frozen=True):
    """New home to everybody: put cuts into your streams to the old home and to me."""

    client: str
    hlc: int
    old: int


class SessionState(Control, frozen=True):
    """Old home to new home: what the session has comes as this transfer. `cuts` came in time."""

    client: str
    hlc: int
    transfer: int
    cuts: tuple[int, ...]


class Taken(Control, frozen=True):
    """New home to old home: my store has it. `is_used`: its client has been here since."""

    client: str
    hlc: int
    is_used: bool


class Gone(Control, frozen=True):
    """Old home to new home: I don't have it any more."""

    client: str
    hlc: int


class Release(Control, frozen=True):
    """New home to old home: I don't want it any more."""

    client: str
    hlc: int


class Released(Control, frozen=True):
    """Old home to new home: it stays here; drop what you have of it."""

    client: str
    hlc: int


class Superseded(Control, frozen=True):
    """New home to an old home: another node has a newer session of that client."""

    client: str
    hlc: int


class HaveYouTaken(Control, frozen=True):
    """Old home to new home, at the relink."""

    client: str
    hlc: int


class HaveYouLetGo(Control, frozen=True):
    """New home to old home, after a restart."""

    client: str
    hlc: int


# ---- effects -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Freeze:
    """Take the session over from its client, and let it only queue. Note LEAVING."""

    move: Move


@dataclass(frozen=True, slots=True)
class Describe:
    """Tell, by `Described`, what the session subscribes to."""

    move: Move


@dataclass(frozen=True, slots=True)
class Export:
    """Tell, by `Exported`, what the session has, as soon as the store has all of it."""

    move: Move


@dataclass(frozen=True, slots=True)
class Thaw:
    """The session stays here, with all that has come for it meanwhile."""

    move: Move


@dataclass(frozen=True, slots=True)
class LetGo:
    """Another node has the session: end it here, nothing of it is dropped. `LetGone` when that is kept.

    `is_sending_on`: some cuts are late, and what comes before them is sent on until `StopSendingOn`.
    """

    move: Move
    is_sending_on: bool


@dataclass(frozen=True, slots=True)
class StopSendingOn:
    """All cuts have come: nothing is left of the session."""

    move: Move


@dataclass(frozen=True, slots=True)
class EndSession:
    """The client is elsewhere now, without this session: end it, its connection with "taken over".

    `newer_at` has a newer session of the client, which should have been this one: what waits here of QoS 1 is
    sent on to it. 0: the client wanted a new one.
    """

    client: str
    newer_at: int = 0


@dataclass(frozen=True, slots=True)
class Prepare:
    """Subscribe to what the offer says, and tell all peers. `Prepared` when that is on its way to them."""

    move: Move
    offer: bytes


@dataclass(frozen=True, slots=True)
class CutHere:
    """This node's own cut: what is published here is behind it from now on."""

    move: Move


@dataclass(frozen=True, slots=True)
class Install:
    """Give the session what it had elsewhere, marked with MOVED. `Installed` when that is kept."""

    move: Move
    old: int
    state: bytes
    cuts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Drop:
    """End what was prepared or installed: the session stays where it was, and nothing of it is lost."""

    move: Move


@dataclass(frozen=True, slots=True)
class Settle:
    """The session is this node's own. `is_confirmed`: the old home knows, so MOVED is of no use any more."""

    move: Move
    old: int
    is_confirmed: bool


@dataclass(frozen=True, slots=True)
class ClosePassage:
    """All cuts and tails have come: the session takes everything."""

    move: Move


# ---- events ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Described:
    move: Move
    offer: bytes


@dataclass(frozen=True, slots=True)
class Exported:
    """`state` is None if it can't be had. `cuts` are the nodes whose cuts had come."""

    move: Move
    state: bytes | None
    cuts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LetGone:
    move: Move


@dataclass(frozen=True, slots=True)
class Prepared:
    move: Move
    is_done: bool


@dataclass(frozen=True, slots=True)
class Installed:
    move: Move
    is_done: bool


@dataclass(frozen=True, slots=True)
class CutCame:
    """A cut was in the stream of `origin`."""

    move: Move
    origin: int


@dataclass(frozen=True, slots=True)
class TailCame:
    """The old home has sent on all that it got of `origin`'s messages before the cut."""

    move: Move
    origin: int


@dataclass(frozen=True, slots=True)
class Recovered:
    """What a restart has found: sessions that were leaving, and such as came from another node."""

    leaving: tuple[Move, ...]
    moved: tuple[tuple[Move, int, bool], ...]  # the old home, and whether it was used here
