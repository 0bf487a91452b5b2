"""Shows what happens to the messages of a client or a topic, and why, while somebody looks on.

The broker tells a Tracer, which is there only while there are traces: then every message takes the general
way, not the fast lane, and costs a call that finds out whether anybody looks at it; only those that somebody
looks at cost more. Without traces nothing is called and nothing costs.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from braidmq.broker.message import Message
from braidmq.broker.session import Session
from braidmq.topics import matches

if TYPE_CHECKING:
    from braidmq.broker.broker import Broker
    from braidmq.broker.connection import Connection
    from braidmq.broker.router import Group

RELEASED: Final = 0x62  # PUBREL, which is about a message of the client's own
TOPICS_CACHED_MAX: Final = 10_000
ACKNOWLEDGEMENTS: Final = {0x40: "PUBACK", 0x50: "PUBREC", 0x62: "PUBREL", 0x70: "PUBCOMP"}

Kind = Literal[
    "connected",
    "refused",
    "disconnected",
    "subscribed",
    "unsubscribed",
    "received",
    "sent",
    "queued",
    "dropped",
    "acknowledged",
]


class TraceEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that happened. `client_id` is whom it happened to, `publisher` whose message it is about."""

    kind: Kind
    client_id: str | None = None
    publisher: str | None = None
    topic: str | None = None
    filter: str | None = None
    group: str | None = None
    qos: int | None = None
    payload_bytes: int | None = None
    packet_id: int | None = None
    reason: int | None = None
    why: str | None = None


class Trace:
    """Somebody who looks on: at one client, or at the topics that match a filter."""

    def __init__(
        self, tell: Callable[[TraceEvent], None], *, client_id: str | None = None, filter: str | None = None
    ) -> None:
        self.tell = tell
        self.client_id = client_id
        self.filter = filter

    def concerns(self, event: TraceEvent) -> bool:
        if self.client_id is not None and self.client_id not in (event.client_id, event.publisher):
            return False
        return self.filter is None or (event.topic is not None and matches(self.filter, event.topic))


def add_trace(broker: "Broker", trace: Trace) -> None:
    """Begin to tell `trace` what happens."""
    if broker.router.observer is None:
        broker.router.observer = Tracer(broker)
        for connection in broker.connections:
            connection.takes_fast_lane = False
    broker.router.observer.add(trace)


def remove_trace(broker: "Broker", trace: Trace) -> None:
    """Tell it no more; after the last one messages are fast again."""
    tracer = broker.router.observer
    if tracer is None or trace not in tracer.traces:
        return
    tracer.remove(trace)
    if not tracer.traces:
        broker.router.observer = None
        for connection in broker.connections:
            connection.takes_fast_lane = True


