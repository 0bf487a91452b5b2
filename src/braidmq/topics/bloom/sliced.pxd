"""Many filters side by side, one bit a broker: fields and the search that the broker's hot path calls."""

from libc.stdint cimport uint64_t

from braidmq.topics.bloom.prefix cimport PrefixFilter

cdef enum:
    WIDTH_MAX = 16      # words of 64 brokers in a row

cdef class SlicedFilter:
    cdef uint64_t* rows                 # row r of `width` words: bit s of it is bit r of the filter in slot s
    cdef uint64_t block_mask            # blocks of 512 rows - 1; the largest column's size
    cdef readonly int width             # words a row
    cdef readonly uint64_t seed
    cdef readonly int hashes
    cdef uint64_t loaded[WIDTH_MAX]     # slots whose filter is in the rows
    cdef uint64_t unknown[WIDTH_MAX]    # slots whose filter isn't known well enough: always found
    cdef uint64_t plus_at[64 * WIDTH_MAX]   # per depth: slots with a filter that has `+` there
    cdef uint64_t hash_at[64 * WIDTH_MAX]   # per depth: slots with a filter that has `#` after it
    cdef uint64_t end_at[64 * WIDTH_MAX]    # per depth: slots with a filter that ends there
    cdef uint64_t* false_keys           # sorted: keys that are known to be false in some slots
    cdef uint64_t* false_slots          # for each of them, `width` words of these slots
    cdef Py_ssize_t false_count
    cdef readonly list labels           # what stands for a slot in answers; None where it is free
    cdef dict staged                    # slot -> PrefixFilter that isn't in the rows yet; searched by itself

    # Fills `width` words of `found` (room for WIDTH_MAX) with the slots that may want the topic. Needs the GIL.
    cdef int search(self, const unsigned char* topic, Py_ssize_t length, uint64_t* found) except -1
    cdef int require_slot(self, int slot) except -1
    cdef int require_fitting(self, uint64_t blocks) except -1
    cdef void write_copies(self, int slot, uint64_t blocks, uint64_t position, bint value) noexcept nogil
