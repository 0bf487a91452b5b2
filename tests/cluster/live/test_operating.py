"""A node is drained and leaves, as an operator does it: its clients find their sessions at the others."""

from pathlib import Path

from braidmq.client import BlockingClient
from tests.cli.program import braidmq
from tests.cluster.live.nodes import LiveNode, cluster_of, until
from tests.cluster.live.test_forwarding import client_of, lasting, payloads


def told(node: LiveNode, what: str) -> str:
    answer = braidmq("cluster", what, "--admin-port", str(node.admin_port))
    assert answer.returncode == 0, answer.stderr.decode()
    return answer.stdout.decode()


def session_is_at(node: LiveNode) -> bool:
    return "detail" not in node.ask("GET", "/sessions/lasting")


def test_a_drained_node_gives_its_sessions_away_and_leaves(tmp_path: Path) -> None:
    with cluster_of(tmp_path, "north", "east") as (north, east):
        with lasting(east) as subscriber:
            subscriber.subscribe("kept/#", qos=1)
        with client_of(north, "publisher") as publisher:
            publisher.publish("kept/t", b"while it was away", qos=1)
        stays = BlockingClient(f"127.0.0.1:{east.port}", client_id="stays", reconnect=False)
        stays.open()
        assert told(east, "drain").startswith("draining")
        until(lambda: not east.ask("GET", "/clients")["items"], "who was there is sent away")
        stays.close()
        until(lambda: session_is_at(north) and not session_is_at(east), "the session has followed")
        with lasting(north) as subscriber:
            assert payloads(subscriber, 1) == [b"while it was away"]
        assert told(east, "leave").startswith("leaving")
        assert east.process is not None
        assert east.process.wait(60) == 0
        until(lambda: north.states() == {"north": "live"}, "north knows")
