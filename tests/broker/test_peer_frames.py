"""Whatever comes over a link, it is understood or ends the link with a reason; nothing else happens."""

from hypothesis import example, given
from hypothesis import strategies as st

from braidmq.messages.message import Message
from tests.broker.linked import NOBODY, Link, Side

GROUPS = bytes((3, 0, 1)) + (7).to_bytes(8, "little")


def valid_stream() -> bytes:
    """Frames of all kinds, as one node writes them."""
    one, two = Side(1, 2), Side(2, 1)
    link = Link(one, two)
    publish = one.broker.publishing.publish
    publish(Message(b"t", b"zero"))
    publish(Message(b"t", b"one", qos=1, publisher="somebody", expires_at_s=2_000.0))
    publish(Message(b"t", b"two", qos=2, retain=True, properties=b"\x03\x00\x04text"))
    one.peer.enter(1, b"a cut", None, NOBODY)
    one.peer.enter(2, b"given", Message(b"g", b"x", qos=1), GROUPS)
    two.broker.publishing.publish(Message(b"t", b"from there", qos=1))
    link.carry(1)
    return link.lanes[0].output.take()


STREAM = valid_stream()


def fed(data: bytes, chunk: int = 1 << 20) -> Side:
    two = Side(2, 1)
    two.world.connect("subscriber").subscribe("#")
    one = Side(1, 2)
    link = Link(one, two)
    for number in range(3):
        two.peer.enter(1, b"%d" % number, None, NOBODY)
    for begin in range(0, len(data), chunk):
        link.deliver(1, data[begin : begin + chunk])
    two.peer.check()
    two.world.check()
    assert len(two.failures) <= 1
    assert two.peer.is_linked == (not two.failures)
    assert all(two.failures)
    return two


def test_the_valid_stream_is_understood() -> None:
    two = fed(STREAM)
    assert two.failures == []
    assert (two.peer.received_qos0, two.peer.received_entries) == (1, 4)
    assert [kind for kind, *_ in two.entered_here] == [1, 2]


@given(st.binary(max_size=200))
def test_random_bytes_do_no_harm(data: bytes) -> None:
    fed(data)


@given(st.sampled_from((0x30, 0xF1, 0xF2, 0xF3)), st.binary(max_size=100))
@example(0xF3, b"\0" * 8 + b"\xff" * 9 + b"\x01")
@example(0xF2, b"\0" * 7 + b"\x01" + b"\x01" + b"\xff" * 9 + b"\x01")
@example(0xF1, b"\x02\x00" + b"\xff" * 9 + b"\x01")
@example(0xF1, b"\x01\x30")
def test_random_bodies_do_no_harm(first: int, body: bytes) -> None:
    fed(bytes((first, len(body))) + body)


@given(
    st.lists(st.tuples(st.integers(0, len(STREAM) - 1), st.integers(0, 255)), max_size=4),
    st.integers(0, len(STREAM)),
    st.integers(1, 50),
)
def test_mutated_streams_do_no_harm(changes: list[tuple[int, int]], length: int, chunk: int) -> None:
    data = bytearray(STREAM)
    for at, value in changes:
        data[at] = value
    fed(bytes(data[:length]), chunk)


def test_frames_are_bounded_until_the_link_is_open() -> None:
    side = Side(2, 1)
    for prove, size, is_taken in ((False, 4_000, True), (False, 4_100, False), (True, 65_000, True)):
        lane = side.lane()
        if prove:
            lane.prove()
        side.frames.clear()
        side.failures.clear()
        lane.receive(bytes((0xF7, size & 0x7F | 0x80)) + varint_end(size) + bytes(size), side.world.now)
        assert ([len(body) for _, body in side.frames] == [size]) == is_taken
        assert bool(side.failures) == (not is_taken)


def varint_end(size: int) -> bytes:
    return bytes((size >> 7,)) if size < 1 << 14 else bytes((size >> 7 & 0x7F | 0x80, size >> 14))


def test_before_the_link_is_open_no_message_is_taken() -> None:
    side = Side(2, 1)
    side.lane().receive(STREAM, side.world.now)
    assert {first for first, _ in side.frames} == {0x30, 0xF2, 0xF3}
    assert side.peer.received_qos0 == side.peer.received_entries == 0
