"""What waits for our group at the brokers, where they say so: `$SYS/broker/groups/NAME/FILTER` of ours.

One thread and one plain connection for each broker, besides those of the receivers. Nothing depends on it: a
broker that says nothing, or doesn't let us listen, is one of which nothing is known.
"""

import threading
from collections.abc import Iterable

import msgspec

from braidmq.client import BlockingClient, ClientError
from braidmq.spark.options import BrokerAddress, Connection

RETRY_S = 30.0
POLL_S = 1.0


class GroupView(msgspec.Struct, frozen=True):
    """The part of a group's state that matters here."""

    waiting_messages: int
    messages_max: int | None = None
    bytes_max: int | None = None


class GroupWatch:
    """Watches one group at several brokers."""

    def __init__(self, connection: Connection, group: str) -> None:
        self._connection = connection
        self._group = group
        self._views: dict[tuple[str, str], GroupView] = {}  # by broker and topic
        self._stopping = threading.Event()

    def start(self, brokers: Iterable[BrokerAddress]) -> None:
        for broker in brokers:
            threading.Thread(
                target=self._watch, args=(broker,), name=f"watch of {broker}", daemon=True
            ).start()

    def stop(self) -> None:
        self._stopping.set()

    @property
    def waiting(self) -> int | None:
        """Messages in the group's queues; None: no broker says."""
        views = list(self._views.values())
        return sum(view.waiting_messages for view in views) if views else None

    @property
    def messages_max(self) -> int | None:
        """How many may wait there, at the broker with the least room; None: none says."""
        views = list(self._views.values())
        return min((view.messages_max for view in views if view.messages_max), default=None)

    def take(self, broker: str, topic: str, payload: bytes) -> None:
        """What a broker says of one filter of the group; empty: it is gone."""
        try:
            self._views[broker, topic] = msgspec.json.decode(payload, type=GroupView)
        except msgspec.DecodeError:
            self._views.pop((broker, topic), None)

    def _watch(self, broker: BrokerAddress) -> None:
        choices = self._connection.client_choices(broker)
        while not self._stopping.is_set():
            try:
                with BlockingClient([str(broker)], **choices) as client:
                    client.subscribe(f"$SYS/broker/groups/{self._group}/+")
                    while not self._stopping.is_set():
                        for message in client.receive_batch(timeout_s=POLL_S):
                            self.take(str(broker), message.topic, bytes(message.payload))
            except (ClientError, OSError):
                self._forget(str(broker))
                self._stopping.wait(RETRY_S)

    def _forget(self, broker: str) -> None:
        for key in [key for key in self._views if key[0] == broker]:
            self._views.pop(key, None)


def outage_warning(rate: float, outage_s: float | None, messages_max: int | None) -> str | None:
    """What to say if an outage as long as the user expects would fill the group's queue at a broker."""
    if outage_s is None or messages_max is None or rate * outage_s <= messages_max:
        return None
    return (
        f"at {rate:,.0f} messages a second a group of {messages_max:,} messages is full after "
        f"{messages_max / rate:,.0f} s without receivers, and maxOutage is {outage_s:,.0f} s: what is "
        "published then is dropped or, with groups.overflow = refuse, refused (0x97). "
        f"{rate * outage_s:,.0f} messages need more groups.messages_max and groups.bytes_max at the broker"
    )
