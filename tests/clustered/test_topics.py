"""$SYS/cluster: what a node sees of the others, published when it changes."""

from braidmq.clustered.status import ClusterStatus, NodeStatus
from braidmq.clustered.topics import PERIOD_S, ClusterTopics
from braidmq.wire import Publish, Subscribe, Subscription
from tests.broker.world import Client, World


def status(size: int, **states: str) -> ClusterStatus:
    nodes = [
        NodeStatus(
            node=name, name=name, state=state, is_this_node=False, version="1", boot=1, addresses=(),
            client_address="", keeps=True, connections=4,
        )
        for name, state in states.items()
    ]  # fmt: skip
    return ClusterStatus(name="plant", routing="bloom", size=size, nodes=nodes, warnings=[])


def published_to(client: Client) -> dict[str, bytes]:
    return {packet.topic: packet.payload for packet in client.read() if isinstance(packet, Publish)}


def test_what_changes_is_published_and_what_has_gone_is_cleared() -> None:
    world = World()
    seen = [status(2, north="live", east="live")]
    ClusterTopics(world.broker, lambda: seen[-1])
    watcher = world.connect("watcher")
    watcher.send(Subscribe(1, (Subscription("$SYS/cluster/#"),)))
    retained = published_to(watcher)
    assert retained["$SYS/cluster/size"] == b"2"
    assert retained["$SYS/cluster/nodes/east/state"] == b"live"
    assert retained["$SYS/cluster/nodes/east/version"] == b"1"
    assert retained["$SYS/cluster/nodes/north/connections"] == b"4"
    seen.append(status(1, north="live", east="dead"))
    world.pass_time(PERIOD_S)
    changed = published_to(watcher)
    assert changed == {"$SYS/cluster/size": b"1", "$SYS/cluster/nodes/east/state": b"dead"}
    seen.append(status(1, north="live"))
    world.pass_time(PERIOD_S)
    cleared = published_to(watcher)
    assert set(cleared) == {f"$SYS/cluster/nodes/east/{what}" for what in ("state", "version", "connections")}
    assert set(cleared.values()) == {b""}
