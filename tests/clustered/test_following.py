"""Whole nodes, joined: a session is where its client is."""

from braidmq.wire import Connect, Properties, Publish, Subscribe, Subscription
from tests.clustered.net import Net


def joined() -> Net:
    net = Net("abc")
    for _ in range(4):
        net.pass_time(0.25)
    return net


def test_a_session_follows_its_client_to_another_node() -> None:
    net = joined()
    lasting = Properties(session_expiry_s=100)
    first = net["a"].world.connect("c", properties=lasting)
    first.send(Subscribe(1, (Subscription("t", 1),)))
    net.settle()
    publisher = net["b"].world.connect("publisher")
    publisher.send(*(Publish("t", b"%d" % number, qos=1, packet_id=number + 1) for number in range(3)))
    net.settle()
    again = net["c"].world.open()
    again.send(Connect("c", False, properties=lasting))
    net.settle()
    answer, *waited = again.read()
    assert answer.session_present
    assert [packet.payload for packet in waited] == [b"0", b"1", b"2"]
    assert first.read()[-1].reason == 0x8E
    publisher.send(Publish("t", b"3", qos=1, packet_id=4))
    net.settle()
    assert again.payloads() == [b"3"]
    assert [len(member.world.broker.sessions) for member in net.members] == [0, 1, 1]
