"""The client gives up on a server that breaks the protocol: with a DISCONNECT that can be written, always."""

import pytest

from braidmq.client.events import Closed
from braidmq.client.options import SessionOptions
from braidmq.client.session import Session, State
from braidmq.wire import V5, V311, Connect, Disconnect, ReasonCode, encode
from tests.client.helpers import connected, sent_packets


def packets() -> list[bytes]:
    """A packet of each type that a server must not send, some of them damaged in ways with odd reasons."""
    connect = bytearray(encode(Connect("c"), V5))
    other_level = connect.copy()
    other_level[other_level.index(b"MQTT") + 4] = 6
    return [bytes(connect), bytes(other_level), *(bytes((kind << 4, 0)) for kind in (0, 8, 10, 12))]


@pytest.mark.parametrize("version", [V311, V5])
def test_what_a_server_must_not_send_ends_the_connection(version: int) -> None:
    for frame in packets():
        waiting = Session(SessionOptions(client_id="c", version=version))
        waiting.connect(0.0)
        waiting.data_to_send(0.0)
        for session in (connected(version=version), waiting):
            assert [type(event) for event in session.receive(frame, 0.0)] == [Closed]
            assert session.state is State.CLOSED
            if version == V5:
                faults = (ReasonCode.PROTOCOL_ERROR, ReasonCode.MALFORMED_PACKET)
                (goodbye,) = sent_packets(session)
                assert isinstance(goodbye, Disconnect)
                assert goodbye.reason in faults
