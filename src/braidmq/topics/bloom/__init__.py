"""Interest filters: what a whole broker wants, in some ten bytes a subscription.

    LocalInterest    the owner: counts its subscriptions, speaks in snapshots and deltas
    RemoteInterest   the receiver of one peer's messages
    InterestIndex    the receiver of many peers' messages; one search names those that may want a topic
    PrefixFilter     the fast filter itself

Nothing here ever says "no" wrongly: a wrong "maybe" costs a useless forward, a wrong "no" would lose a
message.
"""

from braidmq.topics.bloom.index import InterestIndex
from braidmq.topics.bloom.local import LocalInterest
from braidmq.topics.bloom.messages import InterestError
from braidmq.topics.bloom.methods import (
    ExactTrie,
    InterestMethod,
    NaiveBloom,
    PatternBloom,
    PrefixBloom,
    QueryCounter,
)
from braidmq.topics.bloom.prefix import PrefixFilter
from braidmq.topics.bloom.remote import RemoteInterest
from braidmq.topics.bloom.stream import Outcome

__all__ = [
    "ExactTrie",
    "InterestError",
    "InterestIndex",
    "InterestMethod",
    "LocalInterest",
    "NaiveBloom",
    "Outcome",
    "PatternBloom",
    "PrefixBloom",
    "PrefixFilter",
    "QueryCounter",
    "RemoteInterest",
]
