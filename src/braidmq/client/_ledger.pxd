from libc.stdint cimport uint8_t, uint16_t, uint64_t


cdef struct Entry:
    uint16_t packet_id
    uint8_t qos
    uint8_t acknowledged    # by the application
    uint8_t reason          # what our PUBACK or PUBREC will say


cdef class AckLedger:
    cdef Entry* ring                        # entries head..tail, at ordinal & mask
    cdef uint64_t mask                      # ring size - 1, a power of two
    cdef readonly uint64_t head             # ordinal of the oldest entry that is not answered yet
    cdef readonly uint64_t tail             # ordinal that the next message gets
    cdef readonly Py_ssize_t receive_maximum
    cdef Py_ssize_t limit                   # what is enforced on this connection
    cdef bint with_reasons                  # MQTT 5
    cdef readonly set unreleased            # QoS 2 identifiers after our PUBREC, before the server's PUBREL
    cdef readonly set unreleased_earlier    # the same from earlier connections: they use up no receive maximum

    cpdef uint64_t open(self, uint16_t packet_id, uint8_t qos) except 0
    cdef int grow(self) except -1
    cdef Py_ssize_t frame_bytes(self, const Entry* entry) noexcept
    cdef unsigned char* write(self, unsigned char* cursor, const Entry* entry) except NULL

    # False if the entry belongs to an earlier connection; acknowledging twice is once.
    cdef inline bint mark(self, uint64_t ordinal, uint8_t reason) noexcept:
        cdef Entry* entry
        if ordinal < self.head or ordinal >= self.tail:
            return False
        entry = &self.ring[ordinal & self.mask]
        if not entry.acknowledged:
            entry.acknowledged = True
            entry.reason = reason
        return True
