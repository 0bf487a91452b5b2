"""What an operator sees of a node and may do with it, and what is refused with a reason."""

import pytest

from braidmq.clustered.operating import Operator
from braidmq.errors import ConfigError
from braidmq.wire import (
    Connack,
    Connect,
    Disconnect,
    Properties,
    Publish,
    ReasonCode,
    Subscribe,
    Subscription,
)
from tests.clustered.net import Member, Net


@pytest.fixture
def net() -> Net:
    net = Net("abc")
    for _ in range(4):
        net.pass_time(0.25)
    return net


def operator_of(member: Member, stopped: list[str] | None = None) -> Operator:
    ended = [] if stopped is None else stopped
    operator = Operator(member.node, 500, lambda: ended.append(member.name))
    operator.is_joining = False
    return operator


def cut_off(net: Net, name: str) -> None:
    """The node is gone, without a word."""
    gone = net[name]
    net.members.remove(gone)
    for member in net.members:
        for end in [end for end in member.ends if end.other in gone.ends]:
            assert end.lane is not None
            end.is_closed = True
            end.lane.lost("cut by the test")


def test_the_cluster_is_shown_with_what_waits_for_each_node(net: Net) -> None:
    subscriber = net["b"].world.connect("s", clean_start=False, properties=lasting())
    subscriber.send(Subscribe(1, (Subscription("t/#", 1),)))
    net.settle()
    operator = operator_of(net["a"])
    assert {node.name: node.state for node in operator.status().nodes} == dict.fromkeys("abc", "live")
    assert operator.status().size == 3
    assert operator_of(net["b"]).status().counters["announcements"] > 0
    routes = operator.routes(b"t/1")
    assert (routes.sessions_here, [node.name for node in routes.nodes]) == (0, ["b"])
    cut_off(net, "b")
    net["a"].world.connect("p").send(Publish("t/1", b"x", qos=1, packet_id=1))
    (b,) = [node for node in operator.status().nodes if node.name == "b"]
    assert (b.state, b.queued_messages) == ("suspect", 1)


def lasting() -> Properties:
    return Properties(session_expiry_s=100)


def test_a_node_that_joins_isnt_ready() -> None:
    operator = Operator(Net("a")["a"].node, 500, lambda: None)
    assert operator.why_not_ready == "the node is joining"
    operator.is_joining = False
    assert operator.why_not_ready is None


def test_draining_is_told_to_the_others_and_taken_back(net: Net) -> None:
    operator, other = operator_of(net["a"]), operator_of(net["b"])
    assert operator.drain() == "draining"
    net.settle()
    assert operator.why_not_ready == "the node is draining"
    assert [node.state for node in other.status().nodes if node.name == "a"] == ["draining"]
    assert operator.undrain() == "live"
    net.settle()
    assert [node.state for node in other.status().nodes if node.name == "a"] == ["live"]


def test_who_is_alone_has_nobody_to_drain_to() -> None:
    operator = operator_of(Net("a")["a"])
    for refused in (operator.drain, operator.leave):
        with pytest.raises(ConfigError, match="there is no other node that could take the clients"):
            refused()
    assert operator.why_not_ready is None


def test_a_node_leaves_when_others_have_all_of_its_clients_and_stops(net: Net) -> None:
    stopped: list[str] = []
    a = net["a"].world
    away = a.connect("away", clean_start=False, properties=lasting())
    away.send(Subscribe(1, (Subscription("t", 1),)))
    net.settle()
    away.vanish()
    here = a.connect("here")
    net["b"].world.connect("publisher").send(Publish("t", b"kept", qos=1, packet_id=1))
    net.settle()
    operator = operator_of(net["a"], stopped)
    assert operator.leave() == "leaving"
    with pytest.raises(ConfigError, match="the node is leaving"):
        operator.undrain()
    assert here.expect(Disconnect).reason == ReasonCode.SERVER_MOVED
    for _ in range(30):
        net.pass_time(0.2)
    assert operator.status().nodes[0].state == "left"
    assert stopped == ["a"]
    assert [node.name for node in operator_of(net["b"]).status().nodes] == ["b", "c"]
    (home,) = [member for member in net.members if "away" in member.world.broker.sessions]
    assert home.name in "bc"
    back = home.world.open()
    back.send(Connect("away", clean_start=False, properties=lasting()))
    assert back.payloads() == [b"kept"]


def test_who_comes_to_a_drained_node_is_sent_to_another(net: Net) -> None:
    here = net["a"].world.connect("here")
    operator = operator_of(net["a"])
    operator.drain()
    assert here.expect(Disconnect).reason == ReasonCode.USE_ANOTHER_SERVER
    late = net["a"].world.open()
    late.send(Connect("late"))
    assert late.expect(Connack).reason == ReasonCode.USE_ANOTHER_SERVER
    operator.undrain()
    net["a"].world.connect("late")


def test_clients_are_spread_evenly_when_any_node_is_asked_to(net: Net) -> None:
    clients = [net["a"].world.connect(f"client-{number}") for number in range(9)]
    for _ in range(4):
        net.pass_time(0.25)  # beats tell how many clients each has
    operator_of(net["b"]).rebalance()
    for _ in range(20):
        net.pass_time(0.1)
    gone = [client for client in clients if client.read()]
    assert 5 <= len(gone) <= 6
    assert net["a"].world.broker.clients_connected == 9 - len(gone)


def test_only_the_dead_are_forgotten_by_name_or_id(net: Net) -> None:
    operator = operator_of(net["a"])
    with pytest.raises(ConfigError, match="node b is live: let it leave"):
        operator.forget("b")
    with pytest.raises(ConfigError, match=r"there is no other node 'x'; braidmq cluster status lists them"):
        operator.forget("x")
    cut_off(net, "b")
    cut_off(net, "c")
    for _ in range(20):
        net.pass_time(0.25)
    b, c = (node for node in operator.status().nodes if not node.is_this_node)
    assert (b.state, c.state) == ("dead", "dead")
    assert operator.forget("b").name == "b"
    assert operator.forget(c.node).name == "c"
    assert [node.name for node in operator.status().nodes] == ["a"]
    assert [entry.is_forgotten for entry in net["a"].shell.remembered] == [True, True]
