"""What the admin API shows and takes, as values: the broker's objects are never handed out themselves.

The OpenAPI document is read off these definitions.
"""

from math import inf
from typing import Annotated, Any, Generic, Literal, TypeVar

import msgspec

from braidmq.broker.broker import Broker
from braidmq.broker.connection import Connection
from braidmq.broker.router import Subscription
from braidmq.broker.session import Session
from braidmq.broker.sharing.state import GroupState
from braidmq.config.groups import PolicyName
from braidmq.messages.message import Message

T = TypeVar("T")


class Problem(msgspec.Struct, frozen=True):
    """Why a request failed."""

    status: int
    detail: str


class Page(msgspec.Struct, Generic[T], frozen=True):
    """A part of a list; `next` is given back as `after` to have the following part, and absent at the end."""

    items: list[T]
    next: str | None = None


class Health(msgspec.Struct, frozen=True):
    """The broker's loop runs."""

    status: Literal["alive"]
    version: str
    uptime_s: float


class Readiness(msgspec.Struct, frozen=True):
    """Whether the broker can do all of its work."""

    ready: bool
    reasons: list[str]


class SubscriptionView(msgspec.Struct, frozen=True):
    client_id: str
    filter: str
    group: str | None
    qos: int
    no_local: bool
    retain_as_published: bool
    identifier: int | None


class SessionView(msgspec.Struct, frozen=True):
    """What the broker keeps of a client, connected or not. `expiry_s` is null for a session without end.

    `away_s` is how long its client has been away; null while it is connected.
    """

    client_id: str
    owner: str | None
    connected: bool
    away_s: float | None
    expiry_s: float | None
    subscriptions: int
    in_flight_messages: int
    queued_messages: int
    queued_bytes: int
    has_will: bool


class ClientView(msgspec.Struct, frozen=True):
    """A connected client. `protocol` is 3 for MQTT 3.1, 4 for 3.1.1, 5 for 5."""

    client_id: str
    user: str | None
    peer: str
    protocol: int
    keep_alive_s: int
    silent_s: float
    output_bytes: int
    congested: bool
    session: SessionView


class RetainedView(msgspec.Struct, frozen=True):
    topic: str
    qos: int
    payload_bytes: int
    payload_base64: bytes | None
    publisher: str | None
    expires_in_s: float | None


class GroupChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Another policy for the shared groups of a name; for the one with `filter` alone, if it is given.

    It holds until the configuration is read again or the broker stops.
    """

    policy: PolicyName
    options: dict[str, Any] = {}
    filter: str | None = None


class GroupChanged(msgspec.Struct, frozen=True):
    """The groups that a change concerns."""

    groups: list[GroupState]


class PublishRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A message in the operator's name; its payload as text, or as base64 in `payload_base64`."""

    topic: str
    payload: str = ""
    payload_base64: bytes | None = None
    qos: Annotated[int, msgspec.Meta(ge=0, le=2)] = 0
    retain: bool = False
    expiry_s: Annotated[int, msgspec.Meta(ge=1)] | None = None


class Published(msgspec.Struct, frozen=True):
    """What became of a message: whether somebody subscribes to its topic, and whether all of them took it."""

    matched: bool
    refused: bool


class Kicked(msgspec.Struct, frozen=True):
    client_id: str


class Deleted(msgspec.Struct, frozen=True):
    """How many sessions were ended."""

    sessions: int


def readiness(broker: Broker, why_not: str | None = None) -> Readiness:
    """Whether a broker can do all of its work; `why_not` is what its cluster has to say against it."""
    reasons = [why_not] if why_not is not None else []
    if broker.hub.promises.store.is_failing:
        reasons.append("the store can't be written: QoS 1 and 2 are refused")
    if broker.is_full:
        reasons.append("there are as many connections as connections_max allows")
    return Readiness(not reasons, reasons)


def subscription_view(client_id: str, filter: str, subscription: Subscription) -> SubscriptionView:
    return SubscriptionView(
        client_id,
        filter,
        subscription.group,
        subscription.qos,
        subscription.no_local,
        subscription.retain_as_published,
        subscription.identifier or None,
    )


def session_view(session: Session) -> SessionView:
    return SessionView(
        session.client_id,
        session.owner,
        session.is_connected,
        None if session.is_connected else max(0.0, session.hub.now - session.away_since_s),
        None if session.expiry_s == inf else session.expiry_s,
        len(session.subscriptions),
        session.inflight.count,
        session.queued,
        session.queue_bytes,
        session.will is not None,
    )


def client_view(session: Session, connection: Connection) -> ClientView:
    return ClientView(
        session.client_id,
        connection.user,
        connection.peer,
        connection.version,
        connection.keep_alive_s,
        max(0.0, connection.hub.now - connection.received_at_s),
        len(connection.output) + connection.backlog_bytes,
        connection.congested,
        session_view(session),
    )


def retained_view(message: Message, now: float, *, with_payload: bool) -> RetainedView:
    return RetainedView(
        message.topic.decode(),
        message.qos,
        len(message.payload),
        message.payload if with_payload else None,
        message.publisher,
        message.expires_at_s - now if message.expires_at_s else None,
    )
