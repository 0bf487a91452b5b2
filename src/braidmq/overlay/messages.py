"""What overlay nodes say to each other, and how it is written for a link between brokers.

Five messages are the paper's: REXP, EEXP, PUB, UNSUB and NEW. EEXP has two forms, over a range and along a
random walk. The others are what the paper leaves to SG-TBPS and to common sense: finding one's place,
linking with one's neighbours and leaving them, the presence of subscribers, and acknowledgements.

`src` is who a message is from, `fwd` who passed it on. A `token` is chosen by the sender of a request; the
answer repeats it.
"""

from enum import IntEnum
from typing import Any

import msgspec

from braidmq.overlay.keys import KeyRange
from braidmq.overlay.table import Peer


class Status(IntEnum):
    JOINING = 0
    LINKED = 1
    LEAVING = 2


class Message(msgspec.Struct, frozen=True, array_like=True, tag=True, gc=False):
    """Anything a virtual node sends to another."""


class Rexp(Message, frozen=True, tag="REXP"):
    """Regular exploration along one side: finds the neighbours that a Skip Graph has on each level."""

    src: Peer
    fwd: Peer
    known: frozenset[int]
    level: int
    to_right: bool


class Eexp(Message, frozen=True, tag="EEXP"):
    """Extra exploration of a range: at most `budget` nodes answer."""

    src: Peer
    fwd: Peer
    known: frozenset[int]
    budget: int
    keys: KeyRange


class EexpWalk(Message, frozen=True, tag="WALK"):
    """Extra exploration on the way to a random key."""

    src: Peer
    fwd: Peer
    known: frozenset[int]
    budget: int
    target: bytes


class New(Message, frozen=True, tag="NEW"):
    """A candidate for the routing table."""

    peer: Peer


class Ranged(Message, frozen=True):
    """Something for every node in a range, delegated from hop to hop and acknowledged at each."""

    src: Peer
    fwd: Peer
    keys: KeyRange
    token: int
    hop: int
    adjacent: bool  # the receiver is the sender's right neighbour


class Pub(Ranged, frozen=True, tag="PUB"):
    seq: int
    payload: bytes
    qos: int
    want: int  # how many nodes may answer with NEW to the publisher


class Unsub(Ranged, frozen=True, tag="UNSUB"):
    """`src` is no subscriber any more."""


class Pres(Ranged, frozen=True, tag="PRES"):
    """Whether the topic has subscribers."""

    present: bool
    seq: int


class Ack(Message, frozen=True, tag="ACK"):
    token: int
    fan: int = 0  # children it was passed on to
    done: bool = True  # all of the range has been served
    is_blind: bool = False  # but on one side nobody is known, so there may be more nodes in it


class Search(Message, frozen=True, tag="SEARCH"):
    """Where does `origin` belong?"""

    fwd: Peer
    origin: Peer
    token: int
    hop: int


class Found(Message, frozen=True, tag="FOUND"):
    near: tuple[Peer, ...]


class Link(Message, frozen=True, tag="LINK"):
    """I take you for my neighbour: am I yours? Joining, and keeping alive afterwards, are the same
    question.
    """

    src: Peer
    token: int
    status: Status


class Linked(Message, frozen=True, tag="LINKED"):
    """The answer: who is near me on both sides. Somebody nearer among them is a better neighbour."""

    src: Peer
    token: int
    status: Status
    near: tuple[Peer, ...]
    present: bool | None = None  # of a publisher, to another of its topic


class Leave(Message, frozen=True, tag="LEAVE"):
    """I am leaving; these are near me on your other side."""

    src: Peer
    token: int
    near: tuple[Peer, ...]


class Gone(Message, frozen=True, tag="GONE"):
    """Nobody here has this key."""

    key: bytes
    boot: int


AnyMessage = (
    Rexp | Eexp | EexpWalk | New | Pub | Unsub | Pres | Ack | Search | Found | Link | Linked | Leave | Gone
)


def _plain(value: Any) -> Any:
    if isinstance(value, Peer):
        return (value.key, value.address, value.boot)
    if isinstance(value, KeyRange):
        return (value.low, value.high)
    raise TypeError(f"{type(value).__name__} is no part of a message")


def _made(kind: type, value: Any) -> Any:
    if kind is Peer:
        return Peer(*msgspec.convert(value, tuple[bytes, str, int]))
    if kind is KeyRange:
        return KeyRange(*msgspec.convert(value, tuple[bytes, bytes]))
    raise TypeError(f"{kind.__name__} is no part of a message")


_encoder = msgspec.msgpack.Encoder(enc_hook=_plain)
_decoder: msgspec.msgpack.Decoder[tuple[bytes, AnyMessage]] = msgspec.msgpack.Decoder(
    tuple[bytes, AnyMessage], dec_hook=_made
)


def encode(to: bytes, message: Message) -> bytes:
    """A message and the key of the virtual node it is for; the receiving broker is the link's business."""
    return _encoder.encode((to, message))


def decode(data: bytes) -> tuple[bytes, AnyMessage]:
    """Raises msgspec.DecodeError if the bytes are no message."""
    return _decoder.decode(data)
