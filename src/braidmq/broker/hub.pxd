from braidmq.store.encoding cimport Encoder
from braidmq.wire.buffer cimport blocks_bytes
from braidmq.timing.stopwatch cimport Stopwatch


cdef enum Drop:
    # Why a message did not reach somebody who wanted it. `DROP_NAMES` in hub.pyx has the same order.
    DROP_SLOW_SUBSCRIBER     # QoS 0, and the connection's output is full
    DROP_QUEUE_FULL          # QoS 1/2, and the queue of the session or the shared group is full
    DROP_EXPIRED             # its message expiry ran out while it waited
    DROP_PACKET_TOO_LARGE    # larger than the client's Maximum Packet Size
    DROP_NOT_AUTHORIZED      # the publisher may not publish there
    DROP_SESSION_ENDED       # still queued when the session ended
    DROP_REJECTED            # the receiver answered with a reason of 0x80 or more
    DROP_AWAY                # QoS 0, and the client (of a shared group: everybody) is not connected
    DROP_DAMAGED             # what the disk had of it can't be read
    DROP_STORE_FAILING       # QoS 1/2 or retained, and the store can't be written (the publisher is told 0x97)
    DROP_GROUP_GONE          # it waited in a shared group whose last member has left
    DROP_TOPIC_TOO_LONG      # its topic is longer or deeper than the limits allow (the publisher is told 0x90)
    DROP_RETAINED_FULL       # to be retained, and there is no room for it (the publisher is told 0x97)
    DROP_KINDS


cdef enum:
    TIGHT_BYTES = 64 * 1024    # what waits for a client in a full node: enough to keep its socket busy


cdef enum Watched:
    # What of each message somebody wants to know: bits of Hub.watched. `Audience` sets them.
    WATCH_PACKETS = 1
    WATCH_PUBLISHED = 2
    WATCH_DELIVERED = 4
    WATCH_ANSWERED = 8      # the ends of a client's own QoS 1 and 2 publishes


cdef class Hub:
    cdef public double now                  # seconds on the shell's monotonic clock; set before every input
    cdef readonly object limits             # braidmq.limits.Limits
    cdef readonly list dirty                # outlets with bytes that the shell has yet to write
    cdef readonly Encoder journal           # "remember this" records of the turn; None when nobody keeps them
    cdef readonly list held_outlets         # outlets that hold bytes back until what is noted is kept
    cdef list waiters                       # to be called when it is
    cdef bint is_committing                 # the store has yet to say that it has kept what it was given
    cdef readonly bint holding              # acks and QoS 1/2 deliveries wait for the store
    cdef readonly object store
    cdef public object pager                # sees to the bound of the next; None if nothing does
    cdef readonly Py_ssize_t queue_memory_bytes     # of deliveries that wait in memory
    cdef public Py_ssize_t queue_memory_bytes_max
    cdef dict pageable                      # sessions of which something may be paged out, in order of waiting
    cdef public object agenda               # what shared groups have yet to be told; an Agenda
    cdef public object audience             # the Audience, while somebody looks on; else None
    cdef public object message_audience     # the same, while somebody wants to know of single messages
    cdef public int watched                 # what they want to know of each; 0 while message_audience is None

    cdef readonly Stopwatch stopwatch       # how long work takes

    # Limits that the hot path reads, as C values.
    cdef double work_s_max
    cdef public int resting                 # connections that have more to do than they had time for
    cdef Py_ssize_t packet_bytes_max
    cdef Py_ssize_t topic_bytes_max
    cdef int topic_levels_max
    cdef int receive_maximum
    cdef Py_ssize_t output_bytes_max
    cdef Py_ssize_t waiting_bytes_max
    cdef double patience_s
    cdef Py_ssize_t queue_messages_max
    cdef Py_ssize_t queue_bytes_max

    cdef long long publishes_received
    cdef long long publishes_sent
    cdef long long others_received          # packets that are no PUBLISH
    cdef long long others_sent
    cdef long long publish_bytes_received   # whole PUBLISH packets, header and topic included
    cdef long long publish_bytes_sent
    cdef long long bytes_received
    cdef long long bytes_sent
    cdef long long dropped[DROP_KINDS]

    cdef inline bint is_failing(self) noexcept:
        # Nothing can be kept at present: whatever would have to be kept is to be refused.
        return self.journal is not None and self.journal.is_failing

    cdef inline long long packets_received(self) noexcept:
        return self.publishes_received + self.others_received

    cdef inline bint is_tight(self) noexcept:
        # All that waits for clients, in queues and buffers, is more than the node has room for.
        return self.queue_memory_bytes + blocks_bytes() > self.waiting_bytes_max

    cdef inline Py_ssize_t output_limit(self) noexcept:
        return min(self.output_bytes_max, TIGHT_BYTES) if self.is_tight() else self.output_bytes_max

    cdef inline Py_ssize_t queue_limit(self) noexcept:
        return min(self.queue_bytes_max, TIGHT_BYTES) if self.is_tight() else self.queue_bytes_max

    cdef inline void drop(self, Drop reason, long long count) noexcept:
        self.dropped[<int>reason] += count

    cdef int drop_message(self, Drop reason, object message, str client_id) except -1
