"""A blocked Bloom filter over prefix keys: fields and the search that the broker's hot path calls."""

from libc.stdint cimport uint64_t

from braidmq.topics.bloom.hashing cimport DEPTH_MAX, hash_level

cdef enum:
    NODES_MAX = 4096    # visited nodes after which a search gives up and answers "maybe"
    WORDS_PER_BLOCK = 8
    BLOCK_BYTES = 64
    BLOCK_BITS = 512
    HASHES_MAX = 14     # two mixes of seven slices

# A topic, read only as deep as a search gets.
cdef struct Levels:
    const unsigned char* next           # first byte of the level that was not read yet
    const unsigned char* stop
    int known                           # levels read so far
    int last                            # index of the last level, -1 while unknown
    uint64_t hashes[DEPTH_MAX]

cdef struct SearchCost:
    long queries        # questions put to the bit array
    long nodes          # paths visited


cdef inline void open_levels(Levels* levels, const unsigned char* topic, Py_ssize_t length) noexcept nogil:
    levels.next = topic
    levels.stop = topic + length
    levels.known = 0
    levels.last = -1


cdef inline void read_level(Levels* levels) noexcept nogil:
    cdef const unsigned char* level = levels.next
    cdef const unsigned char* byte = level
    while byte < levels.stop and byte[0] != c"/":
        byte += 1
    levels.hashes[levels.known] = hash_level(level, byte - level)
    if byte == levels.stop:
        levels.last = levels.known
    levels.known += 1
    levels.next = byte + 1


cdef inline Py_ssize_t lower_bound(const uint64_t* keys, Py_ssize_t count, uint64_t key) noexcept nogil:
    """Index of the first of the sorted keys that isn't below `key`."""
    cdef Py_ssize_t low = 0, high = count, middle
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low


cdef class PrefixFilter:
    cdef uint64_t* lines                # 512 bits each, aligned to a cache line
    cdef void* memory                   # what calloc gave, for free()
    cdef uint64_t block_mask            # number of lines - 1; the number is a power of two
    cdef readonly uint64_t seed         # key of the root; the same in a whole cluster
    cdef readonly int hashes            # bits a key
    cdef public uint64_t plus_depths    # bit d: some filter has `+` at level d
    cdef public uint64_t hash_depths    # bit d: some filter has `#` after d levels
    cdef public uint64_t end_depths     # bit d: some filter ends after d levels
    cdef uint64_t* false_keys           # sorted: keys whose bits are all set by accident
    cdef Py_ssize_t false_count

    cdef bint search(self, const unsigned char* topic, Py_ssize_t length) noexcept nogil
    cdef bint contains(self, uint64_t key) noexcept nogil
    cdef void insert(self, uint64_t key) noexcept nogil
    cdef bint is_known_false(self, uint64_t key) noexcept nogil
