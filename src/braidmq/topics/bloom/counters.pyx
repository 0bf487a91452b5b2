"""How many keys set each bit: what an owner needs to clear bits again. Receivers never see the counters.

Four bits a counter. One that reaches 15 stays there: its bit can't be cleared before the next rebuild, which
costs a little of the false-positive rate and never a match. Since a key counts once however many filters
share it, counters stay small: at 22 bits and 10 hashes a key about one in 10^15 gets there.
"""

from libc.stdlib cimport calloc, free

cdef enum:
    STICKY = 15


cdef class BitCounters:
    """4-bit counters for the bits of a filter."""

    def __cinit__(self, uint64_t size):
        self.nibbles = <uint8_t*>calloc(size // 2 + 1, 1)
        if self.nibbles == NULL:
            raise MemoryError(f"no room for {size} counters")
        self.size = size

    def __dealloc__(self):
        free(self.nibbles)

    cdef int value(self, uint64_t position) noexcept nogil:
        return (self.nibbles[position >> 1] >> ((position & 1) << 2)) & 15

    cdef bint increase(self, uint64_t position) noexcept nogil:
        """True if the bit becomes set."""
        cdef int before = self.value(position)
        if before < STICKY:
            self.nibbles[position >> 1] += <uint8_t>(1 << ((position & 1) << 2))
        return before == 0

    cdef bint decrease(self, uint64_t position) noexcept nogil:
        """True if the bit becomes clear."""
        cdef int before = self.value(position)
        if 0 < before < STICKY:
            self.nibbles[position >> 1] -= <uint8_t>(1 << ((position & 1) << 2))
        return before == 1

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, uint64_t position) -> int:
        if position >= self.size:
            raise IndexError(f"counter {position} of {self.size}")
        return self.value(position)

    @property
    def largest(self) -> int:
        cdef uint64_t position
        cdef int largest = 0
        for position in range(self.size):
            largest = max(largest, self.value(position))
        return largest
