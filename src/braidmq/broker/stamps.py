"""Stamps of retained messages: what nodes of a cluster compare, and what they remember of deleted ones.

A message that is retained in a cluster has a stamp, (hybrid time, node): of two for one topic the larger
stays, everywhere. A deletion has one as well, and is remembered as a tombstone, an empty message, or a node
that did not hear of it would bring the message back.

Topics are in 1,024 buckets by a hash. The digest of a bucket is the XOR of the hashes of its topics with
their stamps, so keeping it up to date costs few hashes a change, and nodes with equal digests have the same.
The hash has a key that clients don't know: they can't choose topics that hide each other.
"""

from collections.abc import Iterator
from hashlib import blake2b
from struct import Struct
from typing import TYPE_CHECKING, Final

from braidmq.messages.message import Message
from braidmq.timing.deadlines import Deadlines

if TYPE_CHECKING:
    from braidmq.broker.retained import RetainedMessages

BUCKETS: Final = 1024
NEVER: Final = (0, 0)  # older than any stamp
BEFORE_CLUSTERS: Final = 1  # the hybrid time of what was retained when the node was alone
_STAMPED: Final = Struct("<QQQ")


def stamp_of(message: Message) -> tuple[int, int]:
    return message.stamp or NEVER


def tombstone_of(message: Message) -> Message:
    """What is remembered of an empty message: its topic and stamp, and nothing that could be large."""
    tombstone = Message(message.topic, b"", message.qos, True)
    tombstone.stamp = message.stamp
    return tombstone


class Stamps:
    """All topics that have a stamp, by bucket and hash."""

    def __init__(self, key: bytes) -> None:
        self.digests = [0] * BUCKETS
        self._key = key
        self._topics: list[dict[int, bytes]] = [{} for _ in range(BUCKETS)]

    def replace(self, former: Message | None, message: Message | None) -> None:
        """What is known of a topic has changed. None: nothing is."""
        known = former or message
        if known is None:
            return
        topic = self._hash(known.topic)
        bucket = topic % BUCKETS
        if former is not None:
            self.digests[bucket] ^= self._digest(topic, former)
        if message is None:
            self._topics[bucket].pop(topic, None)
        else:
            self.digests[bucket] ^= self._digest(topic, message)
            self._topics[bucket][topic] = message.topic

    def bucket(self, bucket: int) -> Iterator[tuple[int, bytes]]:
        """(hash, topic) of all topics of a bucket."""
        return iter(self._topics[bucket].items())

    def topic(self, hash: int) -> bytes | None:
        return self._topics[hash % BUCKETS].get(hash)

    def _hash(self, data: bytes) -> int:
        return int.from_bytes(blake2b(data, digest_size=8, key=self._key).digest(), "little")

    def _digest(self, topic: int, message: Message) -> int:
        return self._hash(_STAMPED.pack(topic, *stamp_of(message)))


class Tombstones:
    """Deletions, by topic and by age; bounded, and the oldest gives way."""

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._by_topic: dict[bytes, Message] = {}
        self._by_age: Deadlines[Message] = Deadlines(self._is_current)

    def __len__(self) -> int:
        return len(self._by_topic)

    def __iter__(self) -> Iterator[Message]:
        return iter(self._by_topic.values())

    def _is_current(self, tombstone: Message) -> bool:
        return self._by_topic.get(tombstone.topic) is tombstone

    def get(self, topic: bytes) -> Message | None:
        return self._by_topic.get(topic)

    def add(self, tombstone: Message) -> Message | None:
        """Remember it. The oldest one if there was no room for all: it is forgotten."""
        self.discard(tombstone.topic)
        self._by_topic[tombstone.topic] = tombstone
        self._by_age.add(_age(tombstone), tombstone)
        if len(self._by_topic) <= self._count_max:
            return None
        return self.take_older_than(self._by_age.next_at_s)

    def discard(self, topic: bytes) -> None:
        if self._by_topic.pop(topic, None) is not None:
            self._by_age.gave_up()

    def take_older_than(self, before_ms: float) -> Message | None:
        """Forget one from that time or before, if there is one."""
        tombstone = self._by_age.take_due(before_ms)
        if tombstone is not None:
            del self._by_topic[tombstone.topic]
        return tombstone


def _age(tombstone: Message) -> float:
    """The milliseconds of its hybrid time."""
    return float(stamp_of(tombstone)[0] >> 16)


class ComparedRetained:
    """What a cluster asks of the retained messages of a node that shares them."""

    def __init__(self, retained: "RetainedMessages", stamps: Stamps) -> None:
        self._retained = retained
        self._stamps = stamps

    def digests(self) -> list[int]:
        return self._stamps.digests

    def stamps(self, bucket: int) -> Iterator[tuple[int, int, int]]:
        for hash, topic in self._stamps.bucket(bucket):
            message = self._retained.newest(topic)
            if message is not None:
                yield (hash, *stamp_of(message))

    def message(self, topic: int) -> Message | None:
        known = self._stamps.topic(topic)
        return self._retained.newest(known) if known is not None else None

    def drop(self, topic: int) -> None:
        known = self._stamps.topic(topic)
        if known is not None:
            self._retained.drop(known)

    def sweep(self, before_ms: int) -> None:
        self._retained.sweep_tombstones(before_ms)
