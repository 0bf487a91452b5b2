"""Frames of links: what is written is read back, and nonsense is a FrameError."""

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braidmq.cluster import frames
from braidmq.cluster.frames import Beat, Control, Controls, FrameError, Interest, Piece
from braidmq.wire.frames import FrameReader

U32 = st.integers(0, 0xFFFF_FFFF)
U64 = st.integers(0, (1 << 64) - 1)


class Said(Control, frozen=True):
    what: str
    numbers: tuple[int, ...] = ()


class SaidMore(Control, frozen=True, tag="Said"):
    """The same of a newer version."""

    what: str
    numbers: tuple[int, ...]
    more: bool


def body_of(frame: bytes, first: int) -> bytes:
    reader = FrameReader(1 << 20)
    reader.feed(frame)
    ((found, body),) = list(reader)
    assert found == first
    return body


@given(U64, U32, U32, U32, st.booleans(), st.lists(U64, max_size=300))
def test_a_beat_is_read_back(hlc: int, sent: int, echo: int, load: int, held: bool, heard: list[int]) -> None:
    beat = Beat(hlc, sent, echo, load, held, frames.packed(heard))
    read = frames.read_beat(body_of(frames.beat(beat), frames.BEAT))
    assert read == beat
    assert all(frames.hears(read.heard, node) for node in heard)
    assert frames.hears(read.heard, hlc) == (hlc in heard)


@given(U32, st.integers(0, 255), st.booleans(), st.binary(max_size=300))
def test_an_announcement_is_read_back(number: int, stream: int, last: bool, piece: bytes) -> None:
    interest = Interest(number, stream, last, piece)
    assert frames.read_interest(body_of(frames.interest(interest), frames.INTEREST)) == interest
    assert frames.read_seen(body_of(frames.seen(number), frames.SEEN)) == number


@given(st.integers(0, 0x0FFF_FFFF), st.booleans(), st.binary(max_size=300))
def test_a_part_is_read_back(transfer: int, last: bool, piece: bytes) -> None:
    part = Piece(transfer, last, piece)
    assert frames.read_part(body_of(frames.part(part), frames.PART)) == part


def test_a_control_is_read_back_by_who_knows_it() -> None:
    said = Said("hello", (1, 2))
    body = body_of(frames.control(said), frames.CONTROL)
    assert Controls((Said,)).read(body) == said
    with pytest.raises(FrameError):
        Controls((Asked,)).read(body)


class Asked(Control, frozen=True):
    number: int


def test_a_newer_version_may_add_fields() -> None:
    body = body_of(frames.control(SaidMore("a", (), True)), frames.CONTROL)
    assert Controls((Said,)).read(body) == Said("a")


@pytest.mark.parametrize(
    "read",
    [frames.read_beat, frames.read_interest, frames.read_seen, frames.read_part, Controls((Said,)).read],
)
@given(body=st.binary(max_size=200))
def test_nonsense_is_no_more_than_a_frame_error(read: Callable[[bytes], object], body: bytes) -> None:
    with suppress(FrameError):
        read(body)


def test_frames_are_bounded() -> None:
    too_long = bytes(frames.PIECE_BYTES_MAX + 7)
    for read in (frames.read_interest, frames.read_part, Controls((Said,)).read):
        with pytest.raises(FrameError):
            read(too_long)
    with pytest.raises(FrameError):
        frames.read_beat(bytes(21 + 8 * 5000))
    with pytest.raises(ValueError, match="too large"):
        frames.control(Said("x" * 70_000))


def test_msgpack_that_is_nested_without_end_is_refused() -> None:
    with pytest.raises(FrameError):
        Controls((Deep,)).read(b"\x92\xa4Deep" + b"\x91" * 60_000)


class Deep(Control, frozen=True):
    anything: object
