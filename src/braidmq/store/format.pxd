# The numbers in the store's bytes, for the one who writes them and the one who reads them.

cdef enum:
    # As in braidmq.store.records; a test compares them.
    SESSION = 0
    SESSION_ENDED = 1
    AWAY = 2
    SUBSCRIBED = 3
    UNSUBSCRIBED = 4
    QUEUED = 5
    SENT = 6
    RECEIVED = 7
    SETTLED = 8
    INBOUND = 9
    INBOUND_RELEASED = 10
    RETAINED = 11
    WILL = 12
    CHECKPOINTED = 13
    PAGED = 24
    UNPAGED = 25
    GROUP_QUEUED = 14
    GROUP_TAKEN = 15
    GROUP_ENDED = 16
    GROUP_PAGED = 26
    GROUP_UNPAGED = 27
    NUMBERED = 17
    PEER_POSITION = 28
    LEAVING = 29
    MOVED = 30
    STAMPED = 31
    # Of the file alone.
    NAME = 32
    BODY = 33
    SENT_STRETCH = 34      # client id, sequence, packet id, count: all three go up by one
    SETTLED_STRETCH = 35   # client id, sequence, count
    SEGMENT = 37           # what was numbered before is no longer referred to; first in a turn
    ELSEWHERE = 36         # number, and where the body is: offset and size of a page, number there

    # Bits of a BODY's flags, above its QoS, and of a QUEUED's.
    RETAIN = 4
    HAS_EXPIRY = 8
    HAS_PUBLISHER = 16
    HAS_PROPERTIES = 32
    HAS_STAMP = 64
    HAS_IDENTIFIERS = 8
    HAS_GROUP = 16
