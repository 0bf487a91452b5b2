"""Decoding costs time linear in the bytes, shown by counting what is touched instead of watching a clock."""

from typing import Any

import pytest

from braidmq.wire import (
    V5,
    Connect,
    Packet,
    Properties,
    Publish,
    Suback,
    Subscribe,
    Subscription,
    Unsubscribe,
    decode,
    encode,
)


class CountingBytes(bytes):
    """Bytes that count how many of them were read, sliced or decoded; slices share the counter."""

    touched: list[int]

    def __getitem__(self, key: Any) -> Any:
        got = super().__getitem__(key)
        if isinstance(got, int):
            self.touched[0] += 1
            return got
        self.touched[0] += len(got)
        return counting(got, self.touched)

    def decode(self, *arguments: Any, **options: Any) -> str:
        self.touched[0] += len(self)
        return super().decode(*arguments, **options)


def counting(data: bytes, touched: list[int]) -> CountingBytes:
    counted = CountingBytes(data)
    counted.touched = touched
    return counted


def bytes_touched(packet: Packet) -> tuple[int, int]:
    """How many bytes the decoder touched, and how many there are."""
    data = encode(packet, V5)
    length_bytes = next(index for index, byte in enumerate(data[1:], 1) if byte < 0x80)
    body = data[1 + length_bytes :]
    touched = [0]
    assert decode(data[0], counting(body, touched), V5) == packet
    return touched[0], len(body)


PAIRS = tuple((f"name-{index}", f"value-{index}") for index in range(2000))
LARGE: list[Packet] = [
    Publish("a", bytes(100_000)),
    Publish("a", b"", properties=Properties(user_properties=PAIRS)),
    Publish("a", b"", properties=Properties(subscription_identifiers=tuple(range(1, 5000)))),
    Publish("a" * 60_000),
    Connect("c", properties=Properties(user_properties=PAIRS)),
    Subscribe(1, tuple(Subscription(f"filter/{index}/#") for index in range(3000))),
    Unsubscribe(1, tuple(f"filter/{index}/#" for index in range(3000))),
    Suback(1, (0,) * 50_000),
]


@pytest.mark.parametrize("packet", LARGE, ids=lambda packet: type(packet).__name__)
def test_bytes_touched_are_a_small_multiple_of_the_bytes(packet: Packet) -> None:
    touched, size = bytes_touched(packet)
    assert touched >= size // 2  # the counter counts
    assert touched <= 8 * size
