"""Snapshots and deltas as bytes: there and back, and nothing but a clear refusal for anything else."""

import random
import struct
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braidmq.errors import BraidError
from braidmq.topics.bloom import InterestError, LocalInterest, Outcome, RemoteInterest
from braidmq.topics.bloom.messages import (
    KNOWN_FALSE_MAX,
    Delta,
    DepthMasks,
    Kind,
    apply_delta,
    encode_delta,
    encode_snapshot,
    open_message,
    read_delta,
    read_snapshot,
)
from braidmq.topics.bloom.prefix import PrefixFilter
from tests.topics.bloom.strategies import random_filter

BLOCKS = 16


def sealed(data: bytes) -> bytes:
    return data + struct.pack("<I", zlib.crc32(data))


def resealed(message: bytes, offset: int, replacement: bytes) -> bytes:
    """A forgery: some bytes replaced, the checksum right."""
    body = message[:-4]
    return sealed(body[:offset] + replacement + body[offset + len(replacement):])


def some_filter() -> PrefixFilter:
    filter = PrefixFilter(BLOCKS, 10, 0xABCDEF)
    rng = random.Random(1)
    for _ in range(60):
        filter.add(random_filter(rng))
    filter.known_false = [5, 2**64 - 1, 77]
    return filter


def a_snapshot() -> bytes:
    return encode_snapshot(3, 9, some_filter())


def a_delta() -> bytes:
    return encode_delta(
        Delta(3, 10, [1, 2, 3], list(range(0, 900, 30)), [7, 8, 4000], DepthMasks(1, 2, 3), [11], [12]),
        BLOCKS,
    )


def test_a_snapshot_comes_back_whole() -> None:
    filter = some_filter()
    envelope = open_message(a_snapshot())
    snapshot = read_snapshot(envelope)
    assert (snapshot.epoch, snapshot.sequence, envelope.kind) == (3, 9, Kind.SNAPSHOT)
    masks = ("plus_depths", "hash_depths", "end_depths")
    for name in ("bits", "seed", "hashes", "blocks", "known_false", *masks):
        assert getattr(snapshot.filter, name) == getattr(filter, name), name


@given(
    keys=st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=30),
    raised=st.sets(st.integers(0, BLOCKS * 512 - 1), min_size=1, max_size=60),
    cleared=st.sets(st.integers(0, BLOCKS * 512 - 1), max_size=60),
    masks=st.none() | st.builds(DepthMasks, *[st.integers(0, 2**64 - 1)] * 3),
    false_added=st.lists(st.integers(0, 2**64 - 1), max_size=4),
    false_removed=st.lists(st.integers(0, 2**64 - 1), max_size=4),
)
def test_a_delta_comes_back_in_its_shorter_form(
    keys: list[int],
    raised: set[int],
    cleared: set[int],
    masks: DepthMasks | None,
    false_added: list[int],
    false_removed: list[int],
) -> None:
    delta = Delta(1, 2, keys, sorted(raised), sorted(cleared), masks, false_added, false_removed)
    message = encode_delta(delta, BLOCKS)
    back = read_delta(open_message(message), BLOCKS)
    assert bool(back.added_keys) != bool(back.set_positions)
    assert list(back.added_keys) in ([], keys)
    assert list(back.set_positions) in ([], sorted(raised))
    assert back.masks == masks
    assert (list(back.false_added), list(back.false_removed)) == (false_added, false_removed)
    assert list(back.cleared_positions) == sorted(cleared)
    assert len(message) <= 13 + 1 + 24 + 80 + len(keys) * 8 + 5 + len(cleared) * 3


@pytest.mark.parametrize("message", [a_snapshot(), a_delta()], ids=["snapshot", "delta"])
def test_every_damaged_byte_is_noticed(message: bytes) -> None:
    for offset in range(len(message)):
        damaged = bytearray(message)
        damaged[offset] ^= 0x10
        with pytest.raises(InterestError, match="checksum"):
            open_message(bytes(damaged))


@pytest.mark.parametrize("message", [a_snapshot(), a_delta()], ids=["snapshot", "delta"])
def test_every_cut_is_noticed(message: bytes) -> None:
    for length in range(len(message)):
        with pytest.raises(InterestError, match=r"checksum|at least 13 bytes"):
            open_message(message[:length])
    # The same with a checksum that is right: the body is at fault.
    for length in range(9, len(message) - 4):
        with pytest.raises(InterestError, match=r"cut short|blocks take|can't be read"):
            read_either(sealed(message[:length]))


