from typing import Any

from braidmq.topics.pathmap import PathMap

class FilterTrie(PathMap):
    def match(self, topic: bytes) -> list[Any]: ...
