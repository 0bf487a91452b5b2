"""What the admin API needs of a cluster, and says of it; a broker that is in none has no part of this."""

from typing import Protocol

import msgspec

from braidmq.clustered.status import ClusterStatus, NodeStatus, TopicRoutes


class OwnState(msgspec.Struct, frozen=True):
    """What the node that was asked is about: joining, live, draining, leaving or left."""

    state: str


class ClusterDesk(Protocol):
    """A cluster as the operator of one node sees it. ConfigError says why something can't be done.

    What changes this node answers with its state.
    """

    def status(self) -> ClusterStatus: ...

    def routes(self, topic: bytes) -> TopicRoutes: ...

    def drain(self) -> str: ...

    def undrain(self) -> str: ...

    def rebalance(self) -> str: ...

    def leave(self) -> str: ...

    def forget(self, name_or_id: str) -> NodeStatus: ...

    @property
    def why_not_ready(self) -> str | None: ...
