"""Retained messages: at most one a topic, bounded in number and bytes, gone when they expire.

A node of a cluster shares them: they have stamps then (see `stamps`), and deleted ones leave a tombstone,
which the store keeps as an empty message.
"""

from collections.abc import Callable, Iterator
from typing import Final

from braidmq.broker.events import Retained
from braidmq.broker.hub import Hub
from braidmq.broker.stamps import (
    BEFORE_CLUSTERS,
    ComparedRetained,
    Stamps,
    Tombstones,
    stamp_of,
    tombstone_of,
)
from braidmq.messages.message import Message
from braidmq.store.records import RETAINED
from braidmq.timing.deadlines import Deadlines
from braidmq.topics import TopicCursor, TopicTree

OWN_PREFIX: Final = b"$SYS/"
VISITS_AT_A_TIME: Final = 64


class RetainedMessages:
    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._tree = TopicTree()
        self._own = TopicTree()  # the broker's, under $SYS: outside the limits and the store
        self._expiries: Deadlines[Message] = Deadlines(self.is_current)
        self.held_bytes = 0
        self._ever_retained = 0
        self.tombstones = Tombstones(hub.limits.tombstones_max)
        self._stamps: Stamps | None = None  # None: they aren't shared
        self._seen: Callable[[int], object] = lambda hlc: None
        self._swept_before_ms = 0
        self.beyond_limits = 0  # kept though there was no room, because another node has
        self.tombstones_dropped = 0  # because there were too many

    def __len__(self) -> int:
        return len(self._tree) + len(self._own)

    def share(self, key: bytes, me: int, seen: Callable[[int], object]) -> ComparedRetained:
        """From now on node `me` of a cluster has the same as all others. What it had until now counts as old.

        All nodes have the same `key`, which clients don't know. `seen` is told the hybrid time of what others
        retain, so that what is published here after that is newer.
        """
        stamps = self._stamps = Stamps(key)
        self._seen = seen
        for _, message in self.all():
            if message.stamp is None:
                message.stamp = BEFORE_CLUSTERS, me
            stamps.replace(None, message)
        for tombstone in self.tombstones:
            stamps.replace(None, tombstone)
        return ComparedRetained(self, stamps)

    def keep(self, message: Message) -> bool:
        """Keep the message in place of its topic's last one (empty: delete it); False if there is no room.

        One with a smaller stamp than its topic's last one isn't kept, and that is as it should be.
        """
        if self._hub.promises.store.is_failing:
            return message.qos == 0  # [MQTT 5, 3.3.1.3] lets one of QoS 0 be forgotten at any time
        if self._stamps is not None and not self._is_newest(message):
            return True
        former = self._tree.get(message.topic)
        if message.payload and not self._has_room(message, former):
            return False
        self._replace(message, former)
        return True

    def keep_from_peer(self, message: Message) -> None:
        """The same for what another node retains. That one has seen to the limits."""
        self._seen(stamp_of(message)[0])
        if self._is_newest(message):
            former = self._tree.get(message.topic)
            if message.payload and not self._has_room(message, former):
                self.beyond_limits += 1
            self._replace(message, former)

    def _is_newest(self, message: Message) -> bool:
        known = self.newest(message.topic)
        return known is None or stamp_of(known) < stamp_of(message)

    def newest(self, topic: bytes) -> Message | None:
        """What the topic retains, or the tombstone of what it had; None if nothing is known of it."""
        found: Message | None = self._tree.get(topic)
        return found if found is not None else self.tombstones.get(topic)

    def _replace(self, message: Message, former: Message | None) -> None:
        if message.payload:
            self._put(message, former)
            self._remember(message.topic, message)
            self._tell(message)
            return
        if former is not None:  # [MQTT-3.3.1-6], [MQTT-3.3.1-7]
            self._remove(message.topic, former)
            self._tell(message)
        if self._stamps is not None and stamp_of(message)[0] >> 16 >= self._swept_before_ms:
            tombstone = tombstone_of(message)
            self._remember(tombstone.topic, tombstone)
            self._bury(tombstone)

    def _bury(self, tombstone: Message) -> None:
        former = self.tombstones.get(tombstone.topic)
        dropped = self.tombstones.add(tombstone)
        if self._stamps is not None:
            self._stamps.replace(former, tombstone)
        if dropped is not None:
            self.tombstones_dropped += 1
            self._forget_tombstone(dropped)

    def _forget_tombstone(self, tombstone: Message) -> None:
        if self._stamps is not None:
            self._stamps.replace(tombstone, None)
        self._remember(tombstone.topic, None)

    def sweep_tombstones(self, before_ms: int) -> None:
        """Forget deletions from before that time of the hybrid clock, those that come later, too."""
        self._swept_before_ms = before_ms
        while (tombstone := self.tombstones.take_older_than(before_ms - 1)) is not None:
            self._forget_tombstone(tombstone)

    def drop(self, topic: bytes) -> None:
        """Forget a topic without a trace."""
        message = self._tree.get(topic)
        tombstone = self.tombstones.get(topic)
        if message is not None:
            self._remove(topic, message)
        elif tombstone is not None:
            self.tombstones.discard(topic)
            self._forget_tombstone(tombstone)

    def keep_own(self, message: Message) -> None:
        """Keep a message of the broker itself, on a topic below $SYS; an empty one clears the topic."""
        if message.payload:
            self._number(message)
            self._own.set(message.topic, message)
        elif self._own.get(message.topic) is not None:
            self._own.pop(message.topic)

    def restore(self, message: Message) -> None:
        """Put back a message that was retained before a restart, or a tombstone. Nothing is noted."""
        if message.payload:
            self._put(message, None)
        else:
            self._bury(message)

    def _number(self, message: Message) -> None:
        self._ever_retained += 1
        message.retained_as = self._ever_retained

    def _put(self, message: Message, former: Message | None) -> None:
        if self._stamps is not None:
            self._stamps.replace(self.newest(message.topic), message)
            self.tombstones.discard(message.topic)
        self._number(message)
        self._tree.set(message.topic, message)
        self.held_bytes += _size(message)
        if message.expires_at_s:
            self._expiries.add(message.expires_at_s, message)
        if former is not None:
            self._forget(former)

    def _forget(self, former: Message) -> None:
        """A message is no longer the one that its topic retains."""
        self.held_bytes -= _size(former)
        if former.expires_at_s:
            self._expiries.gave_up()

    def topics_to_keep(self) -> list[bytes]:
        """The topics of which the store should know: those that retain something, and those of tombstones."""
        topics = [topic for topic, _ in self.all()]
        if self._stamps is not None:
            topics += [tombstone.topic for tombstone in self.tombstones]
        return topics

    def all(self) -> list[tuple[bytes, Message]]:
        """Every topic and the message that it retains."""
        return list(self._tree.items())

    def get(self, topic: bytes) -> Message | None:
        found: Message | None = self._tree_of(topic).get(topic)
        return found

    def _tree_of(self, path: bytes) -> TopicTree:
        """Where a topic is, or all that a filter can match: no wildcard matches a first level with a $."""
        return self._own if path.startswith(OWN_PREFIX) else self._tree

    def _has_room(self, message: Message, former: Message | None) -> bool:
        limits = self._hub.limits
        if former is None and len(self._tree) >= limits.retained_messages_max:
            return False
        replaced_bytes = _size(former) if former is not None else 0
        return self.held_bytes - replaced_bytes + _size(message) <= limits.retained_bytes_max

    def matching(self, filter: bytes) -> list[Message]:
        """All retained messages whose topic matches."""
        self.expire()
        found: list[Message] = self._tree_of(filter).find(filter)
        return found

    def replay(self, filter: bytes) -> Iterator[Message | None]:
        """The messages whose topic matches, when they are asked for; None for a little work that found none.

        What is retained from now on is left out: who subscribes now gets it as a new message.
        """
        return self._replay(filter, self._ever_retained)

    def _replay(self, filter: bytes, newest: int) -> Iterator[Message | None]:
        cursor = TopicCursor(self._tree_of(filter), filter)
        while (found := cursor.take(VISITS_AT_A_TIME)) is not None:
            yield None
            for message in found:
                is_old = message.retained_as <= newest and self.is_current(message)
                yield message if is_old and not message.is_expired(self._hub.now) else None

    def is_current(self, message: Message) -> bool:
        """Whether the message is still the one its topic retains."""
        return self.get(message.topic) is message

    def expire(self) -> None:
        """Forget the messages whose expiry has passed. Cost: O(log n) for each of them."""
        while (message := self._expiries.take_due(self._hub.now)) is not None:
            self._tree.pop(message.topic)
            self.held_bytes -= _size(message)
            if self._stamps is not None:
                self._stamps.replace(message, None)
            self._remember(message.topic, None)

    def _remove(self, topic: bytes, message: Message) -> None:
        self._tree.pop(topic)
        self._forget(message)
        if self._stamps is not None:
            self._stamps.replace(message, None)
        self._remember(topic, None)

    def _tell(self, message: Message) -> None:
        if self._hub.watching.audience is not None:
            self._hub.watching.audience.tell(
                Retained(
                    topic=message.topic.decode(),
                    publisher=message.publisher,
                    qos=message.qos,
                    payload_bytes=len(message.payload),
                )
            )

    def _remember(self, topic: bytes, message: Message | None) -> None:
        if self._hub.promises.journal is not None:
            self._hub.promises.journal.append((RETAINED, topic, message))


def _size(message: Message) -> int:
    return len(message.topic) + len(message.payload) + len(message.properties)
