"""Whole nodes, joined: what a client publishes at one reaches those who want it at others."""

import pytest

from braidmq.cluster.events import Discovered
from braidmq.wire import Publish, Suback, Subscribe, Subscription, Unsubscribe
from tests.clustered.net import Member, Net


@pytest.fixture
def net():
    net = Net("abc")
    for _ in range(4):
        net.pass_time(0.25)
    return net


def subscribed(net, at, client_id, filter):
    """A client with a subscription that the whole cluster knows."""
    client = net[at].world.connect(client_id)
    client.send(Subscribe(1, (Subscription(filter, 2),)))
    assert client.read() == []  # the others don't know yet
    net.settle()
    client.expect(Suback)
    return client


def forwarded(member):
    """How much was sent to each peer."""
    return [peer.forwarded_qos0 + peer.forwarded_entries for peer in member.world.broker.peers]


def test_nodes_find_each_other(net):
    for member in net.members:
        assert len(member.node.cluster.members.linked()) == 2, member.shell.told


def test_what_is_published_at_one_reaches_a_subscriber_at_another(net):
    subscriber = subscribed(net, "b", "subscriber", "t/#")
    publisher = net["a"].world.connect("publisher")
    before = forwarded(net["a"])
    for qos in (0, 1, 2):
        publisher.send(Publish("t/x", b"%d" % qos, qos=qos, packet_id=qos or None))
        publisher.send(Publish("other", b"%d" % qos, qos=qos, packet_id=qos + 5 if qos else None))
    net.settle()
    assert subscriber.payloads() == [b"0", b"1", b"2"]
    after = forwarded(net["a"])
    assert [now - then for now, then in zip(after, before, strict=True)] == [3, 0]


def test_what_nobody_here_wants_is_counted(net):
    subscriber = subscribed(net, "b", "subscriber", "t")
    publisher = net["a"].world.connect("publisher")
    publisher.send(Publish("t", b"0", 0), Publish("t", b"1", 1, packet_id=1))
    net.settle()
    assert net["b"].node.counters["forwards_unwanted"]() == 0
    subscriber.send(Unsubscribe(2, ("t",)))  # and before that is known elsewhere:
    publisher.send(Publish("t", b"0", 0), Publish("t", b"0", 0), Publish("t", b"1", 1, packet_id=2))
    net.settle()
    assert net["b"].node.counters["forwards_unwanted"]() == 3


def test_a_publisher_learns_that_somebody_elsewhere_wants_it(net):
    subscribed(net, "c", "subscriber", "t")
    publisher = net["a"].world.connect("publisher")
    publisher.send(Publish("t", b"", qos=1, packet_id=1), Publish("u", b"", qos=1, packet_id=2))
    assert [(packet.packet_id, packet.reason) for packet in publisher.read()] == [(1, 0), (2, 0x10)]


def test_what_is_retained_at_one_is_retained_at_all(net):
    publisher = net["a"].world.connect("publisher")
    publisher.send(Publish("r", b"kept", retain=True))
    net.settle()
    subscriber = net["c"].world.connect("late")
    subscriber.send(Subscribe(1, (Subscription("r", 0),)))
    net.settle()
    assert subscriber.payloads() == [b"kept"]
    publisher.send(Publish("r", b"", retain=True))
    net.settle()
    assert all(member.world.broker.retained.get(b"r") is None for member in net.members)


def test_who_sends_much_is_alive_though_its_beats_are_late(net):
    here, there = net["a"], net["b"]
    (lane,) = [end.lane for end in here.ends if end.lane.peer.node == there.node.cluster.identity.node]
    lane.receive(bytes((0x30, 0xFF, 0x7F)), here.world.now)  # a long message, of which little comes
    for _ in range(8):
        here.world.pass_time(0.25)
        lane.receive(b"x", here.world.now)
    assert here.node.cluster.members.linked() == [there.node.cluster.identity.node]


def test_who_comes_later_gets_what_is_retained(net):
    publisher = net["a"].world.connect("publisher")
    for number in range(50):
        publisher.send(Publish(f"r/{number}", b"kept", retain=True))
    late = net.add("d")
    for _ in range(100):
        net.pass_time(0.02)
    assert len(late.world.broker.retained) == 50


def test_a_node_that_was_alone_and_one_that_joins_end_with_the_same_retained_messages():
    net = Net("")
    for number, name in enumerate("ab", start=1):
        member = Member(net, name, number)
        client = member.world.connect("publisher")
        client.send(Publish(f"only/{name}", b"x", retain=True))
        client.send(Publish("both", name.encode(), retain=True))
        client.send(Publish(f"gone/{name}", b"", retain=True))
        net.members.append(member)
    net["b"].node.tell(Discovered(("a",)))
    for _ in range(20):
        net.pass_time(0.25)
    one, other = (member.world.broker.retained for member in net.members)
    assert one.get(b"both").payload == other.get(b"both").payload
    assert {topic for topic, _ in one.all()} == {topic for topic, _ in other.all()}
    assert {topic for topic, _ in one.all()} == {b"only/a", b"only/b", b"both"}
    assert len(one.tombstones) == len(other.tombstones) == 2


def test_what_is_published_later_is_newer_whatever_the_clocks_say(net):
    """A node whose clock is behind has seen the stamps of others."""
    net["b"].node.cluster.clock.wall_offset_s -= 20
    publishers = {name: net[name].world.connect("publisher") for name in "ab"}
    for number, name in enumerate("ab" * 6):
        net.pass_time(0.06)  # a beat tells the time, too, but not as often
        publishers[name].send(Publish("r", b"%d" % number, retain=True))
        net.settle()
    assert {member.world.broker.retained.get(b"r").payload for member in net.members} == {b"%d" % number}


def test_a_shared_group_with_members_at_all_nodes_gets_each_message_once(net):
    members = [subscribed(net, at, f"member-{at}", "$share/g/jobs/#") for at in "abc"]
    publishers = [net[at].world.connect(f"publisher-{at}") for at in "abc"]
    for number in range(30):
        qos = number % 3
        publishers[number % 3].send(
            Publish(f"jobs/{number}", b"%d" % number, qos=qos, packet_id=number + 1 if qos else None)
        )
        net.settle()
    got = [[int(payload) for payload in member.payloads()] for member in members]
    assert sorted(number for numbers in got for number in numbers) == list(range(30))
    assert all(got), "somebody got nothing"
