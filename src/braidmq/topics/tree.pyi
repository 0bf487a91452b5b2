from typing import Any

from braidmq.topics.pathmap import PathMap

class TopicTree(PathMap):
    def find(self, filter: bytes) -> list[Any]: ...
