"""Frames come out whole and in order, however the stream is cut; what they cost is counted, not timed."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braidmq.errors import ProtocolError
from braidmq.wire import FrameReader, ReasonCode, fields
from tests.wire.packets import GOOD, split

LIMIT_BYTES = 1 << 22
TABLE_STREAM = b"".join(row.data for row in GOOD)
TABLE_FRAMES = [split(row.data) for row in GOOD]


def frame_of(first_byte: int, body: bytes) -> bytes:
    return bytes((first_byte,)) + fields.write_varint(len(body)) + body


class CountingReader(FrameReader):
    """Counts how often the reader looks at a header: its only loop that isn't per frame."""

    __slots__ = ("looks",)

    def __init__(self, max_packet_bytes: int) -> None:
        super().__init__(max_packet_bytes)
        self.looks = 0

    def _measure(self) -> tuple[int, int]:
        self.looks += 1
        return super()._measure()


def read_in_chunks(reader: FrameReader, stream: bytes, size: int) -> list[tuple[int, bytes]]:
    frames: list[tuple[int, bytes]] = []
    for start in range(0, len(stream), size):
        reader.feed(stream[start : start + size])
        frames.extend(reader.frames())
    return frames


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1000, len(TABLE_STREAM)])
def test_chunks_of_one_size(size: int) -> None:
    assert read_in_chunks(FrameReader(LIMIT_BYTES), TABLE_STREAM, size) == TABLE_FRAMES


@given(
    bodies=st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=300)), max_size=8),
    cuts=st.lists(st.integers(0, 2500), max_size=20),
)
def test_any_chunks(bodies: list[tuple[int, bytes]], cuts: list[int]) -> None:
    stream = b"".join(frame_of(*pair) for pair in bodies)
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    reader = FrameReader(LIMIT_BYTES)
    frames: list[tuple[int, bytes]] = []
    for start, end in pairwise(edges):
        reader.feed(stream[start:end])
        frames.extend(reader)
    assert frames == bodies


@given(bodies=st.lists(st.binary(max_size=200), min_size=1, max_size=8), taken=st.integers(0, 3))
def test_frames_left_for_later(bodies: list[bytes], taken: int) -> None:
    """Whoever stops in the middle gets the rest the next time, also after more has come."""
    stream = b"".join(frame_of(0x30, body) for body in bodies)
    reader = FrameReader(LIMIT_BYTES)
    reader.feed(stream)
    first = [frame for _, frame in zip(range(taken), reader.frames(), strict=False)]
    reader.feed(stream)
    assert first + list(reader) == [(0x30, body) for body in bodies * 2]


@pytest.mark.parametrize("length", [0, 127, 128, 16383, 16384, 2097151, 2097152])
def test_every_size_of_length(length: int) -> None:
    reader = FrameReader(LIMIT_BYTES)
    reader.feed(frame_of(0x30, bytes(length)) + b"\xc0\0")
    assert [(first, len(body)) for first, body in reader] == [(0x30, length), (0xC0, 0)]


def test_limit_counts_the_whole_packet() -> None:
    exact = frame_of(0x30, bytes(200))
    reader = FrameReader(len(exact))
    reader.feed(exact)
    assert len(list(reader)) == 1
    reader = FrameReader(len(exact) - 1)
    reader.feed(exact)
    with pytest.raises(ProtocolError) as refused:
        list(reader)
    assert refused.value.reason == ReasonCode.PACKET_TOO_LARGE


def test_limit_is_known_before_the_body_comes() -> None:
    reader = FrameReader(1000)
    reader.feed(b"\x30\xff\xff\x7f")
    with pytest.raises(ProtocolError) as refused:
        list(reader)
    assert refused.value.reason == ReasonCode.PACKET_TOO_LARGE


@pytest.mark.parametrize("length", [b"\x80\0", b"\xff\x80\0", b"\x80\x80\x80\0", b"\x80" * 4, b"\xff" * 5])
@pytest.mark.parametrize("size", [1, 10])
def test_bad_length(length: bytes, size: int) -> None:
    """[MQTT-1.5.5-1]"""
    reader = FrameReader(LIMIT_BYTES)
    with pytest.raises(ProtocolError) as refused:
        read_in_chunks(reader, b"\x30" + length, size)
    assert refused.value.reason == ReasonCode.MALFORMED_PACKET


def test_frames_before_the_fault_come_out_and_the_fault_stays() -> None:
    reader = FrameReader(LIMIT_BYTES)
    reader.feed(b"\xc0\0\xd0\0\x30\xff\xff\xff\xff")
    frames = reader.frames()
    assert [next(frames), next(frames)] == [(0xC0, b""), (0xD0, b"")]
    with pytest.raises(ProtocolError):
        next(frames)
    reader.feed(b"\xc0\0")
    with pytest.raises(ProtocolError):
        list(reader)


@pytest.mark.parametrize("body_bytes", [1 << 10, 1 << 14])
def test_looks_do_not_grow_with_chunks(body_bytes: int) -> None:
    """A packet byte by byte costs as many looks as its header has bytes, however long it is."""
    reader = CountingReader(LIMIT_BYTES)
    assert len(read_in_chunks(reader, frame_of(0x30, bytes(body_bytes)), 1)) == 1
    assert reader.looks <= 5


def test_looks_are_per_frame() -> None:
    reader = CountingReader(LIMIT_BYTES)
    assert len(read_in_chunks(reader, b"\xc0\0" * 1000, 2000)) == 1000
    assert reader.looks == 1000


def test_memory_is_given_back() -> None:
    reader = FrameReader(LIMIT_BYTES)
    for _ in range(100):
        reader.feed(frame_of(0x30, bytes(1000)))
        next(reader.frames())
    assert len(reader._buffer) <= 2 * 1003
