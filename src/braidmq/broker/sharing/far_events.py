"""What the nodes of a shared group's members and its owner tell each other. Values, with a codec.

To the owner go the events of `FromMember`, to a member's node those of `FromOwner`. Between two nodes they
arrive in order, each of them once. A group is named by its number, a member by its client id, a delivery by
its token: the number of its message in the group of the owner that gave it.
"""

from typing import Final

import msgspec

FAR_EVENTS_MAX: Final = 256  # in one text

ACKNOWLEDGED, RECEIVED, COMPLETED, UNSENDABLE = range(4)  # stages of Settled

# Why a message comes back.
NO_ROOM, GONE, MAY_NOT_READ, WITHDRAWN = range(4)


class FarEvent(msgspec.Struct, frozen=True, array_like=True, tag=str.lower, gc=False):
    group: int
    client: str


class Joined(FarEvent, frozen=True):
    """A session subscribes, or something of what it says of itself has changed; told again at each link."""

    qos: int  # -1: it subscribes no longer, but has deliveries
    room: int  # deliveries that it takes at a time; 0 while it is away
    is_online: bool
    lasts: bool  # its session outlives its connection
    boot: int  # of its node: who does not last is another one after a restart
    acks_when_processed: bool = False
    reports_events: bool = False
    weight: float = 1.0
    capacity: float = 0.0
    open: tuple[int, ...] = ()  # tokens of what it has of this owner
    numbers: tuple[int, ...] = ()  # in the session, of what it has had since before a restart of its node


class Left(FarEvent, frozen=True):
    """It subscribes no longer; what was begun with it is finished."""


class Ended(FarEvent, frozen=True):
    """The session is over."""


class Went(FarEvent, frozen=True):
    """It is away."""


class Room(FarEvent, frozen=True):
    """It takes so many deliveries at a time."""

    room: int


class Kept(FarEvent, frozen=True):
    """A lasting session has the delivery, under this number of its own."""

    token: int
    number: int


class Settled(FarEvent, frozen=True):
    """The client has answered, or can't be sent it. By number where the token is 0."""

    token: int
    number: int
    stage: int
    reason: int
    after_us: int  # from sending to this answer; the link has no part in it


class Returned(FarEvent, frozen=True):
    """It could not be sent to the client; a QoS 2 message comes with it."""

    token: int
    why: int


class RollBegan(FarEvent, frozen=True):
    """All members of this node follow, of all groups."""


class RollEnded(FarEvent, frozen=True):
    """Who was not named is no longer a member."""


class Give(FarEvent, frozen=True):
    """The message that comes with it is this member's."""

    token: int  # 0: QoS 0, nothing is heard of it
    qos: int


class Withdraw(FarEvent, frozen=True):
    """The member must forget the delivery, if it has it."""

    token: int


FromMember = Joined | Left | Ended | Went | Room | Kept | Settled | Returned | RollBegan | RollEnded
FromOwner = Give | Withdraw

encode_events: Final = msgspec.msgpack.Encoder().encode
decode_events: Final = msgspec.msgpack.Decoder(list[FromMember | FromOwner]).decode
