cimport cython

from braidmq.messages.message cimport Message
from braidmq.wire.buffer cimport ByteBuffer


cdef struct Named:
    # The number of a client id in the segment that is being written, if `epoch` is that segment's.
    unsigned long long epoch
    unsigned long long number


cdef struct Stretch:
    # Deliveries of one session that follow each other and of which the same is to be told.
    unsigned long long name
    unsigned long long sequence        # of the first
    unsigned long long packet_id       # of the first
    unsigned long long count


@cython.final
cdef class Encoder:
    cdef public bint is_failing          # set by the store: nothing can be kept at present
    cdef ByteBuffer out
    cdef double wall_offset_s            # wall clock minus the broker's monotonic clock
    cdef unsigned long long epoch        # of the segment that is being written; no two have the same
    cdef dict names                      # client id -> its number in this segment
    cdef str last_name
    cdef unsigned long long last_number
    cdef unsigned long long bodies       # in this segment
    cdef bint begins_segment             # the next turn does
    cdef dict places                     # epoch -> where that page is; None in a log
    cdef Stretch sent_stretch            # noted, and not yet written
    cdef Stretch settled_stretch

    # The records of which every message makes some, without a tuple in between.
    cdef int queued(self, str client_id, Named* named, unsigned long long sequence, Message body, int qos, bint retain,
                    bytes identifiers, object group) except -1
    cdef int sent(self, str client_id, Named* named, unsigned long long sequence, unsigned int packet_id) except -1
    cdef int received(self, str client_id, Named* named, unsigned long long sequence) except -1
    cdef int settled(self, str client_id, Named* named, unsigned long long sequence) except -1

    cdef int inbound(self, str client_id, Named* named, unsigned int packet_id, bint is_released) except -1

    cdef int end_stretches(self) except -1
    cdef int end_sent(self) except -1
    cdef int end_settled(self) except -1
    cdef int put_record(self, tuple record) except -1
    cdef int put_of_group(self, int kind, tuple record) except -1
    cdef int put_retained(self, tuple record) except -1
    cdef unsigned long long body_number(self, Message body) except? 0
    cdef unsigned long long put_elsewhere(self, Message body) except? 0
    cdef int put_body(self, Message body) except -1
    cdef int put_will(self, object will) except -1
    cdef int put_head(self, int kind, str client_id) except -1
    cdef unsigned long long number_of(self, str client_id, Named* named) except? 0xFFFFFFFFFFFFFFFF
    cdef unsigned long long name_number(self, str client_id) except? 0xFFFFFFFFFFFFFFFF
    cdef int put_byte(self, int value) except -1
    cdef int put_varint(self, unsigned long long value) except -1
    cdef int put_signed(self, long long value) except -1
    cdef int put_bytes(self, bytes data) except -1
    cdef int put_text(self, str text) except -1
    cdef int put_optional_text(self, str text) except -1
    cdef int put_double(self, double value) except -1
    cdef int put_time(self, double at_s) except -1
