"""What the conformance tests share: fixture types, reason codes by name, a check that the broker serves.

The reason codes are written down here again on purpose: the suite judges the codec's numbers too.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from enum import IntEnum

from braidmq.wire import Suback
from tests.support.broker import Broker
from tests.support.raw import ClosedError, RawClient

Dial = Callable[..., RawClient]
Connector = Callable[..., RawClient]
Limited = Callable[..., Broker]
Elapse = Callable[..., None]

_serial = itertools.count(1)

# One broker with every limit small, and one with all that can be turned off turned off.
SMALL = {
    "packet_bytes_max": 2000,
    "topic_bytes_max": 50,
    "topic_levels_max": 5,
    "properties_max": 5,
    "client_id_bytes_max": 30,
    "connect_bytes_max": 200,
    "session_expiry_s_max": 100,
    "subscriptions_per_client_max": 2,
    "receive_maximum": 4,
    "inflight_max": 3,
    "queue_messages_max": 5,
    "queue_bytes_max": 5000,
    "topic_alias_max": 4,
    "retained_messages_max": 2,
}
BARE = {"topic_alias_max": 0, "topic_alias_outbound_max": 0, "retained_messages_max": 0}


class Reason(IntEnum):
    """MQTT 5 reason codes that the tests speak of."""

    SUCCESS = 0x00
    GRANTED_QOS_1 = 0x01
    GRANTED_QOS_2 = 0x02
    DISCONNECT_WITH_WILL = 0x04
    NO_MATCHING_SUBSCRIBERS = 0x10
    NO_SUBSCRIPTION_EXISTED = 0x11
    CONTINUE_AUTHENTICATION = 0x18
    RE_AUTHENTICATE = 0x19
    UNSPECIFIED_ERROR = 0x80
    MALFORMED_PACKET = 0x81
    PROTOCOL_ERROR = 0x82
    IMPLEMENTATION_SPECIFIC_ERROR = 0x83
    UNSUPPORTED_PROTOCOL_VERSION = 0x84
    CLIENT_IDENTIFIER_NOT_VALID = 0x85
    NOT_AUTHORIZED = 0x87
    SERVER_UNAVAILABLE = 0x88
    SERVER_BUSY = 0x89
    SERVER_SHUTTING_DOWN = 0x8B
    BAD_AUTHENTICATION_METHOD = 0x8C
    KEEP_ALIVE_TIMEOUT = 0x8D
    SESSION_TAKEN_OVER = 0x8E
    TOPIC_FILTER_INVALID = 0x8F
    TOPIC_NAME_INVALID = 0x90
    PACKET_IDENTIFIER_NOT_FOUND = 0x92
    RECEIVE_MAXIMUM_EXCEEDED = 0x93
    TOPIC_ALIAS_INVALID = 0x94
    PACKET_TOO_LARGE = 0x95
    QUOTA_EXCEEDED = 0x97
    RETAIN_NOT_SUPPORTED = 0x9A


# The standard often leaves open which of the two a receiver calls a broken packet.
BROKEN = (Reason.MALFORMED_PACKET, Reason.PROTOCOL_ERROR)

CONNACK_REASONS = {
    *(0x00, 0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8A, 0x8C),
    *(0x90, 0x95, 0x97, 0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9F),
}
PUBACK_REASONS = PUBREC_REASONS = {0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99}
PUBREL_REASONS = PUBCOMP_REASONS = {0x00, 0x92}
SUBACK_REASONS = {0x00, 0x01, 0x02, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2}
UNSUBACK_REASONS = {0x00, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91}
DISCONNECT_REASONS = {
    *(0x00, 0x80, 0x81, 0x82, 0x83, 0x87, 0x89, 0x8B, 0x8D, 0x8E, 0x8F, 0x90, 0x93, 0x94, 0x95, 0x96),
    *(0x97, 0x98, 0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9E, 0x9F, 0xA0, 0xA1, 0xA2),
}


def assert_serving(broker: Broker) -> None:
    """A newcomer can connect, subscribe, publish and receive: the broker goes on serving the others."""
    word = f"serving{next(_serial)}"
    newcomer = RawClient(broker.port)
    try:
        newcomer.connect(word)
        newcomer.subscribe(word, qos=1)
        newcomer.publish(word, b"still here", qos=1)
        newcomer.take(topic=word, payload=b"still here")
    finally:
        newcomer.close()


def expect_filter_refused(client: RawClient) -> None:
    """A filter that isn't one: refused in the SUBACK, or the packet taken as broken."""
    try:
        packet = client.receive()
    except ClosedError:
        assert client.version < 5
        return
    if isinstance(packet, Suback):
        refusal = Reason.TOPIC_FILTER_INVALID if client.version == 5 else Reason.UNSPECIFIED_ERROR
        assert packet.reasons == (refusal,)
        return
    assert getattr(packet, "reason", None) in (*BROKEN, Reason.TOPIC_FILTER_INVALID), repr(packet)
    client.expect_closed()
