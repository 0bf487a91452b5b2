"""What is published at one node reaches subscribers at others, at every QoS, as three clients judge."""

import queue
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from paho.mqtt.client import Client as PahoClient
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from braidmq.client import BlockingClient
from tests.cli.program import braidmq
from tests.cluster.live.nodes import LiveNode, cluster_of, meet, until

TIMEOUT_S = 30.0
MESSAGES = 30
needs_mosquitto = pytest.mark.skipif(shutil.which("mosquitto_pub") is None, reason="needs mosquitto-clients")


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[LiveNode]]:
    # Nobody is killed here; links that last let QoS 0 through.
    with cluster_of(tmp_path_factory.mktemp("cluster"), "north", "east", "west", failure_s=30) as nodes:
        yield nodes


def client_of(node: LiveNode, client_id: str) -> BlockingClient:
    return BlockingClient(f"127.0.0.1:{node.port}", client_id=client_id)


def payloads(client: BlockingClient, count: int) -> list[bytes]:
    found: list[bytes] = []
    for message in client.messages(TIMEOUT_S):
        found.append(bytes(message.payload))
        if len(found) == count:
            break
    return found


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_our_client_hears_at_one_node_what_is_published_at_another(nodes: list[LiveNode], qos: int) -> None:
    north, east, west = nodes
    with client_of(east, f"east-{qos}") as one, client_of(west, f"west-{qos}") as other:
        one.subscribe(f"ours/{qos}/#", qos=qos)
        other.subscribe(f"ours/{qos}/+", qos=qos)
        expected = [b"%d" % number for number in range(MESSAGES)]
        with client_of(north, f"north-{qos}") as publisher:
            # What is published after SUBACK is missed nowhere.
            publisher.publish_many([(f"ours/{qos}/t", payload) for payload in expected], qos=qos)
            assert payloads(one, MESSAGES) == expected
            assert payloads(other, MESSAGES) == expected


def paho(
    node: LiveNode, version: MQTTProtocolVersion, filter: str = ""
) -> "tuple[PahoClient, queue.Queue[bytes]]":
    client = PahoClient(CallbackAPIVersion.VERSION2, protocol=version)
    heard: queue.Queue[bytes] = queue.Queue()
    ready: queue.Queue[str] = queue.Queue()
    client.on_connect = lambda *_: ready.put("connected")
    client.on_subscribe = lambda *_: ready.put("subscribed")
    client.on_message = lambda _client, _data, message: heard.put(message.payload)
    client.connect("127.0.0.1", node.port)
    client.loop_start()
    assert ready.get(timeout=TIMEOUT_S) == "connected"
    if filter:
        client.subscribe(filter, qos=2)
        assert ready.get(timeout=TIMEOUT_S) == "subscribed"
    return client, heard


@pytest.mark.parametrize("version", [MQTTProtocolVersion.MQTTv311, MQTTProtocolVersion.MQTTv5])
def test_paho_does(nodes: list[LiveNode], version: MQTTProtocolVersion) -> None:
    subscriber, heard = paho(nodes[1], version, f"paho/{version}/#")
    publisher, _ = paho(nodes[2], version)
    try:
        for number in range(MESSAGES):
            told = publisher.publish(f"paho/{version}/t", b"%d" % number, qos=number % 3)
            told.wait_for_publish(TIMEOUT_S)
        found = [heard.get(timeout=TIMEOUT_S) for _ in range(MESSAGES)]
        assert sorted(map(int, found)) == list(range(MESSAGES))
    finally:
        for client in (subscriber, publisher):
            client.disconnect()
            client.loop_stop()


@needs_mosquitto
@pytest.mark.parametrize("qos", ["0", "1", "2"])
def test_mosquittos_tools_do(nodes: list[LiveNode], qos: str) -> None:
    words = ["-h", "127.0.0.1", "-V", "5", "-q", qos, "-t", f"tools/{qos}"]
    hearing = ["mosquitto_sub", *words, "-p", str(nodes[2].port), "-C", "1", "-W", "30"]
    with subprocess.Popen(hearing, stdout=subprocess.PIPE) as subscriber:
        until(lambda: nodes[0].ask("GET", f"/cluster/routes?topic=tools/{qos}")["nodes"], "it has subscribed")
        subprocess.run(
            ["mosquitto_pub", *words, "-p", str(nodes[0].port), "-m", "hello"], check=True, timeout=30
        )
        out, _ = subscriber.communicate(timeout=TIMEOUT_S)
    assert out == b"hello\n"


def test_what_is_retained_at_one_node_is_retained_at_all(nodes: list[LiveNode]) -> None:
    north, east, _ = nodes
    with client_of(north, "retainer") as publisher:
        publisher.publish("retained/state", b"on", qos=1, retain=True)
    until(lambda: east.ask("GET", "/retained?filter=retained/state")["items"], "it is retained")
    with client_of(east, "late") as subscriber:
        subscriber.subscribe("retained/#", qos=1)
        assert payloads(subscriber, 1) == [b"on"]


def test_a_message_of_a_shared_group_goes_to_one_member_in_the_whole_cluster(nodes: list[LiveNode]) -> None:
    members = [client_of(node, f"member-{node.name}") for node in nodes]
    expected = {b"%d" % number for number in range(MESSAGES)}
    try:
        for member in members:
            member.open()
            member.subscribe("$share/crew/jobs/#", qos=1)
        with client_of(nodes[0], "foreman") as publisher:
            publisher.publish_many([("jobs/t", payload) for payload in sorted(expected)], qos=1)
            done: list[bytes] = []
            while len(done) < MESSAGES:
                for member in members:
                    done += [bytes(message.payload) for message in member.receive_batch(10, timeout_s=0.1)]
            assert len(done) == MESSAGES
            assert set(done) == expected
    finally:
        for member in members:
            member.close()


def test_routes_say_where_a_message_would_go(nodes: list[LiveNode]) -> None:
    north, east, _ = nodes
    with client_of(east, "wanting") as subscriber:
        subscriber.subscribe("routes/+", qos=1)
        shown = braidmq("cluster", "routes", "routes/1", "--admin-port", str(north.admin_port))
        assert shown.stdout.decode() == "0 sessions of this node\nsubscribers of east (live)\n"


def lasting(node: LiveNode) -> BlockingClient:
    return BlockingClient(
        f"127.0.0.1:{node.port}", client_id="lasting", clean_start=False, session_expiry_s=3600
    )


def test_what_was_acknowledged_survives_a_kill_of_both_nodes_and_arrives_once(tmp_path: Path) -> None:
    with cluster_of(tmp_path, "north", "east") as (north, east):
        with lasting(east) as subscriber:
            subscriber.subscribe("kept/#", qos=2)
        east.kill()
        expected = [b"%d" % number for number in range(MESSAGES)]
        with client_of(north, "publisher") as publisher:
            publisher.publish_many([("kept/t", payload) for payload in expected], qos=2)
        north.kill()
        for node in (north, east):
            node.start()
        for node in (north, east):
            until(node.is_up, f"{node.name} is up")
        meet([north, east])
        with client_of(north, "publisher") as publisher:
            publisher.publish("kept/t", b"the end", qos=2)
        with lasting(east) as subscriber:
            assert payloads(subscriber, MESSAGES + 1) == [*expected, b"the end"]
