"""Everybody who looks on: what the broker tells its steps to, while there is somebody.

`Hub.audience` is None while nobody looks on, and `Hub.message_audience` while nobody wants to know about
single messages, with `Hub.watched` 0; so a broker without observers pays one comparison a message. The short
methods below are what C calls: each asks first whether the event is wanted, then whether anybody heeds the
message, and only then makes it. An observer that fails is counted and told about, and hears the next event
like all others.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from braidmq.broker.events import (
    EVERY_MESSAGE,
    OF_MESSAGES,
    Acknowledged,
    Delivered,
    Dropped,
    Event,
    MemberSelected,
    Observer,
    PacketRead,
    PacketSent,
    Published,
    QosCompleted,
    Queued,
)
from braidmq.broker.hub import Hub
from braidmq.messages.message import Message
from braidmq.wire import PacketType

if TYPE_CHECKING:
    from braidmq.broker.session import Session

PUBACK: Final = 0x40
PUBREC: Final = 0x50
PUBREL: Final = 0x62
PUBCOMP: Final = 0x70
FAILED: Final = 0x80  # reasons from here on are errors
PACKET_NAMES: Final = ("", *(kind.name for kind in PacketType))

# Of what happens for each message, the bits in `hub.pxd` by which C knows whether to call at all.
WATCHED: Final[dict[type[Event], int]] = {
    PacketRead: 1,
    PacketSent: 1,
    Published: 2,
    Delivered: 4,
    QosCompleted: 8,
}

# (topic, publisher, receiver) -> whether somebody may look at what happens to the message
Heeds = Callable[[bytes, str | None, str | None], bool]
OnFailure = Callable[[Observer, Exception], None]


class Audience:
    """The observers of one broker."""

    def __init__(self, hub: Hub, on_failure: OnFailure) -> None:
        self.failures = 0
        self._hub = hub
        self._on_failure = on_failure
        self._observers: list[tuple[Observer, Heeds | None]] = []
        self._by_kind: dict[type[Event], list[Observer]] = {}

    def add(self, observer: Observer, heeds: Heeds | None = None) -> None:
        """Tell `observer` from now on; about messages only if `heeds` says so, if it is given."""
        self._observers.append((observer, heeds))
        self._changed()

    def remove(self, observer: Observer) -> None:
        """Tell it no more; one that isn't there doesn't matter."""
        self._observers = [known for known in self._observers if known[0] is not observer]
        self._changed()

    def _changed(self) -> None:
        self._by_kind = {}
        for observer, _ in self._observers:
            for kind in observer.wants:
                self._by_kind.setdefault(kind, []).append(observer)
        self._hub.watching.audience = self if self._observers else None
        self._hub.watching.message_audience = self if self._by_kind.keys() & OF_MESSAGES else None
        self._hub.watching.wanted = sum({WATCHED[kind] for kind in self._by_kind if kind in WATCHED})

    @property
    def needs_every_message(self) -> bool:
        """Whether somebody wants what the fast lane doesn't tell."""
        return bool(self._by_kind.keys() & EVERY_MESSAGE)

    def tell(self, event: Event) -> None:
        """It has happened."""
        for observer in self._by_kind.get(type(event), ()):
            try:
                observer.observe(event)
            except Exception as error:  # whatever a stranger's code does, the broker goes on
                self.failures += 1
                self._on_failure(observer, error)

    def _heeds(self, message: Message, client_id: str | None) -> bool:
        for _, heeds in self._observers:
            if heeds is None or heeds(message.topic, message.publisher, client_id):
                return True
        return False

    # ---- what C calls --------------------------------------------------------------------------------

    def packet_read(self, client_id: str | None, first: int, size_bytes: int) -> None:
        if PacketRead in self._by_kind:
            name = PACKET_NAMES[first >> 4]
            self.tell(PacketRead(packet=name, size_bytes=size_bytes, client_id=client_id))

    def packet_sent(self, client_id: str | None, first: int, size_bytes: int) -> None:
        if PacketSent in self._by_kind:
            name = PACKET_NAMES[first >> 4]
            self.tell(PacketSent(packet=name, size_bytes=size_bytes, client_id=client_id))

    def published(self, message: Message, packet_id: int) -> None:
        if Published in self._by_kind and self._heeds(message, None):
            about = _about(message)
            retain, payload = message.retain, message.payload
            self.tell(Published(**about, payload=payload, packet_id=packet_id, retain=retain))

    def selected(self, message: Message, client_id: str, group: str) -> None:
        """A shared group has chosen a member."""
        if MemberSelected in self._by_kind and self._heeds(message, client_id):
            self.tell(MemberSelected(**_about(message), client_id=client_id, group=group))

    def queued(self, message: Message, client_id: str | None, group: str | None, why: str) -> None:
        if Queued in self._by_kind and self._heeds(message, client_id):
            self.tell(Queued(**_about(message), client_id=client_id, group=group, why=why))

    def delivered(
        self,
        message: Message,
        client_id: str | None,
        qos: int,
        packet_id: int,
        dup: bool,
        retain: bool,
        size_bytes: int,
    ) -> None:
        """A PUBLISH was written."""
        self.packet_sent(client_id, PacketType.PUBLISH << 4, size_bytes)
        if client_id is not None and Delivered in self._by_kind and self._heeds(message, client_id):
            about = _about(message) | {"qos": qos, "packet_id": packet_id}
            self.tell(Delivered(**about, client_id=client_id, is_repeated=dup, is_retained=retain))

    def dropped(self, message: Message, client_id: str | None, group: str | None, why: str) -> None:
        if Dropped in self._by_kind and self._heeds(message, client_id):
            self.tell(Dropped(**_about(message), client_id=client_id, group=group, why=why))

    def acknowledged(self, session: "Session", first: int, packet_id: int, reason: int) -> None:
        """A client has answered a delivery, or releases a publish of its own; nothing is changed yet."""
        if first == PUBREL:
            self._tell_acknowledged(session.client_id, first, packet_id, reason, None)
            return
        found = session.under_way(packet_id)
        if found is None:
            return
        qos, message = found
        if message is None or self._heeds(message, session.client_id):
            self._tell_acknowledged(session.client_id, first, packet_id, reason, message)
            if first != PUBREC or reason >= FAILED:
                self._complete(session.client_id, qos, packet_id, reason, is_inbound=False)

    def answered(
        self, client_id: str | None, first: int, packet_id: int, reason: int, size_bytes: int
    ) -> None:
        """We have acknowledged: PUBACK and PUBCOMP end what the client has begun."""
        self.packet_sent(client_id, first, size_bytes)
        if client_id is None or first == PUBREL or (first == PUBREC and reason < FAILED):
            return
        self._complete(client_id, 1 if first == PUBACK else 2, packet_id, reason, is_inbound=True)

    def _tell_acknowledged(
        self, client_id: str, first: int, packet_id: int, reason: int, message: Message | None
    ) -> None:
        if Acknowledged in self._by_kind:
            self.tell(
                Acknowledged(
                    client_id=client_id,
                    packet=PACKET_NAMES[first >> 4],
                    packet_id=packet_id,
                    reason=reason,
                    topic=message.topic.decode() if message is not None else None,
                    publisher=message.publisher if message is not None else None,
                )
            )

    def _complete(self, client_id: str, qos: int, packet_id: int, reason: int, *, is_inbound: bool) -> None:
        if QosCompleted in self._by_kind:
            self.tell(
                QosCompleted(
                    client_id=client_id, qos=qos, packet_id=packet_id, reason=reason, is_inbound=is_inbound
                )
            )


def _about(message: Message) -> dict[str, Any]:
    """What every event about a message tells of it."""
    return {
        "topic": message.topic.decode(),
        "publisher": message.publisher,
        "qos": message.qos,
        "payload_bytes": len(message.payload),
    }
