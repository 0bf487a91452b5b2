"""What the broker asks a store to remember: small tuples, the first element says which.

The core appends them to its journal in the order in which things happened; applying them in that order to
the last state gives the present one (`braidmq.store.state` does). A delivery is named by its session's client
id and a sequence number that only grows, so that a record never has to carry a message twice. Times are on
the broker's monotonic clock; a store on disk converts them.
"""

from typing import Any, Final, NamedTuple

Record = tuple[Any, ...]

SESSION: Final = 0  # client_id, owner, expiry_s: made, or its expiry changed
SESSION_ENDED: Final = 1  # client_id: and all that belongs to it, but for its will
AWAY: Final = 2  # client_id, since_s: the connection is gone; 0 = the client is back
SUBSCRIBED: Final = 3  # client_id, filter, options byte, identifier
UNSUBSCRIBED: Final = 4  # client_id, filter
QUEUED: Final = 5  # client_id, sequence, message, qos, retain, identifiers, group (name, filter) or None
SENT: Final = 6  # client_id, sequence, packet_id: given to the client, not yet acknowledged
RECEIVED: Final = 7  # client_id, sequence: QoS 2, the client has it; only the packet id is still needed
SETTLED: Final = 8  # client_id, sequence: acknowledged, or dropped
INBOUND: Final = 9  # client_id, packet_id: a QoS 2 publish of the client's was taken
INBOUND_RELEASED: Final = 10  # client_id, packet_id
RETAINED: Final = 11  # topic, message or None
WILL: Final = 12  # client_id, will or None, due_s (0: client is connected), owner; of any session
PAGED: Final = 24  # client_id, first and last sequence, cost, file, offset, size, count: are on disk now
UNPAGED: Final = 25  # client_id: its first page is no longer needed
NUMBERED: Final = 17  # client_id, identity, last sequence, last packet id: used so far, and never again
GROUP_QUEUED: Final = 14  # name, filter, sequence, message: it waits in a shared group
GROUP_TAKEN: Final = 15  # name, filter, sequence: it does no longer
GROUP_ENDED: Final = 16  # name, filter: nothing waits there that has to be kept
GROUP_PAGED: Final = 26  # name, filter, first and last sequence, cost, file, offset, size, count: on disk now
GROUP_UNPAGED: Final = 27  # name, filter: its first page is no longer needed
PEER_POSITION: Final = 28  # node, sequence: what it sent was taken up to there; 0 = the node is forgotten
LEAVING: Final = 29  # client_id, node (0: it stays), stamp of the claim: time, node: it moves to another node
MOVED: Final = 30  # client_id, node (0: no longer of interest), stamp of the claim: time, node; is settled
STAMPED: Final = 31  # client_id, time, node: of its last CONNECT anywhere in the cluster
CHECKPOINTED: Final = 13  # number: the store's own; files before this one are no longer needed


class GroupName(NamedTuple):
    """Which shared group a delivery belongs to."""

    name: str
    filter: bytes


def options_byte(qos: int, no_local: bool, retain_as_published: bool, retain_handling: int) -> int:
    """Subscription options in one number, laid out as SUBSCRIBE does."""
    return qos | no_local << 2 | retain_as_published << 3 | retain_handling << 4
