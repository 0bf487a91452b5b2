from braidmq.broker.counters cimport Counters, Drop
from braidmq.broker.promises cimport Promises
from braidmq.broker.watching cimport Watching
from braidmq.timing.stopwatch cimport Stopwatch
from braidmq.wire.buffer cimport blocks_bytes


cdef enum:
    TIGHT_BYTES = 64 * 1024    # what waits for a client in a full node: enough to keep its socket busy


cdef class Hub:
    cdef readonly double now                # seconds on the shell's monotonic clock, as of the present turn
    cdef readonly object limits             # braidmq.limits.Limits
    cdef readonly list dirty                # outlets with bytes that the shell has yet to write
    cdef readonly Counters counters
    cdef readonly Promises promises
    cdef readonly Watching watching
    cdef public object pager                # sees to the bound of the next; None if nothing does
    cdef readonly Py_ssize_t queue_memory_bytes     # of deliveries that wait in memory
    cdef public Py_ssize_t queue_memory_bytes_max
    cdef dict pageable                      # sessions and groups of which something may go to disk, in order of waiting
    cdef public object agenda               # what shared groups have yet to be told; an Agenda
    cdef public bint awaits_peers           # publishers are answered when linked nodes have the message, too
    cdef public object at_turn_end          # called before a turn is kept; None: nobody is
    cdef readonly Stopwatch stopwatch       # how long work takes

    # Limits that the hot path reads, as C values.
    cdef double work_s_max
    cdef public int resting                 # connections that have more to do than they had time for
    cdef public int replaying               # connections that wait for their turn to send retained messages
    cdef Py_ssize_t packet_bytes_max
    cdef Py_ssize_t topic_bytes_max
    cdef int topic_levels_max
    cdef int receive_maximum
    cdef int topic_alias_max
    cdef Py_ssize_t output_bytes_max
    cdef Py_ssize_t waiting_bytes_max
    cdef double patience_s
    cdef Py_ssize_t queue_messages_max
    cdef Py_ssize_t queue_bytes_max
    cdef Py_ssize_t peer_queue_bytes_max

    cdef inline void begin_turn(self, double now) noexcept:
        self.now = now

    cdef inline bint is_tight(self) noexcept:
        # All that waits for clients, in queues and buffers, is more than the node has room for.
        return self.queue_memory_bytes + blocks_bytes() > self.waiting_bytes_max

    cdef inline Py_ssize_t output_limit(self) noexcept:
        return min(self.output_bytes_max, TIGHT_BYTES) if self.is_tight() else self.output_bytes_max

    cdef inline Py_ssize_t queue_limit(self) noexcept:
        return min(self.queue_bytes_max, TIGHT_BYTES) if self.is_tight() else self.queue_bytes_max

    cdef int drop_message(self, Drop reason, object message, str client_id, str group=*) except -1
