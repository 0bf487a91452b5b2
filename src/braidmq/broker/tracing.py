"""Shows what happens to the messages of a client or a topic, and why, while somebody looks on.

A trace is an observer of most events, of which it passes on those that concern its client and its topics.
While there is one, every message takes the general way, not the fast lane, and costs some calls that find out
whether anybody looks at it; only those that somebody looks at cost more.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from braidmq.broker.audience import Heeds
from braidmq.broker.events import (
    Acknowledged,
    ConnectRefused,
    Delivered,
    Disconnected,
    Dropped,
    Event,
    MemberSelected,
    Published,
    Queued,
    Retained,
    SessionEnded,
    SessionEstablished,
    Subscribed,
    Unsubscribed,
    WillSent,
)
from braidmq.topics import matches

if TYPE_CHECKING:
    from braidmq.broker.broker import Broker

TOPICS_CACHED_MAX: Final = 10_000
TRACED: Final[frozenset[type[Event]]] = frozenset(
    {
        SessionEstablished,
        ConnectRefused,
        Disconnected,
        SessionEnded,
        Subscribed,
        Unsubscribed,
        Published,
        Retained,
        WillSent,
        MemberSelected,
        Delivered,
        Queued,
        Dropped,
        Acknowledged,
    }
)


class Trace:
    """Somebody who looks on: at one client, or at the topics that match a filter, or at both together."""

    wants = TRACED

    def __init__(
        self, tell: Callable[[Event], None], *, client_id: str | None = None, filter: str | None = None
    ) -> None:
        self._tell = tell
        self._client_id = client_id
        self._filter = filter
        self._topics: dict[bytes, bool] = {}  # whether they match the filter

    def observe(self, event: Event) -> None:
        if self._concerns(event):
            self._tell(event)

    def heeds(self, topic: bytes, publisher: str | None, client_id: str | None) -> bool:
        """Whether an event about such a message may be one to pass on."""
        if self._client_id is not None:
            return self._client_id in (publisher, client_id)
        known = self._topics.get(topic)
        if known is None:
            if len(self._topics) >= TOPICS_CACHED_MAX:
                self._topics.clear()
            known = self._topics[topic] = matches(self._filter or "#", topic.decode())
        return known

    def _concerns(self, event: Event) -> bool:
        """`client_id` is whom it happened to, `publisher` whose message it is about."""
        if self._client_id is not None:
            involved = (getattr(event, "client_id", None), getattr(event, "publisher", None))
            if self._client_id not in involved:
                return False
        topic = getattr(event, "topic", None)
        return self._filter is None or (topic is not None and matches(self._filter, topic))


def add_trace(broker: "Broker", trace: Trace, heeds: Heeds | None = None) -> None:
    """Begin to tell `trace` what happens; `heeds` is asked instead of the trace's own, if it is given."""
    broker.add_observer(trace, heeds or trace.heeds)


def remove_trace(broker: "Broker", trace: Trace) -> None:
    """Tell it no more; after the last one messages are fast again."""
    broker.remove_observer(trace)
