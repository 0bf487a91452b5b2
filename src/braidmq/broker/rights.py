"""What a client may do, checked again for what it has already: subscriptions and messages that wait.

Asked when the rules change, when a session is resumed, and after a restart. Who would not be let in any more
is sent away. A right that is gone takes the subscription with it at once; messages that wait and may no
longer be read are dropped and counted, or go to another member of their shared group.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from braidmq.broker.access import Gate
from braidmq.broker.events import Unsubscribed
from braidmq.broker.session import Session
from braidmq.limits import Overflow
from braidmq.store.records import UNSUBSCRIBED
from braidmq.wire import ReasonCode

if TYPE_CHECKING:
    from braidmq.broker.broker import Broker


def replace_gate(broker: "Broker", gate: Gate) -> None:
    """Ask another gate from now on, and take back at once what it does not allow."""
    broker.gate = gate
    broker.router.restrict(_reads(gate))
    for connection in list(broker.connections):
        if connection.is_open:
            connection.rights = {} if gate.checks_topics else None
            connection.check_admission()
    for session in list(broker.sessions.values()):
        recheck(broker, session)


def _reads(gate: Gate) -> Callable[[Session, bytes], bool] | None:
    if not gate.checks_topics:
        return None
    return lambda session, topic: may_read(gate, session, topic)


def may_read(gate: Gate, session: Session, topic: bytes) -> bool:
    return gate.may_read(session.owner, session.client_id, topic.decode())


def overflow_of(broker: "Broker", session: Session) -> Overflow:
    """What becomes of messages for the session when its queue is full."""
    return broker.gate.overflow(session.owner, session.client_id) or broker.limits.overflow


def recheck(broker: "Broker", session: Session) -> None:
    """Take from a session what it may no longer have."""
    gate = broker.gate
    session.overflow = overflow_of(broker, session)
    if not gate.checks_topics:
        return
    for filter, subscription in list(session.subscriptions.items()):
        if not gate.may_subscribe(session.owner, session.client_id, subscription.filter.decode()):
            del session.subscriptions[filter]
            broker.router.unsubscribe(subscription)
            broker.remember(session, UNSUBSCRIBED, filter)
            if broker.hub.watching.audience is not None:
                revoked = Unsubscribed(
                    client_id=session.client_id, filter=filter, reason=ReasonCode.NOT_AUTHORIZED
                )
                broker.hub.watching.audience.tell(revoked)
    for group, delivery in session.forget(lambda topic: may_read(gate, session, topic)):
        group.revoke(delivery)
