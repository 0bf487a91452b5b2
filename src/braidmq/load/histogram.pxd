"""Buckets are numbered so that each power of two holds SUB_BUCKETS of equal width."""
cimport cython
from libc.stdint cimport uint64_t

cdef extern from *:
    """
    #define BRAID_SUB_BUCKET_BITS 7
    #define BRAID_SUB_BUCKETS (1 << BRAID_SUB_BUCKET_BITS)
    #define BRAID_BUCKETS ((65 - BRAID_SUB_BUCKET_BITS) * BRAID_SUB_BUCKETS)

    static inline unsigned braid_bucket_of(unsigned long long value) {
        unsigned shift;
        if (value < 2 * BRAID_SUB_BUCKETS) return (unsigned)value;
        shift = 63 - BRAID_SUB_BUCKET_BITS - (unsigned)__builtin_clzll(value);
        return shift * BRAID_SUB_BUCKETS + (unsigned)(value >> shift);
    }
    """
    enum:
        SUB_BUCKETS "BRAID_SUB_BUCKETS"
        BUCKETS "BRAID_BUCKETS"
    unsigned bucket_of "braid_bucket_of"(uint64_t value) noexcept nogil


@cython.final
cdef class Histogram:
    cdef uint64_t counts[BUCKETS]
    cdef readonly uint64_t count      # values recorded
    cdef readonly uint64_t minimum    # exact; all ones while empty
    cdef readonly uint64_t maximum    # exact
    cdef double total                 # for the mean

    cdef inline void add(self, uint64_t value) noexcept nogil:
        self.counts[bucket_of(value)] += 1
        self.count += 1
        self.total += <double>value
        if value > self.maximum:
            self.maximum = value
        if value < self.minimum:
            self.minimum = value
