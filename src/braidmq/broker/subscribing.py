"""SUBSCRIBE and UNSUBSCRIBE: each filter is judged by itself, and each gets its own reason code."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from braidmq.broker.events import Subscribed, SubscribeReceived, Unsubscribed
from braidmq.broker.rights import may_read
from braidmq.broker.router import Subscription
from braidmq.broker.session import Session
from braidmq.errors import ProtocolError
from braidmq.messages.message import Message
from braidmq.store.records import SUBSCRIBED, UNSUBSCRIBED, options_byte
from braidmq.topics import split_shared, validate_filter
from braidmq.wire import ReasonCode, Suback, Subscribe, Unsuback, Unsubscribe
from braidmq.wire import Subscription as Request

if TYPE_CHECKING:
    from braidmq.broker.connection import Connection

SHARED_PREFIX = "$share/"


def subscribe(connection: "Connection", packet: Subscribe) -> Iterator[None]:
    """Add the subscriptions, answer, and send what is retained for them: a step for each filter."""
    audience = connection.hub.watching.audience
    if audience is not None:
        wanted = tuple(request.filter for request in packet.subscriptions)
        audience.tell(SubscribeReceived(client_id=connection.session.client_id, filters=wanted))
    identifiers = packet.properties.subscription_identifiers
    identifier = identifiers[0] if identifiers else 0
    reasons = []
    added: dict[str, tuple[Subscription, bool]] = {}  # of filters that are named twice, the last
    for request in packet.subscriptions:
        try:
            subscription, is_new = _add(connection, request, identifier)
        except ProtocolError as error:
            reasons.append(error.reason)
        else:
            reasons.append(subscription.qos)
            was_new = added.get(request.filter, (None, False))[1]
            added[request.filter] = subscription, is_new or was_new
        yield
    connection.broker.answer_seen(connection, Suback(packet.packet_id, tuple(reasons)))  # [MQTT-3.8.4-6]
    if audience is not None:
        client_id = connection.session.client_id
        for request, reason in zip(packet.subscriptions, reasons, strict=True):
            audience.tell(Subscribed(client_id=client_id, filter=request.filter, reason=reason))
    for subscription, is_new in added.values():
        _send_retained(connection, subscription, is_new)
        yield


def _add(connection: "Connection", request: Request, identifier: int) -> tuple[Subscription, bool]:
    limits = connection.hub.limits
    validate_filter(request.filter, bytes_max=limits.topic_bytes_max, levels_max=limits.topic_levels_max)
    group, plain = split_shared(request.filter)
    session = connection.session
    gate = connection.broker.gate
    if gate.checks_topics and not gate.may_subscribe(connection.user, session.client_id, plain):
        raise ProtocolError(ReasonCode.NOT_AUTHORIZED, "not allowed to subscribe")
    if session.is_remembered and connection.hub.promises.store.is_failing:
        raise ProtocolError(ReasonCode.QUOTA_EXCEEDED, "the store can't be written")
    former = session.subscriptions.get(request.filter)
    if former is None and len(session.subscriptions) >= limits.subscriptions_per_client_max:
        raise ProtocolError(ReasonCode.QUOTA_EXCEEDED, "too many subscriptions")
    if former is None and group is not None and _groups_of(session) >= limits.groups_per_client_max:
        raise ProtocolError(ReasonCode.QUOTA_EXCEEDED, "too many shared groups")
    subscription = Subscription(
        session,
        plain.encode(),
        group,
        request.qos,
        request.no_local,
        request.retain_as_published,
        request.retain_handling,
        identifier,
    )
    connection.router.subscribe(subscription)  # [MQTT-3.8.4-3] replaces one of that filter
    session.subscriptions[request.filter] = subscription
    options = options_byte(
        request.qos, request.no_local, request.retain_as_published, request.retain_handling
    )
    connection.broker.remember(session, SUBSCRIBED, request.filter, options, identifier)
    return subscription, former is None


def _groups_of(session: Session) -> int:
    """In how many shared groups it is, those included in which it only finishes what was begun."""
    return len(session.member.groups) if session.member is not None else 0


def _send_retained(connection: "Connection", subscription: Subscription, is_new: bool) -> None:
    """Retained messages for the new subscription, if it wants them [MQTT-3.3.1-9 to 3.3.1-11]."""
    handling = subscription.retain_handling
    if subscription.group is not None or handling == 2 or (handling == 1 and not is_new):
        return
    if len(connection.broker.retained):
        # Asked now and not by the iterator: what is retained later comes as a new message.
        found = connection.broker.retained.replay(subscription.filter)
        messages = _readable(connection, subscription, found)
        connection.session.send_retained(subscription.filter, messages, subscription.target())


def _readable(
    connection: "Connection", subscription: Subscription, found: Iterator[Message | None]
) -> Iterator[Message | None]:
    """What is retained for the subscription, and None for what isn't for it: that is work as well."""
    broker, session, target = connection.broker, connection.session, subscription.target()
    for message in found:
        is_wanted = message is not None and target.for_publisher(message.publisher) is not None
        if message is not None and is_wanted and broker.gate.checks_topics:
            is_wanted = may_read(broker.gate, session, message.topic)
        yield message if is_wanted else None


def unsubscribe(connection: "Connection", packet: Unsubscribe) -> Iterator[None]:
    """Remove the subscriptions and answer: a step for each filter."""
    reasons = []
    for filter in packet.filters:
        reasons.append(_remove(connection, filter))
        yield
    connection.broker.answer(connection, Unsuback(packet.packet_id, tuple(reasons)))
    if connection.hub.watching.audience is not None:
        client_id = connection.session.client_id
        for filter, reason in zip(packet.filters, reasons, strict=True):
            unsubscribed = Unsubscribed(client_id=client_id, filter=filter, reason=reason)
            connection.hub.watching.audience.tell(unsubscribed)


def _remove(connection: "Connection", filter: str) -> int:
    session = connection.session
    subscription = session.subscriptions.pop(filter, None)
    if subscription is None:
        return ReasonCode.NO_SUBSCRIPTION_EXISTED
    connection.router.unsubscribe(subscription)
    if subscription.group is None:  # those of a group have none, but the filter may be another's
        session.stop_replay(subscription.filter)
    connection.broker.remember(session, UNSUBSCRIBED, filter)
    return ReasonCode.SUCCESS
