"""The cluster as retained messages under $SYS/cluster, as this node sees it.

`size` is how many nodes work together; `nodes/NAME/state`, `version` and `connections` are of each node. What
has changed is published again, looked at every second; topics of nodes that are forgotten are cleared.
"""

from collections.abc import Callable
from typing import Final

from braidmq.broker.broker import Broker
from braidmq.clustered.status import ClusterStatus
from braidmq.messages.message import Message

PERIOD_S: Final = 1.0
ROOT: Final = "$SYS/cluster"


class ClusterTopics:
    """Publishes until the broker's timers are no longer run."""

    def __init__(self, broker: Broker, status: Callable[[], ClusterStatus]) -> None:
        self._broker = broker
        self._status = status
        self._shown: dict[str, str] = {}
        self._show()

    def _show(self) -> None:
        values = self._values(self._status())
        for name in self._shown.keys() - values.keys():
            self._publish(name, "")
        for name, value in values.items():
            if self._shown.get(name) != value:
                self._publish(name, value)
        self._shown = values
        self._broker.timers.set(self._broker.hub.now + PERIOD_S, self._show)

    def _values(self, status: ClusterStatus) -> dict[str, str]:
        values = {"size": str(status.size)}
        for node in status.nodes:
            values[f"nodes/{node.name}/state"] = node.state
            values[f"nodes/{node.name}/version"] = node.version
            values[f"nodes/{node.name}/connections"] = str(node.connections)
        return values

    def _publish(self, name: str, value: str) -> None:
        self._broker.publishing.publish_anyway(Message(f"{ROOT}/{name}".encode(), value.encode(), 0, True))
