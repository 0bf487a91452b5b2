"""The textbook Bloom filter: k bits anywhere in b, by double hashing. The paper's naive methods stand on it.

The positions are start + i * step for 64-bit start and step, scaled to the number of bits. With counters (the
owner's form) elements can be taken out again; without them only added and merged.
"""

from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free

from braidmq.topics.bloom.counters cimport BitCounters
from braidmq.topics.bloom.hashing cimport C1, C3, high64, hash_level, mum

from braidmq.topics.bloom.sizing import classic_bits, classic_hashes


cdef class ClassicBloom:
    """`bits` bits with `hashes` of them an element."""

    cdef uint64_t* words
    cdef readonly uint64_t bits
    cdef readonly int hashes
    cdef BitCounters counters       # None unless elements can be taken out

    def __cinit__(self, uint64_t bits, int hashes, *, bint counting=False):
        if bits < 1 or hashes < 1:
            raise ValueError(f"a filter needs bits and hashes, not {bits} and {hashes}")
        self.words = <uint64_t*>calloc(bits // 64 + 1, sizeof(uint64_t))
        if self.words == NULL:
            raise MemoryError(f"no room for a filter of {bits} bits")
        self.bits = bits
        self.hashes = hashes
        self.counters = BitCounters(bits) if counting else None

    def __dealloc__(self):
        free(self.words)

    @staticmethod
    def sized(elements: int, rate: float, *, counting: bool = False):
        """The smallest filter that holds `elements` at false-positive rate `rate`."""
        bits = classic_bits(elements, rate)
        return ClassicBloom(bits, classic_hashes(bits, elements), counting=counting)

    def add(self, bytes element not None) -> None:
        cdef uint64_t start = hash_level(element, len(element))
        cdef uint64_t step = mum(start ^ C3, C1) | 1
        cdef uint64_t position
        cdef int _index
        for _index in range(self.hashes):
            position = high64(start, self.bits)
            start += step
            self.words[position >> 6] |= (<uint64_t>1) << (position & 63)
            if self.counters is not None:
                self.counters.increase(position)

    def remove(self, bytes element not None) -> None:
        """Take out an element that was added before; the caller knows that it was."""
        cdef uint64_t start = hash_level(element, len(element))
        cdef uint64_t step = mum(start ^ C3, C1) | 1
        cdef uint64_t position
        cdef int _index
        if self.counters is None:
            raise TypeError("a filter without counters can't forget")
        for _index in range(self.hashes):
            position = high64(start, self.bits)
            start += step
            if self.counters.decrease(position):
                self.words[position >> 6] &= ~((<uint64_t>1) << (position & 63))

    def __contains__(self, bytes element not None) -> bool:
        cdef uint64_t start = hash_level(element, len(element))
        cdef uint64_t step = mum(start ^ C3, C1) | 1
        cdef uint64_t position
        cdef int _index
        for _index in range(self.hashes):
            position = high64(start, self.bits)
            if not (self.words[position >> 6] >> (position & 63)) & 1:
                return False
            start += step
        return True

    def merge(self, ClassicBloom other not None) -> None:
        """Become the union of both."""
        cdef uint64_t word
        if other.bits != self.bits or other.hashes != self.hashes:
            raise ValueError("only filters of one size and one number of hashes can be merged")
        if self.counters is not None:
            raise TypeError("counters can't be merged; merge into a filter without them")
        for word in range(self.bits // 64 + 1):
            self.words[word] |= other.words[word]

    @property
    def nbytes(self) -> int:
        return (self.bits + 7) // 8
