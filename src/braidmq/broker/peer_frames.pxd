# The bytes between nodes: first bytes, flags and bounds, for the one who writes them and the one who reads them.

cdef enum:
    PLAIN = 0x30
    RUN = 0xF1
    ENTRY = 0xF2
    ACK = 0xF3

    # Of a route and of a RUN.
    ROUTE_PLAIN = 1
    ROUTE_GROUPS = 2
    ROUTE_HEAD_BYTES = 2

    # Of the message in an entry.
    QOS = 3
    RETAIN = 4
    HAS_EXPIRY = 8
    HAS_PUBLISHER = 16
    HAS_STAMP = 32

    # Kinds of entries.
    PUBLISHED = 0
    KINDS = 5
