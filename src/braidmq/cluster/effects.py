"""What a cluster's core wants done. Parts have effects of their own, in their own files."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from braidmq.cluster.frames import Control
from braidmq.cluster.settings import Remembered
from braidmq.messages.message import Message

Level: TypeAlias = Literal["info", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Dial:
    """Open a link to this address: `LinkOpened` or `NotReached` is the answer."""

    address: str


@dataclass(frozen=True, slots=True)
class Send:
    """Promises nothing: leaves at once, and does not wait for the store."""

    link: int
    frame: bytes


@dataclass(frozen=True, slots=True)
class Close:
    """Send what was given to the link, then end it. Nothing is told of it any more."""

    link: int
    why: str


@dataclass(frozen=True, slots=True)
class Proven:
    """The peer knows the secret: the link may carry larger frames."""

    link: int
    peer: int


@dataclass(frozen=True, slots=True)
class Linked:
    """Both Welcomes are there: streams may begin.

    `position` is the highest sequence of ours that the peer has kept.
    """

    peer: int
    link: int
    position: int
    is_new_boot: bool  # or the first time, or forgotten meanwhile: nothing from before holds
    was_absent: bool  # one of us counted the other dead since the last time


@dataclass(frozen=True, slots=True)
class Unlinked:
    peer: int


@dataclass(frozen=True, slots=True)
class Died:
    peer: int


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What was kept for this peer may go."""

    peer: int


@dataclass(frozen=True, slots=True)
class Met:
    """A peer that was not known before: there should be a queue for it."""

    peer: int


@dataclass(frozen=True, slots=True)
class RoutesChanged:
    """Routes to peers that were found before may be wrong now."""


@dataclass(frozen=True, slots=True)
class MembersChanged:
    """What should be written down, all of it."""

    remembered: tuple[Remembered, ...]


@dataclass(frozen=True, slots=True)
class Hold:
    """The peer asks to hold QoS 0 back, or no longer."""

    peer: int
    is_held: bool


@dataclass(frozen=True, slots=True)
class Tell:
    """A line for the operator that says what to do."""

    level: Level
    sentence: str


@dataclass(frozen=True, slots=True)
class SendControl:
    """From parts; the core makes a `Send` of it, or nothing if the peer isn't linked."""

    peer: int
    control: Control


@dataclass(frozen=True, slots=True)
class SendFrame:
    """From parts; the core makes a `Send` of it, or nothing if the peer isn't linked."""

    peer: int
    frame: bytes


@dataclass(frozen=True, slots=True)
class Enter:
    """From parts: an entry into the reliable stream to a peer, which is sent when the store has it."""

    peer: int
    kind: int
    head: bytes
    message: Message | None
    route: bytes


# Parts add effects of their own, so this can't be a closed union.
Effect: TypeAlias = object