class Tracer:
    """What the broker tells its steps to."""

    def __init__(self, broker: "Broker") -> None:
        self.traces: list[Trace] = []
        self.clients: frozenset[str] = frozenset()  # somebody looks at whatever happens to these
        self._topics: dict[bytes, bool] = {}  # whether somebody looks at them
        self._debtors: set[str] = set()  # clients that may have yet to acknowledge what is looked at
        self._hub = broker.hub
        self._counters_before: dict[str, int] = {}
        self._queued_before = 0

    def add(self, trace: Trace) -> None:
        self.traces.append(trace)
        self._changed()

    def remove(self, trace: Trace) -> None:
        self.traces.remove(trace)
        self._changed()

    def _changed(self) -> None:
        self.clients = frozenset(trace.client_id for trace in self.traces if trace.client_id is not None)
        self._topics.clear()

    def heeds(self, message: Message) -> bool:
        """Whether somebody may look at the message, whoever gets it."""
        known = self._topics.get(message.topic)
        if known is None:
            filters = [trace.filter for trace in self.traces if trace.filter is not None]
            known = any(matches(filter, message.topic.decode()) for filter in filters)
            if len(self._topics) >= TOPICS_CACHED_MAX:
                self._topics.clear()
            self._topics[message.topic] = known
        return known or message.publisher in self.clients

    def _tell(self, event: TraceEvent) -> None:
        for trace in self.traces:
            if trace.concerns(event):
                trace.tell(event)

    # ---- clients -------------------------------------------------------------------------------------

    def connected(self, connection: "Connection", is_resumed: bool) -> None:
        why = f"from {connection.peer}, {'to the session it had' if is_resumed else 'to a new session'}"
        self._tell(TraceEvent(kind="connected", client_id=connection.session.client_id, why=why))

    def connect_refused(self, client_id: str | None, reason: int, why: str) -> None:
        self._tell(TraceEvent(kind="refused", client_id=client_id, reason=reason, why=why))

    def disconnected(self, client_id: str, why: str) -> None:
        self._tell(TraceEvent(kind="disconnected", client_id=client_id, why=why))

    def subscribed(self, client_id: str, filter: str, reason: int) -> None:
        self._tell(TraceEvent(kind="subscribed", client_id=client_id, filter=filter, reason=reason))

    def unsubscribed(self, client_id: str, filter: str, reason: int) -> None:
        self._tell(TraceEvent(kind="unsubscribed", client_id=client_id, filter=filter, reason=reason))

    # ---- messages ------------------------------------------------------------------------------------

    def received(self, message: Message, packet_id: int) -> None:
        """A client has published."""
        self._tell(_about(message, "received", message.publisher, packet_id=packet_id or None))

    def forbidden(self, client_id: str, topic: bytes) -> None:
        """A client may not publish there."""
        event = TraceEvent(kind="dropped", publisher=client_id, topic=topic.decode(), why="not_authorized")
        self._tell(event)

    def refused(self, message: Message, why: str) -> None:
        """Nobody gets the message, and its publisher is told so."""
        self._tell(_about(message, "dropped", None, why=why))

    def delivering(self, session: Session) -> None:
        """A message is about to be given to a session: see what that changes."""
        self._counters_before = self._hub.counters()
        self._queued_before = session.queued

    def delivered(self, message: Message, session: Session, group: "Group | None") -> None:
        """It was given; what it became shows in what has changed."""
        name = group.name if group is not None else None
        kind, why = self._outcome(session)
        if message.qos:
            self._debtors.add(session.client_id)
        self._tell(_about(message, kind, session.client_id, why=why, group=name))

    def _outcome(self, session: Session) -> tuple[Kind, str | None]:
        drop = self._new_drop()
        if drop is not None:
            return "dropped", drop
        if session.queued > self._queued_before:
            return "queued", "the client is behind" if session.is_connected else "the client is away"
        if not session.is_connected:
            return "dropped", "the client is away, and QoS 0 is not queued"
        return "sent", None

    def _new_drop(self) -> str | None:
        for name, count in self._hub.counters().items():
            if name.startswith("dropped_") and count > self._counters_before[name]:
                return name.removeprefix("dropped_")
        return None

    def acknowledged(self, session: Session, first: int, packet_id: int, reason: int) -> None:
        """A client has answered a delivery, or released a QoS 2 publish of its own."""
        if first not in ACKNOWLEDGEMENTS:
            return
        client_id = session.client_id
        if client_id not in self.clients and client_id not in self._debtors:
            return
        message = self._in_flight(session, packet_id) if first != RELEASED else None
        self._tell(
            TraceEvent(
                kind="acknowledged",
                client_id=client_id,
                publisher=message.publisher if message is not None else None,
                topic=message.topic.decode() if message is not None else None,
                packet_id=packet_id,
                reason=reason,
                why=ACKNOWLEDGEMENTS[first],
            )
        )

    def _in_flight(self, session: Session, packet_id: int) -> Message | None:
        """The message that was sent to the client under an id. Costs O(what is in flight)."""
        found = None
        owes = session.queued > 0
        for known_id, message, _, _, _, _ in session.in_flight():
            if known_id == packet_id:
                found = message
            elif message is None or self.heeds(message):
                owes = True
        if not owes:
            self._debtors.discard(session.client_id)
        return found


def _about(
    message: Message,
    kind: Kind,
    client_id: str | None,
    *,
    packet_id: int | None = None,
    why: str | None = None,
    group: str | None = None,
) -> TraceEvent:
    return TraceEvent(
        kind=kind,
        client_id=client_id,
        publisher=message.publisher,
        topic=message.topic.decode(),
        group=group,
        qos=message.qos,
        payload_bytes=len(message.payload),
        packet_id=packet_id,
        why=why,
    )
