"""What a cluster's core is told. Links are numbers that the shell gives; addresses are "host:port".

Parts have local events of their own, in their own files.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LinkOpened:
    """A connection to another node stands; `dialled` is the address if we asked for it by `Dial`."""

    link: int
    dialled: str | None
    source: str = ""  # the other end, for the log


@dataclass(frozen=True, slots=True)
class FrameReceived:
    link: int
    first: int
    body: bytes


@dataclass(frozen=True, slots=True)
class LinkLost:
    """The connection is gone, or its bytes made no sense. Not told of a link that was ended by `Close`."""

    link: int
    why: str
    is_fault: bool = False  # the peer broke the rules of the link: five of these a minute, and it rests


@dataclass(frozen=True, slots=True)
class NotReached:
    """The answer to `Dial` if there is no `LinkOpened`. The shell gives one of them within a second."""

    address: str
    why: str


@dataclass(frozen=True, slots=True)
class BytesCame:
    """Something came from a linked peer that the core doesn't see (messages, acknowledgements).

    Told before `TimeCame`, for a busy link whose beats are stuck behind many bytes.
    """

    peer: int


@dataclass(frozen=True, slots=True)
class FlowChanged:
    """A slow subscriber here can't take more of QoS 0 from this peer, or can again."""

    peer: int
    is_held: bool


@dataclass(frozen=True, slots=True)
class RulesChanged:
    """This node has other rules or group settings from now on."""

    digest: bytes


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The end of a turn of the broker: what was gathered in it may leave."""


@dataclass(frozen=True, slots=True)
class TimeCame:
    """`next_at_s` has come."""


@dataclass(frozen=True, slots=True)
class Discovered:
    """All addresses at which somebody may be found: the given ones and those that discovery knows now."""

    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Forget:
    """The operator says that a node won't come back."""

    node: int


@dataclass(frozen=True, slots=True)
class Leave:
    """This node leaves for good."""


@dataclass(frozen=True, slots=True)
class Drain:
    """No new clients for this node."""


@dataclass(frozen=True, slots=True)
class Undrain:
    pass
