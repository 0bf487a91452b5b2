"""Messages that go from node to node: everybody who wants one gets it once, however far away."""

from collections import Counter

import msgspec
import pytest

from braidmq.broker.peers import Peer
from braidmq.cluster.settings import Settings
from braidmq.errors import ProtocolError
from braidmq.messages.message import Message
from braidmq.wire import Publish, Subscribe, Subscription
from tests.clustered.net import SETTINGS, Net

NAMES = "abcdefg"


def ring(name: str) -> Settings:
    """Flooding over the links beside a node in a ring: all others are some nodes away."""
    here = NAMES.index(name)
    beside = (NAMES[here - 1], NAMES[(here + 1) % len(NAMES)])
    return msgspec.structs.replace(SETTINGS, routing="flood", neighbours=beside)


def tree(name: str) -> Settings:
    return msgspec.structs.replace(SETTINGS, routing="tree")


def crowd(name: str) -> Settings:
    return msgspec.structs.replace(SETTINGS, routing="flood")


@pytest.mark.parametrize("settings", [ring, tree, crowd])
def test_everybody_gets_everything_once(settings):
    net = Net(NAMES, settings)
    for _ in range(4):
        net.pass_time(0.25)
    subscribers = {}
    for name in NAMES:
        subscribers[name] = net[name].world.connect("subscriber")
        subscribers[name].send(Subscribe(1, (Subscription("t/#", 2), Subscription("$share/g/t/1", 1))))
    net.settle()
    for subscriber in subscribers.values():
        subscriber.read()
    published = Counter()
    for name in NAMES:
        publisher = net[name].world.connect("publisher")
        for qos in (0, 0, 1, 2):
            payload = f"{name}{qos}{published.total()}".encode()
            published[payload] += 1
            publisher.send(Publish("t/x", payload, qos, packet_id=7 if qos else None))
        publisher.send(Publish("t/properties", b"p", 0, retain=True))
        published[b"p"] += 1
        net.settle()
    publisher.send(Publish("t/1", b"for all and one", 1, packet_id=9))
    net.settle()
    received = [Counter(subscriber.payloads()) for subscriber in subscribers.values()]
    assert sum(counts.pop(b"for all and one") for counts in received) == len(NAMES) + 1
    assert received == [published] * len(NAMES)
    assert all(member.world.broker.retained.get(b"t/properties") is not None for member in net.members)


def test_without_a_link_qos_0_is_dropped_and_counted_and_qos_1_waits():
    net = Net("ab", tree)
    for _ in range(4):
        net.pass_time(0.25)
    here = net["a"]
    for end in here.ends:
        end.lane.lost("cut by the test")
        end.is_closed = True
    publisher = here.world.connect("publisher")
    publisher.send(Publish("t", b"0", 0), Publish("t", b"1", 1, packet_id=1))
    [peer] = here.world.broker.peers
    assert peer.queued_count == 1
    assert here.world.broker.hub.counters.by_name()["dropped_peer_away"] == 1


def test_nonsense_from_a_peer_is_refused():
    net = Net("ab", tree)
    node = net["a"].node
    peer = Peer(net["a"].world.broker.hub, 5)
    with pytest.raises(ProtocolError):
        node._entries[4](peer, b"\xc1", Message(b"t", b"x"), b"\x01\x00")
