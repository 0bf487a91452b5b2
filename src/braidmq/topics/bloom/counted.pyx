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

        With report=False both lists stay empty, for loads that will be sent as a snapshot.
        """
        cdef uint64_t key
        cdef list set_positions = [], cleared = []
        for key in added:
            count_key(self, key, True)
        for key in removed:
            count_key(self, key, False)
        for key in added:
            self._settle(key, report, set_positions, cleared)
        for key in removed:
            self._settle(key, report, set_positions, cleared)
        set_positions.sort()
        cleared.sort()
        return set_positions, cleared

    cdef int _settle(self, uint64_t key, bint report, list set_positions, list cleared) except -1:
        """Make the bits of one key follow their counters."""
        cdef uint64_t positions[HASHES_MAX]
        cdef uint64_t position, bit
        cdef int index
        key_positions(self, key, positions)
        for index in range(self.filter.hashes):
            position = positions[index]
            bit = (<uint64_t>1) << (position & 63)
            if (self.filter.lines[position >> 6] & bit != 0) == (self.counters.value(position) != 0):
                continue
            self.filter.lines[position >> 6] ^= bit
            if report:
                (set_positions if self.filter.lines[position >> 6] & bit else cleared).append(position)
        return 0

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


cdef void count_key(CountedFilter self, uint64_t key, bint added) noexcept nogil:
    cdef uint64_t positions[HASHES_MAX]
    cdef int index
    key_positions(self, key, positions)
    for index in range(self.filter.hashes):
        if added:
            self.counters.increase(positions[index])
        else:
            self.counters.decrease(positions[index])
