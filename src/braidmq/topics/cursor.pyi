from typing import Any

from braidmq.topics.tree import TopicTree

class TopicCursor:
    def __init__(self, tree: TopicTree, filter: bytes) -> None: ...
    def take(self, visits_max: int) -> list[Any] | None: ...
