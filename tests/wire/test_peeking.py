"""Whose CONNECT it is, as far as its first bytes tell."""

from hypothesis import given
from hypothesis import strategies as st

from braidmq.wire import V5, V31, V311, Connect, Properties, Publish, Will, encode
from braidmq.wire.peeking import Peeked, peek_client_id

CONNECTS = [
    Connect("plain", version=V311),
    Connect("old", version=V31),
    Connect("", version=V5),
    Connect(
        "straße", version=V5, properties=Properties(session_expiry_s=7, user_properties=(("a", "b" * 500),))
    ),
    Connect("with-will", version=V5, will=Will("t", b"x" * 3000, 1), username="u", password=b"p"),
]


def test_every_connect_tells_its_client():
    for connect in CONNECTS:
        encoded = encode(connect, connect.version)
        assert peek_client_id(encoded) == Peeked(connect.client_id.encode())


def test_a_beginning_says_how_much_is_needed_until_it_tells():
    """Whoever waits for as many bytes as were asked for gets on; none beyond the id are needed."""
    for connect in CONNECTS:
        encoded = encode(connect, connect.version)
        size = 0
        while (peeked := peek_client_id(encoded[:size])).bytes_needed:
            assert size < peeked.bytes_needed <= len(encoded)
            size = peeked.bytes_needed
        assert peeked.client_id == connect.client_id.encode()
        assert (
            encoded.index(connect.client_id.encode()) + len(connect.client_id.encode()) >= size
            or not connect.client_id
        )


def test_another_packet_is_nobodys():
    assert peek_client_id(encode(Publish("t", b"payload"), V5)) == Peeked()


def test_a_connect_shorter_than_it_says_is_nobodys():
    encoded = bytearray(encode(Connect("somebody", version=V311), V311))
    encoded[1] = 11  # the packet ends before its client id
    assert peek_client_id(bytes(encoded)) == Peeked()


@given(st.binary(max_size=64))
def test_any_bytes_get_an_answer(data):
    peeked = peek_client_id(data)
    assert peeked.bytes_needed == 0 or peeked.bytes_needed > len(data)


@given(st.integers(0, 4), st.data())
def test_a_damaged_connect_gets_an_answer(which, data):
    encoded = bytearray(encode(CONNECTS[which], CONNECTS[which].version))
    encoded[data.draw(st.integers(0, len(encoded) - 1))] ^= data.draw(st.integers(1, 255))
    cut = bytes(encoded[: data.draw(st.integers(0, len(encoded)))])
    peeked = peek_client_id(cut)
    assert peeked.bytes_needed == 0 or peeked.bytes_needed > len(cut)


def test_a_connect_that_ends_before_its_properties_is_not_waited_for():
    encoded = bytearray(encode(Connect("somebody", version=V5), V5))
    encoded[1] = 10  # the packet ends where they would begin
    assert peek_client_id(bytes(encoded[:12])) == Peeked()
