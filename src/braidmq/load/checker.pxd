"""Field comments of the checker; the rules are in checker.pyx."""
cimport cython
from libc.stdint cimport uint32_t, uint64_t

cdef enum:
    RECENT_BITS = 32768   # how far back a late message is told from a duplicate
    RECENT_WORDS = RECENT_BITS // 64

cdef struct Track:
    uint64_t expected                  # one above the highest sequence number seen
    uint64_t recent[RECENT_WORDS]      # ring: whether each of the last RECENT_BITS numbers came


@cython.final
cdef class Checker:
    cdef uint32_t publishers
    cdef Track *tracks                 # [stream][publisher]; zeroed pages, so unused pairs cost nothing
    cdef uint64_t *followed            # [subscriber][publisher]: one above the highest number it got
    cdef readonly uint64_t duplicates
    cdef readonly uint64_t order_faults
    cdef readonly uint64_t missing     # numbers jumped over and not seen since

    cdef bint first_time(self, Track *track, uint64_t sequence) noexcept nogil
    cdef void see(self, uint32_t subscriber, uint32_t stream, uint32_t publisher, uint64_t sequence) noexcept nogil
    cdef void sample(self, uint32_t subscriber, uint32_t publisher, uint64_t sequence) noexcept nogil
