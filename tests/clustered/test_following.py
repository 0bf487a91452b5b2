"""Whole nodes, joined: a session is where its client is."""

import msgspec
import pytest

from braidmq.cluster.effects import Send
from braidmq.cluster.frames import INTEREST
from braidmq.wire import Connect, Properties, Publish, Subscribe, Subscription
from tests.clustered.net import SETTINGS, Net


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


def test_others_know_what_the_session_wants_before_they_are_asked_for_cuts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hasty = msgspec.structs.replace(SETTINGS, suback_wait_ms=0)
    monkeypatch.setattr("tests.clustered.net.SETTINGS", hasty)
    net = joined()
    lasting = Properties(session_expiry_s=100)
    first = net["a"].world.connect("c", properties=lasting)
    first.send(Subscribe(1, (Subscription("t", 1),)))
    net.settle()
    frames: list[bytes] = []
    node = net["c"].node
    node.carry_out({Send: lambda effect: (frames.append(effect.frame), node._send(effect))})
    again = net["c"].world.open()
    again.send(Connect("c", False, properties=lasting))
    net.settle()
    told = [frame[0] == INTEREST for frame in frames if frame[0] == INTEREST or b"CutRequest" in frame]
    assert told[:3] == [True, True, False]
