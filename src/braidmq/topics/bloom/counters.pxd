from libc.stdint cimport uint64_t, uint8_t

cdef class BitCounters:
    cdef uint8_t* nibbles       # two 4-bit counters a byte
    cdef readonly uint64_t size  # number of counters

    cdef bint increase(self, uint64_t position) noexcept nogil
    cdef bint decrease(self, uint64_t position) noexcept nogil
    cdef int value(self, uint64_t position) noexcept nogil
