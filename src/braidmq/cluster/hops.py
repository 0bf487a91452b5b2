"""What a routing mode is: where messages go, and the stream of announcements by which it knows."""

from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

from braidmq.topics.bloom import Outcome
from braidmq.topics.bloom.stream import Position

# flags: for plain subscribers; hops: none yet. See the route of an ENTRY.
PLAIN_ROUTE: Final = b"\x01\x00"


@dataclass(frozen=True, slots=True)
class Hop:
    """The next node of a message, and which of its subscribers it is for there."""

    peer: int
    route: bytes = PLAIN_ROUTE


class Change(Enum):
    """What became of the topics that go to a peer."""

    NONE = "none"
    NARROWER = "narrower"
    """Some may no longer go there: routes that still do cost a useless forward."""
    WIDER = "wider"
    """Some may go there now: a route from before would lose messages."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a receiver made of an announcement or a position."""

    outcome: Outcome
    change: Change


class Stream(Protocol):
    """What a node has, announced to its peers, and what they have announced."""

    announces: bool
    """Whether there is anything to tell and to learn."""

    @property
    def position(self) -> Position:
        """Of the last announcement."""

    @property
    def dirty(self) -> bool:
        """Whether `announcement` would have something to say."""

    def wanted(self, filter: bytes) -> None:
        """It has appeared here. Once for each filter, until it is `unwanted`."""

    def unwanted(self, filter: bytes) -> None:
        """It has vanished. KeyError if it wasn't there."""

    def announcement(self) -> bytes | None:
        """All that has changed since the last one."""

    def snapshot(self) -> bytes:
        """The state as of the last announcement."""

    def advance(self) -> bool:
        """Go on with work that was put off; False if there is none."""

    def joined(self, peer: int) -> None:
        """A peer is there. What it has isn't known, unless it was there before."""

    def restarted(self, peer: int) -> None:
        """What is known of a peer no longer holds."""

    def in_step(self, peer: int) -> bool:
        """Whether all that the peer has announced is known here."""

    def died(self, peer: int) -> None:
        """It is away for long."""

    def gone(self, peer: int) -> None:
        """It won't come back."""

    def receive(self, peer: int, announcement: bytes) -> Receipt:
        """Take a peer's announcement. InterestError if it is damaged: then the peer may have anything."""

    def compare(self, peer: int, position: Position) -> Receipt:
        """Hold a peer's own position against what is known of it."""


class Routing(Stream, Protocol):
    relays: bool
    """Whether messages from peers are passed on."""

    def hops(self, topic: bytes) -> tuple[Hop, ...]:
        """Where a message of this node goes. Asked once for a topic, then cached until the routes change."""

    def onward(self, topic: bytes, sender: int) -> tuple[Hop, ...]:
        """Where a message that came from `sender` goes on to; nowhere, unless this mode relays."""
