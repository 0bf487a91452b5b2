from braidmq.broker.hub cimport Hub
from braidmq.messages.message cimport Message
from braidmq.wire.buffer cimport ByteBuffer

cdef enum Forwarded:
    TAKEN         # in the output
    TAKEN_FULL    # in the output, which is over its limit: whoever feeds it should pause
    DROPPED       # not taken, and counted


cdef class DirectWriter:
    # A transport that can write at once: how many of the bytes it took, 0 if it can't just now.
    cdef Py_ssize_t write_now(self, const unsigned char* data, Py_ssize_t size) except -1


cdef class Outlet:
    cdef readonly Hub hub
    cdef ByteBuffer leaving              # bytes that may leave: what the shell writes
    cdef ByteBuffer out                  # where bytes go that promise nothing: `leaving`, or while the CONNACK is
                                         # held, behind it
    cdef ByteBuffer held                 # bytes that leave when the store has kept what is noted now
    cdef ByteBuffer promised             # bytes that leave when the store has kept what it was given
    cdef readonly int version            # MQTT level: 3, 4 or 5
    cdef bint is_v5
    cdef Py_ssize_t client_packet_bytes_max    # the largest packet the client accepts
    cdef public Py_ssize_t backlog_bytes       # given to the transport, not yet accepted by the kernel
    cdef bint is_dirty                   # stands in hub.dirty
    cdef bint is_holding                 # stands in hub.promises.held_outlets
    cdef int held_answers                # answers to publishes that are held back (MQTT 5: to those of QoS 1),
    cdef int promised_answers            # of them in `promised`
    cdef int noted_answers               # of them in `held`
    cdef readonly bint congested         # over output_bytes_max, and not yet drained
    cdef readonly double congested_at_s  # since when
    cdef double calm_since_s             # when it was last no longer congested
    cdef double patience_spent_s         # for how long its feeders have been held back, less what was regained since
    cdef public object shell             # the transport, as the connection knows it
    cdef public DirectWriter direct      # the same, if it can write at once; else None
    cdef public bint impatient           # congested for too long: QoS 0 is dropped rather than its publishers paused
    cdef list waiting_feeders            # connections that pause their reading until this output drains
    cdef int alias_max                   # topic aliases that the client lets us use
    cdef dict aliases                    # topic -> alias, as told to the client
    cdef public bint numbers_deliveries  # the client wants to be told the number of each QoS 1 and 2 delivery
    cdef public str client_id            # whose connection it is; None before CONNECT

    cdef inline Py_ssize_t pending_bytes(self) noexcept:
        return self.out.size() + self.backlog_bytes

    cdef inline Py_ssize_t waiting_bytes(self) noexcept:
        return self.out.size() + self.held.size() + self.promised.size() + self.backlog_bytes

    cdef inline bint has_room(self) noexcept:
        return self.waiting_bytes() < self.hub.output_limit()

    cdef inline int mark(self) except -1:
        if not self.is_dirty:
            self.is_dirty = True
            self.hub.dirty.append(self)
        return 0

    cdef ByteBuffer promises(self)
    cdef Forwarded forward(self, const unsigned char* frames, Py_ssize_t size, long long messages) except *
    cdef Forwarded send_qos0(self, Message message, bint retain, bytes identifiers) except *
    cdef Forwarded overfull(self) noexcept
    cdef bint publish(self, ByteBuffer out, Message message, int qos, bint retain, bint dup, int packet_id,
                      bytes identifiers) except -1
    cdef int acknowledge(self, unsigned char first, unsigned int packet_id, unsigned int reason) except -1
    cdef int alias_for(self, bytes topic, bint* known) except -1
