"""What clients say of themselves as members of shared groups: in CONNECT, and in status reports.

A client asks in CONNECT, by the User Property `status-ping`, to report its status in extended PINGREQs or in
PUBLISH packets to `$load/CLIENT-ID`; the CONNACK agrees. Without that an extended PINGREQ is malformed. A
report that is ill-formed or comes too often is not used, but counted; its PINGREQ is answered all the same.
"""

from collections import Counter
from math import isfinite
from typing import TYPE_CHECKING, Final

import msgspec

from braidmq.timing.bucket import Bucket
from braidmq.wire import Connect
from braidmq.wire.pingreq import (
    ACK_MODE_PROPERTY,
    ACK_WHEN_PROCESSED,
    STATUS_BY_PING,
    STATUS_BY_PUBLISH,
    STATUS_EVENTS_PROPERTY,
    STATUS_INTERVAL_PROPERTY,
    STATUS_PING_PROPERTY,
    STATUS_TOPIC_PREFIX,
)
from braidmq.wire.status import StatusFault, parse_status

if TYPE_CHECKING:
    from braidmq.broker.session import Session

WEIGHT_PROPERTY: Final = "share-weight"  # CONNECT: its share under the policy `weighted`
CAPACITY_PROPERTY: Final = "share-capacity"  # CONNECT: messages a second, for the policy `capacity`
REPORTS_PER_S_MAX: Final = 20  # of one connection
TOO_OFTEN: Final = "too often"


class Declaration(msgspec.Struct, frozen=True):
    """What a CONNECT says."""

    status: str | None = None  # how it reports: STATUS_BY_PING, STATUS_BY_PUBLISH, or not at all
    reports_events: bool = False
    acks_when_processed: bool = False
    weight: float = 1.0
    capacity: float = 0.0


NOTHING_DECLARED: Final = Declaration()


def declared_in(packet: Connect) -> Declaration:
    """Values that aren't understood count as not said: they are wishes of the client's own user."""
    said = dict(packet.properties.user_properties)
    if not said:
        return NOTHING_DECLARED
    status = said.get(STATUS_PING_PROPERTY)
    return Declaration(
        status if status in (STATUS_BY_PING, STATUS_BY_PUBLISH) else None,
        said.get(STATUS_EVENTS_PROPERTY) == "1",
        said.get(ACK_MODE_PROPERTY) == ACK_WHEN_PROCESSED,
        _positive(said.get(WEIGHT_PROPERTY), 1.0),
        _positive(said.get(CAPACITY_PROPERTY), 0.0),
    )


def _positive(text: str | None, default: float) -> float:
    try:
        value = float(text) if text is not None else default
    except ValueError:
        return default
    return value if isfinite(value) and value > 0 else default


def agreed(declared: Declaration, interval_ms: int) -> tuple[tuple[str, str], ...]:
    """The User Properties with which the CONNACK answers."""
    if declared.status is None:
        return ()
    return ((STATUS_PING_PROPERTY, declared.status), (STATUS_INTERVAL_PROPERTY, str(interval_ms)))


def status_topic_of(client_id: str) -> bytes:
    return (STATUS_TOPIC_PREFIX + client_id).encode()


class StatusReports:
    """Takes the reports of all clients; `taken` and `faults` count them."""

    def __init__(self) -> None:
        self.taken = 0
        self.faults: Counter[str] = Counter({str(fault): 0 for fault in (*StatusFault, TOO_OFTEN)})

    def take(self, session: "Session", payload: bytes, pace: Bucket) -> None:
        """`pace` is the connection's: how often it may report."""
        if not pace.take_one(session.hub.now):
            self.faults[TOO_OFTEN] += 1
            return
        report = parse_status(payload)
        if isinstance(report, StatusFault):
            self.faults[str(report)] += 1
            return
        self.taken += 1
        told: set[object] = set()  # owners of its groups: each has one Member of it
        for group in list(session.groups):
            if group.reports_to in told:
                group.pumped()
            else:
                group.reported(session, report)
                told.add(group.reports_to)
