"""The endpoints that only a node of a cluster has."""

from collections.abc import Callable
from typing import Final, TypeVar

from braidmq.admin.cluster import ClusterDesk, OwnState
from braidmq.admin.desk import RefusedError
from braidmq.admin.endpoints import Call, Endpoint, Parameter
from braidmq.clustered.status import ClusterStatus, NodeStatus, TopicRoutes
from braidmq.errors import ConfigError, ProtocolError
from braidmq.topics import validate_topic

T = TypeVar("T")

TOPIC: Final = Parameter("topic", str, "", "The topic of a message.")


def _asked(call: Call, do: Callable[[ClusterDesk], T]) -> T:
    assert call.desk.cluster is not None
    with call.desk.turn():
        try:
            return do(call.desk.cluster)
        except ConfigError as error:
            raise RefusedError(409, str(error)) from error


async def cluster(call: Call) -> ClusterStatus:
    return _asked(call, lambda desk: desk.status())


async def cluster_routes(call: Call) -> TopicRoutes:
    topic, limits = call.query["topic"], call.desk.broker.limits
    try:
        validate_topic(topic, bytes_max=limits.topic_bytes_max, levels_max=limits.topic_levels_max)
    except ProtocolError as error:
        raise RefusedError(400, f"topic: {error.detail}") from error
    return _asked(call, lambda desk: desk.routes(topic.encode()))


async def cluster_drain(call: Call) -> OwnState:
    return OwnState(_asked(call, lambda desk: desk.drain()))


async def cluster_undrain(call: Call) -> OwnState:
    return OwnState(_asked(call, lambda desk: desk.undrain()))


async def cluster_rebalance(call: Call) -> OwnState:
    return OwnState(_asked(call, lambda desk: desk.rebalance()))


async def cluster_leave(call: Call) -> OwnState:
    return OwnState(_asked(call, lambda desk: desk.leave()))


async def cluster_forget(call: Call) -> NodeStatus:
    return _asked(call, lambda desk: desk.forget(call.path["node"]))


CLUSTER_ENDPOINTS: Final = (
    Endpoint("GET", "/cluster", "The nodes of the cluster, as this one sees them", ClusterStatus, cluster),
    Endpoint("GET", "/cluster/routes", "Where a message of a topic would go from here", TopicRoutes,
             cluster_routes, (TOPIC,), problems=(400,)),
    Endpoint("POST", "/cluster/drain", "Send this node's clients to the others, and take no new ones",
             OwnState, cluster_drain, problems=(409,)),
    Endpoint("POST", "/cluster/undrain", "Take clients again", OwnState, cluster_undrain, problems=(409,)),
    Endpoint("POST", "/cluster/rebalance", "Let nodes with more clients than the mean send some to others",
             OwnState, cluster_rebalance, problems=(409,)),
    Endpoint("POST", "/cluster/leave", "Drain this node, leave the cluster for good, and stop", OwnState,
             cluster_leave, problems=(409,)),
    Endpoint("POST", "/cluster/forget/{node}", "Wait no longer for a node that is gone, by name or id",
             NodeStatus, cluster_forget, problems=(409,)),
)  # fmt: skip
