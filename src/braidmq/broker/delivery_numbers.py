"""Delivery numbers: what a client needs to tell a repetition from a new message, whatever has crashed.

A client asks in CONNECT, by the User Property `braidmq-delivery-numbers: 1`. The CONNACK confirms it by the
same, together with the session's identity, and every QoS 1 and 2 PUBLISH then has its number as
`braidmq-delivery`, the first User Property of that name. A number is given out once in the life of a session;
a repetition has the number that it had. The numbers of a session with another identity begin anew.
"""

from random import Random
from typing import Final

import msgspec

from braidmq.broker.session import Session
from braidmq.store.records import NUMBERED
from braidmq.wire import Connect, Properties

NUMBERS_PROPERTY: Final = "braidmq-delivery-numbers"  # CONNECT: wants them; CONNACK: gets them
IDENTITY_PROPERTY: Final = "braidmq-session"  # CONNACK: which session they belong to


def are_wanted(packet: Connect) -> bool:
    return (NUMBERS_PROPERTY, "1") in packet.properties.user_properties


def confirmed(properties: Properties, identity: int) -> Properties:
    """The properties of a CONNACK that grants them; as long for every identity."""
    told = ((NUMBERS_PROPERTY, "1"), (IDENTITY_PROPERTY, f"{identity:016x}"))
    return msgspec.structs.replace(properties, user_properties=(*properties.user_properties, *told))


def identify(session: Session, rng: Random) -> int:
    """The session's identity; one that had none gets it, and the store is told."""
    if not session.identity:
        session.identity = rng.getrandbits(64) | 1
        if session.is_remembered:
            session.hub.promises.journal.append(numbers_record(session))
    return session.identity


def numbers_record(session: Session) -> tuple[int, str, int, int, int]:
    """What the session has counted, for the store."""
    last_packet_id = session.inflight.last_packet_id
    return (NUMBERED, session.client_id, session.identity, session.last_sequence, last_packet_id)