def read_either(message: bytes) -> object:
    envelope = open_message(message)
    return read_snapshot(envelope) if envelope.kind is Kind.SNAPSHOT else read_delta(envelope, BLOCKS)


@pytest.mark.parametrize(
    ("message", "match"),
    [
        (resealed(a_snapshot(), 8, b"\x07"), "kind 7 are unknown"),
        (resealed(a_snapshot(), 17, b"\xff"), r"2\^255 blocks"),
        (resealed(a_snapshot(), 17, b"\x14"), "1048576 blocks take 67108864 bytes"),
        (resealed(a_snapshot(), 18, b"\x00"), "0 bits a key"),
        (resealed(a_snapshot(), 43, b"\xff\xff\xff\xff\x0f"), "cut short"),
        (resealed(a_snapshot(), 43, b"\xff\xff\xff\xff\xff"), "more than 5 bytes"),
        (sealed(a_snapshot()[:-4] + b"x"), "bytes, 1025 are there"),
        (resealed(a_delta(), 9, b"\x80"), "unknown parts 0x80"),
        (sealed(a_delta()[:-4] + b"x"), "1 bytes follow"),
        (sealed(struct.pack("<IIB", 1, 1, 2) + b"\x20\x01\x00\x01\xff"), "can't be read"),
        (sealed(struct.pack("<IIB", 1, 1, 2) + b"\x10\xff\xff\xff\xff\x0f\x03\x02ab"), "were promised"),
        (sealed(struct.pack("<IIB", 1, 1, 2) + b"\x08\xff\xff\xff\xff\x0f"), "cut short"),
        (sealed(struct.pack("<IIB", 1, 1, 2) + b"\x04\xff\xff\xff\xff\x0f"), "cut short"),
    ],
)
def test_forgeries_are_refused_without_allocating(message: bytes, match: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(InterestError, match=match):
            read_either(message)
        assert tracemalloc.get_traced_memory()[1] < 200_000
    finally:
        tracemalloc.stop()


def test_too_many_known_false_keys_are_refused() -> None:
    filter = some_filter()
    filter.known_false = list(range(KNOWN_FALSE_MAX + 1))
    with pytest.raises(InterestError, match="more than 4096"):
        read_snapshot(open_message(encode_snapshot(1, 1, filter)))


HEADERS = [b"", struct.pack("<IIB", 1, 1, Kind.SNAPSHOT), struct.pack("<IIB", 3, 10, Kind.DELTA)]


@given(st.binary(max_size=200), st.sampled_from(HEADERS))
def test_any_bytes_are_read_or_refused(data: bytes, header: bytes) -> None:
    receiver = RemoteInterest()
    receiver.receive(a_snapshot())
    for message in (header + data, sealed(header + data)):
        refused = False
        try:
            assert receiver.receive(message) in Outcome
        except BraidError:
            refused = True
        assert refused <= receiver.may_match(b"anything/at/all")


def test_a_delta_that_makes_the_known_false_list_too_long_changes_nothing() -> None:
    filter = some_filter()
    before = filter.bits
    flood = Delta(3, 10, [1, 2, 3], false_added=range(100, 100 + KNOWN_FALSE_MAX))
    with pytest.raises(InterestError, match="more than 4096"):
        apply_delta(flood, filter)
    assert (filter.bits, len(filter.known_false)) == (before, 3)


@given(st.data())
def test_forged_deltas_never_break_the_receiver(data: st.DataObject) -> None:
    """Whatever a peer sends under a right checksum is applied as a whole or refused as a whole."""
    owner = LocalInterest(seed=1)
    for index in range(200):
        owner.subscribe(b"a/%d/+" % index)
    receiver = RemoteInterest()
    snapshot = owner.flush()
    assert snapshot is not None
    receiver.receive(snapshot)
    owner.subscribe(b"new/filter")
    owner.unsubscribe(b"a/7/+")
    delta = owner.flush()
    assert delta is not None
    offset = data.draw(st.integers(9, len(delta) - 5))
    forged = resealed(delta, offset, data.draw(st.binary(min_size=1, max_size=3))[: len(delta) - 4 - offset])
    assert receiver.filter is not None
    before = receiver.filter.bits
    try:
        outcome = receiver.receive(forged)
    except InterestError:
        assert receiver.filter.bits == before
        assert receiver.may_match(b"anything/at/all")
    else:
        assert outcome is Outcome.APPLIED
    assert receiver.receive(owner.snapshot()) in (Outcome.APPLIED, Outcome.STALE)
