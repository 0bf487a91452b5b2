"""A filter together with the counters of its bits: what the owner holds and from which receivers get their
bits.

Invariant: after apply() a bit is set exactly if its counter isn't zero, and apply() has named every bit that
changed.
"""

from libc.stdint cimport uint64_t

from braidmq.topics.bloom.counters cimport BitCounters
from braidmq.topics.bloom.hashing cimport (
    END_TOKEN, HASH_TOKEN, PLUS_TOKEN, SLICES_PER_MIX, extend, first_mix, second_mix,
)
from braidmq.topics.bloom.keycounts cimport KeyCounts
from braidmq.topics.bloom.prefix cimport BLOCK_BITS, HASHES_MAX, PrefixFilter


cdef class CountedFilter:
    """A PrefixFilter whose keys can be taken out again."""

    cdef readonly PrefixFilter filter
    cdef readonly BitCounters counters

    def __init__(self, Py_ssize_t blocks, int hashes, uint64_t seed):
        self.filter = PrefixFilter(blocks, hashes, seed)
        self.counters = BitCounters(<uint64_t>blocks * BLOCK_BITS)

    def apply(self, added, removed, bint report=True) -> tuple:
        """Count keys in and out as one step; the positions that became set and that became clear, ascending.

        What is removed was there before, so no bit changes twice: those of the removed keys were set. With
        report=False both lists stay empty, for loads that will be sent as a snapshot.
        """
        cdef uint64_t key
        cdef list raised = [], cleared = []
        for key in added:
            count_in(self, key, raised if report else None)
        for key in removed:
            count_out(self, key, cleared if report else None)
        raised.sort()
        cleared.sort()
        return raised, cleared

    def false_ends(self, KeyCounts counts not None, paths) -> list:
        """Keys that a search below these paths would take for the end of a filter, wrongly."""
        cdef uint64_t path
        cdef uint64_t ends[3]
        cdef list found = []
        cdef int index
        for path in paths:
            ends[0] = extend(path, HASH_TOKEN)
            ends[1] = extend(path, END_TOKEN)
            ends[2] = extend(extend(path, PLUS_TOKEN), END_TOKEN)
            for index in range(3):
                if self.filter.contains(ends[index]) and not counts.present(ends[index]):
                    found.append(ends[index])
        return found


cdef void key_positions(CountedFilter self, uint64_t key, uint64_t* positions) noexcept nogil:
    cdef uint64_t base = (key & self.filter.block_mask) * BLOCK_BITS
    cdef uint64_t mix = first_mix(key)
    cdef uint64_t slices = mix
    cdef int index
    for index in range(self.filter.hashes):
        if index == SLICES_PER_MIX:
            slices = second_mix(mix)
        positions[index] = base + (slices & (BLOCK_BITS - 1))
        slices >>= 9


cdef int count_in(CountedFilter self, uint64_t key, list raised) except -1:
    cdef uint64_t positions[HASHES_MAX]
    cdef int index
    key_positions(self, key, positions)
    for index in range(self.filter.hashes):
        if self.counters.increase(positions[index]):
            self.filter.lines[positions[index] >> 6] |= (<uint64_t>1) << (positions[index] & 63)
            if raised is not None:
                raised.append(positions[index])
    return 0


cdef int count_out(CountedFilter self, uint64_t key, list cleared) except -1:
    cdef uint64_t positions[HASHES_MAX]
    cdef int index
    key_positions(self, key, positions)
    for index in range(self.filter.hashes):
        if self.counters.decrease(positions[index]):
            self.filter.lines[positions[index] >> 6] &= ~((<uint64_t>1) << (positions[index] & 63))
            if cleared is not None:
                cleared.append(positions[index])
    return 0
