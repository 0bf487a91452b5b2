"""Every MQTT packet as a frozen value. One value serves all versions; MQTT 3 leaves the properties empty."""

import msgspec

from braidmq.wire.properties import NO_PROPERTIES, Properties


class Will(msgspec.Struct, frozen=True, gc=False, repr_omit_defaults=True):
    """The message that a broker publishes when the client is lost."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    properties: Properties = NO_PROPERTIES


class Connect(msgspec.Struct, frozen=True, gc=False, repr_omit_defaults=True):
    """A client opens a session. `version` is the protocol level: 3, 4 or 5."""

    client_id: str
    clean_start: bool = True
    keep_alive_s: int = 60
    version: int = 5
    will: Will | None = None
    username: str | None = None
    password: bytes | None = None
    properties: Properties = NO_PROPERTIES


class Connack(msgspec.Struct, frozen=True, gc=False, repr_omit_defaults=True):
    """The answer to CONNECT. `reason` is an MQTT 5 reason in every version."""

    session_present: bool = False
    reason: int = 0
    properties: Properties = NO_PROPERTIES


class Publish(msgspec.Struct, frozen=True, gc=False, repr_omit_defaults=True):
    """An application message; `packet_id` is 0 exactly when `qos` is 0."""

    topic: str
    payload: bytes = b""
    qos: int = 0
    retain: bool = False
    dup: bool = False
    packet_id: int = 0
    properties: Properties = NO_PROPERTIES


class Acknowledgement(msgspec.Struct, frozen=True, gc=False, repr_omit_defaults=True):
    """What PUBACK, PUBREC, PUBREL and PUBCOMP share; MQTT 3 sends them without a reason."""

    packet_id: int
    reason: int = 0
    properties: Properties = NO_PROPERTIES


class Puback(Acknowledgement, frozen=True, gc=False):
    """QoS 1: the message is taken."""


class Pubrec(Acknowledgement, frozen=True, gc=False):
    """QoS 2, first answer: the message is received."""


class Pubrel(Acknowledgement, frozen=True, gc=False):
    """QoS 2, second step: the sender forgets the message."""


class Pubcomp(Acknowledgement, frozen=True, gc=False):
    """QoS 2, last step: the receiver forgets the packet identifier."""


class Subscription(msgspec.Struct, frozen=True, gc=False, repr_omit_defaults=True):
    """One filter of a SUBSCRIBE with its options; MQTT 3 knows only `qos`."""

    filter: str
    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0


class Subscribe(msgspec.Struct, frozen=True, gc=False, repr_omit_defaults=True):
    """A client asks for topics."""

    packet_id: int
    subscriptions: tuple[Subscription, ...]
    properties: Properties = NO_PROPERTIES


class Suback(msgspec.Struct, frozen=True, gc=False, repr_omit_defaults=True):
    """One reason for each filter of the SUBSCRIBE, in its order."""

    packet_id: int
    reasons: tuple[int, ...]
    properties: Properties = NO_PROPERTIES


class Unsubscribe(msgspec.Struct, frozen=True, gc=False, repr_omit_defaults=True):
    """A client no longer wants topics."""

    packet_id: int
    filters: tuple[str, ...]
    properties: Properties = NO_PROPERTIES


class Unsuback(msgspec.Struct, frozen=True, gc=False, repr_omit_defaults=True):
    """One reason for each filter of the UNSUBSCRIBE, in its order; none in MQTT 3."""

    packet_id: int
    reasons: tuple[int, ...] = ()
    properties: Properties = NO_PROPERTIES


class Pingreq(msgspec.Struct, frozen=True, gc=False, repr_omit_defaults=True):
    """A client says that it lives."""


class Pingresp(msgspec.Struct, frozen=True, gc=False, repr_omit_defaults=True):
    """The answer to PINGREQ."""


class Disconnect(msgspec.Struct, frozen=True, gc=False, repr_omit_defaults=True):
    """The last packet of a connection. MQTT 3 sends it without a reason, and only from the client."""

    reason: int = 0
    properties: Properties = NO_PROPERTIES


class Auth(msgspec.Struct, frozen=True, gc=False, repr_omit_defaults=True):
    """A step of the extended authentication of MQTT 5."""

    reason: int = 0
    properties: Properties = NO_PROPERTIES


Packet = (
    Connect
    | Connack
    | Publish
    | Puback
    | Pubrec
    | Pubrel
    | Pubcomp
    | Subscribe
    | Suback
    | Unsubscribe
    | Unsuback
    | Pingreq
    | Pingresp
    | Disconnect
    | Auth
)
