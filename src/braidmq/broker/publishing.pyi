from collections.abc import Iterable
from typing import Protocol

from braidmq.broker.hub import Hub
from braidmq.broker.receiver import Outcome, Target
from braidmq.broker.retained import RetainedMessages
from braidmq.broker.router import Router
from braidmq.messages.message import Message

def groups_of(route: bytes) -> list[int]: ...

class Remote(Protocol):
    """The other nodes, as far as retained messages concern them."""

    def stamp(self) -> tuple[int, int]:
        """Larger than all that this node has given or seen."""

    def everybody(self) -> Iterable[Target]:
        """Targets of all remembered peers, with a route that names nobody."""

class Publishing:
    remote: Remote | None
    def __init__(self, hub: Hub, router: Router, retained: RetainedMessages) -> None: ...
    @property
    def router(self) -> Router: ...
    def publish(self, message: Message) -> Outcome: ...
    def publish_anyway(self, message: Message) -> Outcome: ...
    def take_from_peer(
        self, message: Message, route: bytes, stamp: tuple[int, int] | None, origin: int
    ) -> Outcome: ...
