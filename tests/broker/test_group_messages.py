"""What was on its way to a dead node for its shared groups, and another node may have instead."""

from braidmq.broker.peers import Peer
from braidmq.messages.message import Message
from tests.broker.world import World

PLAIN = b"\x01\x00"
FOR_GROUPS = b"\x03\x00\x02" + (7).to_bytes(8, "little") + (8).to_bytes(8, "little")


def test_a_peer_knows_what_waits_in_it_for_shared_groups() -> None:
    peer = Peer(World().broker.hub, 2, 1 << 40, keeps=False)
    for payload, route in ((b"plain", PLAIN), (b"work", FOR_GROUPS), (b"more", FOR_GROUPS)):
        peer.enter(0, b"", Message(b"t/1", payload, 2), route)
    peer.enter(2, b"head", Message(b"t/1", b"given", 1), b"\x00\x00")
    found = [(number, message.payload) for number, message in peer.group_messages()]
    assert found == [(7, b"work"), (8, b"work"), (7, b"more"), (8, b"more")]
    peer.died()
    assert peer.group_messages() == []
