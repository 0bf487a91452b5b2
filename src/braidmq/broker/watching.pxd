cdef enum Watched:
    # What of each message somebody wants to know: bits of Watching.wanted. `Audience` sets them.
    WATCH_PACKETS = 1
    WATCH_PUBLISHED = 2
    WATCH_DELIVERED = 4
    WATCH_ANSWERED = 8      # the ends of a client's own QoS 1 and 2 publishes


cdef class Watching:
    cdef public object audience             # the Audience, while somebody looks on; else None
    cdef public object message_audience     # the same, while somebody wants to know of single messages
    cdef public int wanted                  # what they want to know of each; 0 while message_audience is None
