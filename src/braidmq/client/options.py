"""What an application may choose: the session's part, which is pure, and the transport's part."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict

import msgspec

from braidmq.errors import ConfigError
from braidmq.wire import NO_PROPERTIES, V5, V31, V311, Properties, Will
from braidmq.wire.pingreq import STATUS_BY_PING, STATUS_BY_PUBLISH

if TYPE_CHECKING:
    import ssl

PACKET_BYTES_CEILING = 268_435_455 + 5  # MQTT's largest packet
UINT16_CEILING = 65_535


class Authenticator(Protocol):
    """One method of enhanced authentication (AUTH in MQTT 5). `begin` starts a new exchange each time."""

    method: str

    def begin(self) -> bytes | None: ...

    def answer(self, challenge: bytes) -> bytes: ...

    def finish(self, final: bytes) -> None:
        """Raises if the server's last word does not show that it is the right server."""


class TlsFiles(msgspec.Struct, frozen=True, kw_only=True):
    """TLS by paths. Without `ca` the system's authorities are trusted."""

    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    verify: bool = True


class StatusReporting(msgspec.Struct, frozen=True, kw_only=True):
    """How a member of shared groups tells the broker of its queue and its processing time."""

    interval_s: float = 1.0  # the broker may want another one
    events: bool = True  # also at once when the queue changes much
    carrier: Literal["1", "publish"] = STATUS_BY_PING  # "publish": works in MQTT 3 too


class SessionOptions(msgspec.Struct, frozen=True, kw_only=True):
    client_id: str = ""  # empty: the server assigns one, which is kept over reconnects
    version: int = V5
    clean_start: bool = True  # of the first connection; a reconnect always asks for its session
    session_expiry_s: int = 0  # how long the server keeps the session after a connection ends
    keep_alive_s: int = 60
    receive_maximum: int = UINT16_CEILING  # QoS 1 and 2 messages that may wait for our acknowledgement
    max_packet_bytes: int = PACKET_BYTES_CEILING
    topic_alias_maximum: int = 0  # aliases that the server may use towards us
    send_topic_aliases: bool = False  # use as many aliases as the server offers
    will: Will | None = None
    username: str | None = None
    password: str | bytes | None = None
    connect_properties: Properties = NO_PROPERTIES  # user properties, request problem/response information
    authenticator: Authenticator | None = None
    connect_timeout_s: float = 10.0  # for the address, the transport and CONNACK together
    ping_timeout_s: float = 10.0
    status: StatusReporting | None = None  # None: never reported
    # Whether the broker is told that messages are acknowledged after the work. It relies on it.
    acks_when_processed: bool | None = None

    def __post_init__(self) -> None:
        self._require(self.version in (V31, V311, V5), "version", "3, 4 or 5")
        self._require(0 <= self.keep_alive_s <= UINT16_CEILING, "keep_alive_s", "0..65535")
        self._require(1 <= self.receive_maximum <= UINT16_CEILING, "receive_maximum", "1..65535")
        self._require(0 <= self.topic_alias_maximum <= UINT16_CEILING, "topic_alias_maximum", "0..65535")
        packet_bytes_right = 16 <= self.max_packet_bytes <= PACKET_BYTES_CEILING
        self._require(packet_bytes_right, "max_packet_bytes", f"16..{PACKET_BYTES_CEILING}")
        self._require(0 <= self.session_expiry_s < 2**32, "session_expiry_s", "0..4294967295")
        persistent = self.version != V5 and not self.clean_start
        self._require(bool(self.client_id) or not persistent, "client_id", "given to keep an MQTT 3 session")
        if self.status is not None:
            reports_anyway = self.version != V5 and self.status.carrier == STATUS_BY_PUBLISH
            named = bool(self.client_id) or not reports_anyway
            self._require(named, "client_id", "given to report a status in MQTT 3")
            self._require(self.status.interval_s > 0, "status.interval_s", "above 0")

    @property
    def declares_processing(self) -> bool:
        return bool(self.acks_when_processed)

    def _require(self, right: bool, name: str, wanted: str) -> None:
        if not right:
            raise ConfigError(f"client option {name} must be {wanted}")


class Options(SessionOptions, frozen=True, kw_only=True):
    status: StatusReporting | None = StatusReporting()  # asked for; sent where the broker agrees
    tls: "ssl.SSLContext | TlsFiles | bool" = False
    manual_ack: bool = False  # else a message is acknowledged when the application asks for the next one
    queue_messages_max: int = 100_000  # received and not yet taken; beyond it the socket is not read
    queue_bytes_max: int = 64 * 1024 * 1024
    pending_publishes_max: int = 10_000  # QoS 1 and 2 not finally acknowledged; beyond it publish waits
    request_timeout_s: float = 30.0
    reconnect: bool = True
    # How long the first connection is tried. 0: each address once; None: for ever.
    connect_patience_s: float | None = 0.0
    backoff_min_s: float = 0.1
    backoff_max_s: float = 30.0
    random: Callable[[], float] | None = None  # 0 <= x < 1; None: the system's

    @property
    def declares_processing(self) -> bool:
        """Unless the application says otherwise: who acknowledges by hand may do so before the work."""
        return not self.manual_ack if self.acks_when_processed is None else self.acks_when_processed


class OptionChoices(TypedDict, total=False):
    """The keywords that both clients take; the fields of `Options`, for the type checker."""

    client_id: str
    version: int
    clean_start: bool
    session_expiry_s: int
    keep_alive_s: int
    receive_maximum: int
    max_packet_bytes: int
    topic_alias_maximum: int
    send_topic_aliases: bool
    will: Will | None
    username: str | None
    password: str | bytes | None
    connect_properties: Properties
    authenticator: Authenticator | None
    connect_timeout_s: float
    ping_timeout_s: float
    status: StatusReporting | None
    acks_when_processed: bool | None
    tls: Any
    manual_ack: bool
    queue_messages_max: int
    queue_bytes_max: int
    pending_publishes_max: int
    request_timeout_s: float
    reconnect: bool
    connect_patience_s: float | None
    backoff_min_s: float
    backoff_max_s: float
    random: Callable[[], float] | None
