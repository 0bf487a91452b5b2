"""A client whose session is at a dead node: it begins anew, or waits for that node."""

import msgspec
import pytest

from braidmq.cluster.events import Forget
from braidmq.wire import Connack, Connect, Properties
from tests.clustered.net import SETTINGS, Net


def connect(net, at, client_id, *, clean_start=False, expiry_s=1000):
    client = net[at].world.open()
    properties = Properties(session_expiry_s=expiry_s)
    client.send(Connect(client_id, clean_start=clean_start, properties=properties))
    for _ in range(20):  # a session that moves takes its time
        net.pass_time(0.1)
        if answers := client.read():
            return answers[0]
    raise AssertionError("no answer")


@pytest.fixture
def net(request):
    settings = msgspec.structs.replace(SETTINGS, home_down=request.param)
    net = Net("abc", lambda name: settings)
    for _ in range(4):
        net.pass_time(0.25)
    for client_id in ("one", "brief"):
        assert connect(net, "c", client_id, expiry_s=1000 if client_id == "one" else 0).reason == 0
    for _ in range(3):
        net.pass_time(0.25)
    net.kill("c")
    for _ in range(20):
        net.pass_time(0.25)
    return net


@pytest.mark.parametrize("net", ["wait"], indirect=True)
def test_it_is_refused_unless_it_wants_a_new_session(net):
    answer = connect(net, "a", "one")
    assert isinstance(answer, Connack)
    assert answer.reason == 0x88
    assert connect(net, "a", "brief").reason == 0, "its session did not last"
    assert connect(net, "a", "another").reason == 0
    assert connect(net, "b", "one", clean_start=True).reason == 0, "it wants none of the old"
    assert connect(net, "a", "one").session_present, "and now has another one"


@pytest.mark.parametrize("net", ["wait"], indirect=True)
def test_it_begins_anew_when_its_node_is_forgotten(net):
    here = net["a"].node
    [dead] = [peer for peer in here.cluster.members.remembered() if not here.cluster.members.is_linked(peer)]
    here.tell(Forget(dead))
    answer = connect(net, "a", "one")
    assert (answer.reason, answer.session_present) == (0, False)


@pytest.mark.parametrize("net", ["fresh"], indirect=True)
def test_it_begins_anew(net):
    answer = connect(net, "a", "one")
    assert (answer.reason, answer.session_present) == (0, False)
