from braidmq.broker.lane cimport Lane
from braidmq.broker.outlet cimport Forwarded
from braidmq.broker.receiver cimport Outcome
from braidmq.messages.message cimport Message
from braidmq.wire.buffer cimport ByteBuffer


cdef class PeerOutlet(Lane):
    cdef bint is_held                        # the peer has asked for a pause

    cdef Forwarded write_run(self, bytes head, const unsigned char* frames, Py_ssize_t size,
                             long long messages) except *
    cdef long long write_runs(self, bytes head, const unsigned char* frames, const unsigned char* end,
                              Outcome outcome) except -1
    cdef int write_entry(self, Message message, bytes head, unsigned long long sequence) except -1


cdef bytes run_head(bytes head, str publisher)
cdef int write_number(unsigned char* cursor, unsigned long long value) noexcept
cdef int append_number(ByteBuffer out, unsigned long long value) except -1
cdef int append_u64(ByteBuffer out, unsigned long long value) except -1
