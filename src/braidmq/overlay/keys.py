"""Keys and membership vectors of virtual nodes.

A key is `topic 00 kind pid`. No topic contains U+0000, so the keys of a topic are neighbours in plain byte
order, its publishers before its subscribers. The membership vector is a hash of the key: every node can
compute it, so it never travels, and its 64 bits stand for the key in lists of what is known already.
"""

from enum import IntEnum
from functools import lru_cache
from hashlib import blake2b
from typing import Final

PID_BYTES: Final = 8
VECTOR_BITS: Final = 64


class Kind(IntEnum):
    PUBLISHER = 0
    SUBSCRIBER = 1


class KeyRange:
    """Keys from `low` (in it) to `high` (not in it)."""

    __slots__ = ("high", "low")

    def __init__(self, low: bytes, high: bytes) -> None:
        self.low = low
        self.high = high

    def __contains__(self, key: bytes) -> bool:
        return self.low <= key < self.high

    def __bool__(self) -> bool:
        return self.low < self.high

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeyRange) and (self.low, self.high) == (other.low, other.high)

    def __hash__(self) -> int:
        return hash((self.low, self.high))

    def __repr__(self) -> str:
        return f"KeyRange({self.low!r}, {self.high!r})"


def key_of(topic: str, kind: Kind, pid: int) -> bytes:
    return b"%s\0%c%s" % (topic.encode(), kind, pid.to_bytes(PID_BYTES, "big"))


def topic_of(key: bytes) -> str:
    return key[: -PID_BYTES - 2].decode()


def kind_of(key: bytes) -> Kind:
    return Kind(key[-PID_BYTES - 1])


def range_of(topic: str, kind: Kind) -> KeyRange:
    """All keys of a topic's publishers, or of its subscribers."""
    name = topic.encode()
    return KeyRange(b"%s\0%c" % (name, kind), b"%s\0%c" % (name, kind + 1))


def after(key: bytes) -> bytes:
    """The least key above this one."""
    return key + b"\0"


@lru_cache(maxsize=1 << 17)
def vector_of(key: bytes) -> int:
    return int.from_bytes(blake2b(key, digest_size=VECTOR_BITS // 8).digest(), "big")


def common_level(one: int, other: int) -> int:
    """How many leading bits two membership vectors share: the level of one node in the other's table."""
    return VECTOR_BITS - (one ^ other).bit_length()
