"""Short ways to bring a session into a state, for tests of the pure core."""

from typing import Any

from braidmq.client.events import Closed, Event
from braidmq.client.options import SessionOptions
from braidmq.client.session import Session
from braidmq.wire import V5, Connack, FrameReader, Packet, Properties, decode, encode


def sent_packets(session: Session, now: float = 0.0) -> list[Packet]:
    """What the session wants to send, decoded; takes it out of the session."""
    reader = FrameReader(1 << 28)
    reader.feed(bytes(session.data_to_send(now)))
    return [decode(first_byte, body, session.options.version) for first_byte, body in reader.frames()]


def deliver(session: Session, *packets: Packet, now: float = 0.0) -> list[Event]:
    return session.receive(b"".join(encode(packet, session.options.version) for packet in packets), now)


def connected(
    told: Properties | None = None, *, present: bool = False, now: float = 0.0, **options: Any
) -> Session:
    """A session behind a successful handshake, with nothing left to send."""
    session = Session(SessionOptions(**{"client_id": "c", **options}))
    connect(session, told, present=present, now=now)
    session.data_to_send(now)
    return session


def connect(
    session: Session, told: Properties | None = None, *, present: bool = False, now: float = 0.0
) -> list[Event]:
    session.connect(now)
    session.data_to_send(now)
    properties = told if told is not None and session.options.version == V5 else Properties()
    return deliver(session, Connack(present, 0, properties), now=now)


def reconnect(session: Session, told: Properties | None = None, *, present: bool) -> list[Event]:
    session.connection_lost()
    return connect(session, told, present=present)


def closing_error(events: list[Event]) -> Exception:
    closed = [event for event in events if isinstance(event, Closed)]
    assert len(closed) == 1, events
    return closed[0].error
