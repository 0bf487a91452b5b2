"""Topics: names, filters, the maps from filters and topics to values. Knows no broker."""

from braidmq.topics.cursor import TopicCursor
from braidmq.topics.filters import matches, split_shared, validate_filter
from braidmq.topics.names import validate_topic
from braidmq.topics.tree import TopicTree
from braidmq.topics.trie import FilterTrie

__all__ = [
    "FilterTrie",
    "TopicCursor",
    "TopicTree",
    "matches",
    "split_shared",
    "validate_filter",
    "validate_topic",
]
