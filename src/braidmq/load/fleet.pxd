"""What a run keeps in C about its connections; see fleet.pyx and generator.pyx."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from braidmq.load.checker cimport Checker
from braidmq.load.histogram cimport Histogram
from braidmq.load.link cimport Link

cdef struct Template:          # a PUBLISH as it goes out, but for packet id and stamp
    uint8_t *frame
    size_t frame_bytes
    size_t id_at
    size_t payload_at
    uint32_t fan_out           # deliveries that it asks for

cdef struct Publisher:
    bint ready                 # is in the ready ring
    uint64_t next_sequence
    uint64_t random_state
    uint32_t window            # 0: no limit
    uint64_t in_flight         # QoS 1/2: unacknowledged messages; QoS 0 with a window: undelivered copies
    size_t primed_bytes        # of the out buffer, which hold the right template already
    uint16_t *free_ids         # stack of the packet ids not in use
    uint32_t *fan_outs         # by packet id: what its message asks for

cdef struct Subscriber:
    uint32_t stream
    uint32_t until_check       # messages to be passed over before one is looked into


cdef class Fleet:
    cdef object case
    cdef int poller
    cdef uint32_t publisher_count, subscriber_count, link_count, topic_count
    cdef Link *links           # publishers, then subscribers, then idle ones
    cdef Publisher *publishers
    cdef Subscriber *subscribers
    cdef Template *templates
    cdef uint32_t *ring        # numbers of the ready publishers; room for all
    cdef uint32_t ring_head, ring_size
    cdef uint8_t *scratch
    cdef size_t tail_room      # the largest frame, in front of the scratch buffer
    cdef Checker checker
    cdef Histogram latencies
    # the case, in C
    cdef uint32_t qos, batch, check_every, widest_fan_out
    cdef uint64_t messages     # of each publisher; 0 is no limit
    cdef bint has_properties, random_topics, spin
    cdef double interval_ns    # between two messages of the whole fleet; 0 is flat out
    # the state of the run
    cdef bint sending
    cdef uint64_t steady_from_ns, steady_to_ns
    cdef uint64_t first_ns, slots_passed, last_progress_ns, idle_ns, unsent
    cdef uint64_t sent, unacknowledged, acknowledged, refused, delivered, expected, foreign, stalls

    cdef int equip(self, uint32_t number, uint32_t window) except -1
