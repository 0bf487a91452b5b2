"""Fuzz target of the codec, and a seeded runner that mutates the packet table.

    python -m tests.wire.fuzz_codec --seconds 60 --seed 1

The same seed gives the same inputs. A fault prints its input in hexadecimal and ends the run with status 1.
"""

import argparse
import random
import sys
import time
from collections.abc import Callable, Iterator

from braidmq.errors import ProtocolError
from braidmq.wire import V5, V31, V311, FrameReader, PacketType, decode, decode_properties, encode, fields
from braidmq.wire.scan import scan_publish_properties
from tests.wire.packets import BAD, GOOD

VERSIONS = (V31, V311, V5)
LIMIT_BYTES = 1 << 16
INTERESTING = bytes((0, 1, 2, 3, 4, 5, 0x0B, 0x10, 0x23, 0x26, 0x7F, 0x80, 0x81, 0xC0, 0xED, 0xFE, 0xFF))


def fuzz_one(data: bytes) -> None:
    """Take any bytes: the first chooses the version, the rest is a stream, a packet and a property block.

    AssertionError, or anything but ProtocolError out of the codec, is a fault.
    """
    if len(data) < 2:
        return
    version = VERSIONS[data[0] % len(VERSIONS)]
    check_packet(data[1], data[2:], version)
    check_properties(data[1:])
    reader = FrameReader(LIMIT_BYTES)
    reader.feed(data[1:])
    try:
        for first_byte, body in reader:
            check_packet(first_byte, body, version)
    except ProtocolError:
        pass


def check_packet(first_byte: int, body: bytes, version: int) -> None:
    """What decodes encodes again, to something that means the same, and then to the same bytes for ever."""
    try:
        packet = decode(first_byte, body, version)
    except ProtocolError:
        return
    encoded = encode(packet, version)
    reader = FrameReader(len(encoded))
    reader.feed(encoded)
    ((again_first, again_body),) = list(reader)
    again = decode(again_first, again_body, version)
    assert again == packet
    assert encode(again, version) == encoded


def check_properties(block: bytes) -> None:
    """The checks in Python and in C agree."""
    try:
        decode_properties(fields.write_varint(len(block)) + block, 0, PacketType.PUBLISH)
        reason = 0
    except ProtocolError as refused:
        reason = refused.reason
    assert scan_publish_properties(block)[0] == reason


def seeds() -> list[bytes]:
    """Every packet of the table, with the byte that chooses its version in front."""
    good = [bytes((VERSIONS.index(row.version),)) + row.data for row in GOOD]
    return good + [bytes((VERSIONS.index(row.version),)) + row.data for row in BAD]


def _flip_bit(data: bytearray, rng: random.Random, _other: bytes) -> None:
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _set_byte(data: bytearray, rng: random.Random, _other: bytes) -> None:
    data[rng.randrange(len(data))] = rng.choice(INTERESTING)


def _delete(data: bytearray, rng: random.Random, _other: bytes) -> None:
    start = rng.randrange(len(data))
    del data[start : start + rng.randint(1, 4)]


def _double(data: bytearray, rng: random.Random, _other: bytes) -> None:
    start = rng.randrange(len(data))
    data[start:start] = data[start : start + rng.randint(1, 8)]


def _splice(data: bytearray, rng: random.Random, other: bytes) -> None:
    start = rng.randrange(len(other))
    at = rng.randrange(len(data))
    data[at : at + rng.randint(0, 8)] = other[start : start + rng.randint(1, 16)]


def _fix_length(data: bytearray, _rng: random.Random, _other: bytes) -> None:
    """Makes the remaining length right again, so that mutations of the body get past the framing."""
    if len(data) > 3 and len(data) - 3 < 0x80:
        data[2] = len(data) - 3


MUTATIONS: tuple[Callable[[bytearray, random.Random, bytes], None], ...] = (
    _flip_bit, _set_byte, _delete, _double, _splice, _fix_length,
)  # fmt: skip


def inputs(rng: random.Random) -> Iterator[bytes]:
    """The seeds as they are, then mutations of them without end."""
    table = seeds()
    yield from table
    while True:
        data = bytearray(rng.choice(table))
        for _ in range(rng.randint(1, 5)):
            if data:
                rng.choice(MUTATIONS)(data, rng, rng.choice(table))
        yield bytes(data)


def run(seed: int, enough: Callable[[int], bool]) -> int:
    """Try inputs until `enough` says so of their number; give the number."""
    tried = 0
    for data in inputs(random.Random(seed)):
        if enough(tried):
            break
        try:
            fuzz_one(data)
        except Exception:
            print(f"fault after {tried} inputs, with {data.hex()}", file=sys.stderr)
            raise
        tried += 1
    return tried


def main() -> int:
    parser = argparse.ArgumentParser(description="fuzz the MQTT codec from the packet table")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    deadline_s = time.monotonic() + arguments.seconds
    tried = run(arguments.seed, lambda _: time.monotonic() >= deadline_s)
    print(f"{tried} inputs from seed {arguments.seed}, no fault")
    return 0


if __name__ == "__main__":
    sys.exit(main())
