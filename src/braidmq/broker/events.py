"""What happens in a broker, as values: the one vocabulary of those who look on.

An `Observer` is told. It names the kinds of events that it wants, and gets each as it happens, on the
broker's own thread and in order; it can't change anything, and must not wait. A package offers one under the
entry point group `braidmq.observers`; docs/plugins.md shows how. `braidmq trace` is one too.

What nobody wants isn't made. Events of EVERY_MESSAGE need a look at each message by itself, so while somebody
wants one of them no message takes the fast lane; the others cost nothing until they happen.
"""

import re
from collections.abc import Set as AbstractSet
from typing import Final, Literal, Protocol

import msgspec

ENTRY_POINTS: Final = "braidmq.observers"


def _kind(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


class Event(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="kind", tag=_kind
):
    """One thing that happened. As JSON it says what in `kind`: `session_established`."""


# ---- the broker ------------------------------------------------------------------------------------------


class Started(Event, frozen=True, kw_only=True):
    """The broker listens."""

    addresses: tuple[str, ...]


class Stopped(Event, frozen=True, kw_only=True):
    """The broker has said goodbye to everybody; nothing follows."""


# ---- clients ---------------------------------------------------------------------------------------------


class ConnectReceived(Event, frozen=True, kw_only=True):
    """A client wants to come in."""

    client_id: str  # empty: it is going to be given one
    peer: str
    protocol: int  # 3 for MQTT 3.1, 4 for 3.1.1, 5 for 5
    username: str | None = None
    clean_start: bool = False
    keep_alive_s: int = 0


class Authenticated(Event, frozen=True, kw_only=True):
    """A client is who it says it is; `user` is absent for an anonymous one."""

    client_id: str
    peer: str
    user: str | None = None


class ConnectRefused(Event, frozen=True, kw_only=True):
    """A client is not let in."""

    client_id: str | None
    peer: str
    reason: int
    why: str


class SessionEstablished(Event, frozen=True, kw_only=True):
    """A client is in, with the session that it had or a new one."""

    client_id: str
    peer: str
    user: str | None = None
    is_resumed: bool = False


class Disconnected(Event, frozen=True, kw_only=True):
    """A client that was in has gone, or was sent away."""

    client_id: str
    peer: str
    why: str


SessionEnd = Literal["expired", "replaced", "not_kept", "deleted", "moved"]


class SessionEnded(Event, frozen=True, kw_only=True):
    """Nothing is kept for the client any more."""

    client_id: str
    # `replaced` by a clean start; `not_kept` as the client wished; `deleted` by an operator; `moved` away
    why: SessionEnd


class WillSent(Event, frozen=True, kw_only=True):
    """What a client has left for the case that it goes without a word is published."""

    client_id: str
    topic: str
    qos: int = 0
    payload_bytes: int = 0


# ---- packets ---------------------------------------------------------------------------------------------


class PacketRead(Event, frozen=True, kw_only=True):
    """A whole packet has come in; `client_id` is absent before CONNECT is read."""

    packet: str  # "PUBLISH"
    size_bytes: int
    client_id: str | None = None


class PacketSent(Event, frozen=True, kw_only=True):
    """A packet was written; it leaves at the end of the turn, or when what it promises is kept."""

    packet: str
    size_bytes: int
    client_id: str | None = None


# ---- subscriptions ---------------------------------------------------------------------------------------


class SubscribeReceived(Event, frozen=True, kw_only=True):
    """A client wants to subscribe."""

    client_id: str
    filters: tuple[str, ...]


class Subscribed(Event, frozen=True, kw_only=True):
    """One filter of a SUBSCRIBE is decided: `reason` is the QoS granted, or why not."""

    client_id: str
    filter: str
    reason: int = 0


class Unsubscribed(Event, frozen=True, kw_only=True):
    """One filter of an UNSUBSCRIBE is decided, or (0x87) a reload has taken the subscription away."""

    client_id: str
    filter: str
    reason: int = 0


# ---- messages --------------------------------------------------------------------------------------------


class AboutMessage(Event, frozen=True, kw_only=True):
    """Something happened to a message. `publisher` is absent for messages of the broker itself."""

    topic: str
    publisher: str | None = None
    qos: int = 0
    payload_bytes: int = 0


class Published(AboutMessage, frozen=True, kw_only=True):
    """A client has sent a message; what becomes of it follows."""

    payload: bytes = b""
    packet_id: int = 0
    retain: bool = False


class Retained(AboutMessage, frozen=True, kw_only=True):
    """The message is kept for later subscribers; without payload, the one of its topic is deleted."""


class MemberSelected(AboutMessage, frozen=True, kw_only=True):
    """A shared group gives the message to this member."""

    client_id: str
    group: str


class Queued(AboutMessage, frozen=True, kw_only=True):
    """The message waits: for a client, or in a shared group for any of its members."""

    why: str
    client_id: str | None = None
    group: str | None = None


class Delivered(AboutMessage, frozen=True, kw_only=True):
    """The message was written to a client, at once or from its queue; `qos` is that of the delivery."""

    client_id: str
    packet_id: int = 0
    is_repeated: bool = False
    is_retained: bool = False  # from before the subscription, or the client wants to know that it is kept


class Dropped(AboutMessage, frozen=True, kw_only=True):
    """The message does not reach this client or shared group, or (without either) nobody.

    `why` is one of `DROP_NAMES`.
    """

    why: str
    client_id: str | None = None
    group: str | None = None


class Acknowledged(Event, frozen=True, kw_only=True):
    """A client has answered: PUBACK, PUBREC, PUBCOMP for a delivery, PUBREL for a publish of its own."""

    client_id: str
    packet: str
    packet_id: int
    reason: int = 0
    topic: str | None = None  # absent when the message is gone already
    publisher: str | None = None


class QosCompleted(Event, frozen=True, kw_only=True):
    """An exchange of QoS 1 or 2 is over: of a delivery, or (`is_inbound`) of a client's own publish."""

    client_id: str
    qos: int
    packet_id: int
    reason: int = 0
    is_inbound: bool = False


# Told for each message or packet; these are asked about on the way of every message.
OF_MESSAGES: Final[frozenset[type[Event]]] = frozenset(
    {
        PacketRead,
        PacketSent,
        Published,
        MemberSelected,
        Queued,
        Delivered,
        Dropped,
        Acknowledged,
        QosCompleted,
    }
)
# Of them, those that the fast lane could not tell.
EVERY_MESSAGE: Final = OF_MESSAGES - {Queued, Acknowledged, QosCompleted}


class Observer(Protocol):
    """Somebody who looks on."""

    @property
    def wants(self) -> AbstractSet[type[Event]]:
        """The kinds of events to be told; asked once."""

    def observe(self, event: Event) -> None:
        """It has happened. Must not wait: the broker does nothing else meanwhile."""
