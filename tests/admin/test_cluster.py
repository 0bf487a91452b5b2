"""The admin API of a node of a cluster: what it shows, what it does, and what it refuses."""

from typing import Any

import httpx
import msgspec

from braidmq.admin.app import make_app
from braidmq.admin.cluster_metrics import cluster_metrics
from braidmq.admin.desk import Desk
from braidmq.admin.metrics import Metrics
from braidmq.clustered.status import ClusterStatus, NodeStatus, RouteStatus, TopicRoutes
from braidmq.config import AdminConfig, Config
from braidmq.errors import ConfigError
from tests.admin.operator import ADDRESS, operator
from tests.admin.test_openapi import check
from tests.broker.world import World


def node(name: str, state: str, **more: Any) -> NodeStatus:
    known = {"boot": 1, "version": "1", "addresses": (f"{name}:7883",), "client_address": "", "keeps": True}
    return NodeStatus(
        node=name[0] * 16, name=name, state=state, connections=3, **({"is_this_node": False} | known | more)
    )


class FakeCluster:
    """Two nodes, one of them dead; notes what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.why_not_ready: str | None = None

    def status(self) -> ClusterStatus:
        east = node(
            "east", "dead", queued_messages=7, queued_bytes=700, oldest_s=2.0, rtt_ms=1.5, forwarded_qos0=5
        )
        nodes = [node("north", "live", is_this_node=True), east]
        return ClusterStatus(
            name="plant",
            routing="bloom",
            size=1,
            nodes=nodes,
            warnings=["look at east"],
            counters={"suback_late": 3},
        )

    def routes(self, topic: bytes) -> TopicRoutes:
        east = RouteStatus(
            node="e" * 16, name="east", state="dead", is_for_subscribers=True, is_for_groups=False
        )
        return TopicRoutes(topic=topic.decode(), sessions_here=2, nodes=[east])

    def drain(self) -> str:
        return self._ask("drain")

    def undrain(self) -> str:
        return self._ask("undrain")

    def rebalance(self) -> str:
        raise ConfigError("there is no other node that could take clients")

    def leave(self) -> str:
        return self._ask("leave")

    def forget(self, name_or_id: str) -> NodeStatus:
        self._ask(f"forget {name_or_id}")
        return self.status().nodes[1]

    def _ask(self, what: str) -> str:
        self.asked.append(what)
        return f"state after {what}"


def operator_of(cluster: FakeCluster) -> httpx.AsyncClient:
    world = World()
    config = Config(admin=AdminConfig(port=8080))
    finish = world.broker.hub.end_turn
    desk = Desk(world.broker, lambda: config, lambda: world.now, finish, None, cluster)
    return httpx.AsyncClient(transport=httpx.ASGITransport(make_app(desk, Metrics(desk))), base_url=ADDRESS)


async def test_a_broker_that_is_alone_has_no_cluster() -> None:
    assert (await operator(World()).get("/cluster")).status_code == 404
    assert "braidmq_cluster" not in (await operator(World()).get("/metrics")).text


async def test_the_cluster_and_its_routes_are_shown_as_described() -> None:
    api = operator_of(FakeCluster())
    found = (await api.get("/openapi.json")).json()
    for path in ("/cluster", "/cluster/routes"):
        answer = (await api.get(path, params={"topic": "a/b"} if "routes" in path else None)).json()
        schema = found["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        check(answer, schema, found["components"]["schemas"])
    status = (await api.get("/cluster")).json()
    assert [(node["name"], node["state"]) for node in status["nodes"]] == [
        ("north", "live"),
        ("east", "dead"),
    ]
    routes = (await api.get("/cluster/routes?topic=a/b")).json()
    assert (routes["topic"], routes["sessions_here"], routes["nodes"][0]["name"]) == ("a/b", 2, "east")


async def test_routes_are_of_a_topic_not_of_a_filter() -> None:
    for wrong in ("", "a/#"):
        answer = await operator_of(FakeCluster()).get("/cluster/routes", params={"topic": wrong})
        assert answer.status_code == 400
        assert answer.json()["detail"].startswith("topic: ")


async def test_the_operator_is_obeyed() -> None:
    cluster = FakeCluster()
    api = operator_of(cluster)
    for what in ("drain", "undrain", "leave"):
        assert (await api.post(f"/cluster/{what}")).json() == {"state": f"state after {what}"}
    assert (await api.post("/cluster/forget/east")).json()["name"] == "east"
    assert cluster.asked == ["drain", "undrain", "leave", "forget east"]


async def test_what_cant_be_done_is_refused_with_its_reason() -> None:
    answer = await operator_of(FakeCluster()).post("/cluster/rebalance")
    assert answer.status_code == 409
    assert answer.json()["detail"] == "there is no other node that could take clients"


async def test_a_node_that_joins_or_drains_isnt_ready() -> None:
    cluster = FakeCluster()
    api = operator_of(cluster)
    assert (await api.get("/ready")).status_code == 200
    cluster.why_not_ready = "the node is draining"
    answer = await api.get("/ready")
    assert answer.status_code == 503
    assert answer.json() == {"ready": False, "reasons": ["the node is draining"]}


async def test_metrics_tell_of_each_node() -> None:
    text = (await operator_of(FakeCluster()).get("/metrics")).text
    for line in (
        'braidmq_cluster_nodes{state="dead"} 1.0',
        'braidmq_cluster_nodes{state="live"} 0.0',
        "braidmq_cluster_size 1.0",
        "braidmq_cluster_warnings 1.0",
        "braidmq_cluster_suback_late_total 3.0",
        'braidmq_cluster_link_up{node="east"} 0.0',
        'braidmq_cluster_link_rtt_seconds{node="east"} 0.0015',
        'braidmq_cluster_peer_queue_messages{node="east"} 7.0',
        'braidmq_cluster_peer_queue_bytes{node="east"} 700.0',
        'braidmq_cluster_peer_queue_oldest_seconds{node="east"} 2.0',
        'braidmq_cluster_forwarded_total{node="east",qos="0"} 5.0',
        'braidmq_cluster_received_total{node="east",qos="kept"} 0.0',
    ):
        assert line in text


def test_nodes_of_one_name_have_series_of_their_own() -> None:
    twins = [node("east", "live", rtt_ms=1.0), msgspec.structs.replace(node("east", "live"), node="f" * 16)]
    status = ClusterStatus(name="plant", routing="bloom", size=3, nodes=twins, warnings=[])
    for family in cluster_metrics(status):
        series = [tuple(sample.labels.items()) for sample in family.samples]
        assert len(set(series)) == len(series)
