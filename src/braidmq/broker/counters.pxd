cdef enum Drop:
    # Why a message did not reach somebody who wanted it. `DROP_NAMES` in counters.pyx has the same order.
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
    DROP_PEER_AWAY           # QoS 0, and there is no link to the node that wants it
    DROP_PEER_GONE           # it waited for a node that is dead, and won't take it any more
    DROP_KINDS


cdef class Counters:
    cdef long long publishes_received
    cdef long long publishes_sent
    cdef long long others_received          # packets that are no PUBLISH
    cdef long long others_sent
    cdef long long publish_bytes_received   # whole PUBLISH packets, header and topic included
    cdef long long publish_bytes_sent
    cdef long long bytes_received
    cdef long long bytes_sent
    cdef long long dropped[DROP_KINDS]

    cdef inline long long packets_received(self) noexcept:
        return self.publishes_received + self.others_received

    cdef inline void drop(self, Drop reason, long long count) noexcept:
        self.dropped[<int>reason] += count
