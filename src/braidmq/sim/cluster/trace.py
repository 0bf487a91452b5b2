"""What happened, as seen from outside: by clients, and by whoever broke things."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar


@dataclass(frozen=True, slots=True)
class Event:
    at_s: float


@dataclass(frozen=True, slots=True)
class Connected(Event):
    """A client has got its CONNACK. `life` counts its sessions: it grows where none was present."""

    client: str
    node: str
    life: int
    lasts: bool  # the session outlives the connection


@dataclass(frozen=True, slots=True)
class Disconnected(Event):
    client: str
    node: str


@dataclass(frozen=True, slots=True)
class Subscribing(Event):
    """A client has sent a SUBSCRIBE."""

    client: str
    life: int
    filter: str
    qos: int
    node: str


@dataclass(frozen=True, slots=True)
class Subscribed(Event):
    """A client has got the SUBACK, which was asked for at `asked_s`."""

    client: str
    life: int
    filter: str
    qos: int
    node: str
    asked_s: float


@dataclass(frozen=True, slots=True)
class Unsubscribing(Event):
    """A client has sent an UNSUBSCRIBE: from here on it may get messages or not."""

    client: str
    life: int
    filter: str


@dataclass(frozen=True, slots=True)
class Published(Event):
    """A client has sent a PUBLISH; again with the same number if it had no answer."""

    client: str
    number: int  # of the message, in the order in which messages came to be
    topic: str
    qos: int
    retain: bool
    node: str
    expiry_s: int | None = None


@dataclass(frozen=True, slots=True)
class Acknowledged(Event):
    """A client has got PUBACK or PUBREC, with no fault in it."""

    client: str
    number: int
    node: str


@dataclass(frozen=True, slots=True)
class Refused(Event):
    """A client has got PUBACK or PUBREC with a fault, or CONNACK with one (number -1)."""

    client: str
    number: int
    node: str
    reason: int


@dataclass(frozen=True, slots=True)
class Got(Event):
    """A client has been given a message (QoS 2: the first time within its exchange)."""

    client: str
    life: int
    number: int
    topic: str
    qos: int
    retain: bool
    node: str


@dataclass(frozen=True, slots=True)
class NodeStarted(Event):
    node: str


@dataclass(frozen=True, slots=True)
class NodeCrashed(Event):
    node: str
    loses_disk: bool


@dataclass(frozen=True, slots=True)
class Broken(Event):
    """Something was done to the network, and is in force until it is mended."""

    what: str


@dataclass(frozen=True, slots=True)
class Mended(Event):
    what: str


@dataclass(frozen=True, slots=True)
class LinksChanged(Event):
    """With whom a node takes itself to be linked."""

    node: str
    linked: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Dropped(Event):
    """How many messages a life of a node has given up, by reason; told at its end."""

    node: str
    counts: tuple[tuple[str, int], ...]


Kind = TypeVar("Kind", bound=Event)


@dataclass(slots=True)
class Trace:
    events: list[Event] = field(default_factory=list)

    def add(self, event: Event) -> None:
        self.events.append(event)

    def all(self, kind: type[Kind]) -> Iterator[Kind]:
        return (event for event in self.events if isinstance(event, kind))

    def digest(self) -> str:
        """Two runs with the same one went the same way."""
        hashed = hashlib.blake2b(digest_size=8)
        for event in self.events:
            hashed.update(repr(event).encode())
        return hashed.hexdigest()

    def lines(self) -> Iterator[str]:
        return (f"{event.at_s:9.4f} {_words(event)}" for event in self.events)


def _words(event: Event) -> str:
    fields = [f"{name}={getattr(event, name)!r}" for name in _names(type(event))]
    return " ".join([type(event).__name__, *fields])


def _names(kind: type[Event]) -> list[str]:
    return [name for name in kind.__dataclass_fields__ if name != "at_s"]
