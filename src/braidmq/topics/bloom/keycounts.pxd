from libc.stdint cimport uint32_t, uint64_t

from braidmq.topics.bloom.hashing cimport FilterKeys

cdef struct KeyEntry:
    uint64_t key
    uint32_t own        # filters that end with this key
    uint32_t through    # filters that pass it; the highest bit marks a path, below which filters go on

cdef class KeyCounts:
    cdef KeyEntry* entries      # open addressing, linear probing; an empty slot has both counts 0
    cdef Py_ssize_t slots       # a power of two
    cdef Py_ssize_t used
    cdef readonly uint64_t seed
    cdef readonly long filters  # filters held, each as often as it was added
    cdef uint32_t plus_filters[64]  # filters with `+` at level d
    cdef uint32_t hash_filters[64]  # filters with `#` after d levels
    cdef uint32_t end_filters[64]   # filters that end after d levels

    cdef bint present(self, uint64_t key) noexcept nogil
    cdef bint is_path(self, uint64_t key) noexcept nogil
    cdef Py_ssize_t slot_of(self, uint64_t key) noexcept nogil
    cdef int grow(self) except -1
    cdef void remove_slot(self, Py_ssize_t slot) noexcept nogil
    cdef bint _holds(self, const FilterKeys* keys) noexcept nogil
    cdef void count_depths(self, const FilterKeys* keys, int change) noexcept nogil
