"""The fast interest filter: may any subscription of that broker match this topic?

Purpose: a whole broker's filters in some ten bytes each, searched in a few hundred nanoseconds.
Invariant: never a false "no". A filter that was added and whose keys weren't removed is always found; a wrong
"yes" costs a useless forward.
How: the keys of every filter's prefixes (see hashing) lie in a blocked Bloom filter: all bits of a key in one
cache line, each bit from its own 9-bit slice of a mix. The search walks the topic level by level as in a trie
and comes back to the other branch whenever one fails. Without that return it would lose nearly every match
that shares its first levels with another filter.
Cost: up to three questions a visited path, most of them answered by one or two bits. The depth masks skip
questions that no filter can answer. Topics are read only as deep as the search gets. Work is bounded by
NODES_MAX paths and DEPTH_MAX levels, memory by the stack frame; there is no recursion.
Rejected: double hashing inside a line (only 2^17 patterns exist, so the rate has a floor of 1e-3).
"""

from libc.stdint cimport uintptr_t
from libc.stdlib cimport calloc, free, malloc

from braidmq.topics.bloom.hashing cimport (
    DEPTH_MAX, END_TOKEN, HASH_TOKEN, PLUS_TOKEN, SLICES_PER_MIX, FilterKeys,
    collect_keys, depth_bit, extend, first_mix, load64, prefetch, second_mix, smaller,
    store64,
)

cdef enum:
    FIRST_BITS = 3      # most questions are answered by so many bits

cdef uint64_t ALL_DEPTHS = ~<uint64_t>0


cdef inline uint64_t all_set(const uint64_t* line, uint64_t slices, int count) noexcept nogil:
    """Bit 0: whether the bits of `count` slices are all set. No branch a bit: which bit is missing can't be
    guessed.
    """
    cdef uint64_t together = 1
    cdef int _index
    for _index in range(count):
        together &= line[(slices >> 6) & 7] >> (slices & 63)
        slices >>= 9
    return together


cdef inline bint query(const uint64_t* lines, uint64_t block_mask, int hashes, uint64_t key) noexcept nogil:
    cdef const uint64_t* line = lines + (key & block_mask) * WORDS_PER_BLOCK
    cdef uint64_t mix = first_mix(key)
    if not all_set(line, mix, smaller(hashes, FIRST_BITS)):
        return False
    if not all_set(line, mix >> (9 * FIRST_BITS), smaller(hashes, SLICES_PER_MIX) - FIRST_BITS):
        return False
    return hashes <= SLICES_PER_MIX or all_set(line, second_mix(mix), hashes - SLICES_PER_MIX) != 0


cdef inline bint walk(
    PrefixFilter self, const unsigned char* topic, Py_ssize_t length,
    bint plus_first, bint masked, SearchCost* cost,
) noexcept nogil:
    """Depth-first search with full backtracking over `#`, `+` and the literal level of every path."""
    cdef Levels levels
    cdef uint64_t waiting_keys[DEPTH_MAX]
    cdef int waiting_depths[DEPTH_MAX]
    cdef const uint64_t* lines = self.lines
    cdef uint64_t block_mask = self.block_mask
    cdef int hashes = self.hashes
    cdef uint64_t plus_depths = self.plus_depths if masked else ALL_DEPTHS
    cdef uint64_t hash_depths = self.hash_depths if masked else ALL_DEPTHS
    cdef uint64_t end_depths = self.end_depths if masked else ALL_DEPTHS
    cdef uint64_t key = self.seed, first, second
    cdef int depth = 0, waiting = 0
    cdef long nodes = 0, queries = 0
    # A leading wildcard never matches a topic that starts with `$` [MQTT-4.7.2-1].
    cdef bint wildcards = not (length > 0 and topic[0] == c"$")
    cdef bint plus_here, found = False
    open_levels(&levels, topic, length)
    while True:
        nodes += 1
        if nodes > NODES_MAX or depth == DEPTH_MAX:
            found = True
            break
        if depth == levels.known:
            read_level(&levels)
        first = extend(key, levels.hashes[depth])
        prefetch(lines + (first & block_mask) * WORDS_PER_BLOCK)
        if wildcards and hash_depths & depth_bit(depth):
            second = extend(key, HASH_TOKEN)
            queries += 1
            if query(lines, block_mask, hashes, second) and not self.is_known_false(second):
                found = True
                break
        plus_here = wildcards and plus_depths & depth_bit(depth) != 0
        wildcards = True
        if plus_here:
            second = extend(key, PLUS_TOKEN)
            if plus_first:
                first, second = second, first
        if depth == levels.last:
            if end_depths & depth_bit(depth + 1):
                first = extend(first, END_TOKEN)
                queries += 1
                if query(lines, block_mask, hashes, first) and not self.is_known_false(first):
                    found = True
                    break
                if plus_here:
                    second = extend(second, END_TOKEN)
                    queries += 1
                    if query(lines, block_mask, hashes, second) and not self.is_known_false(second):
                        found = True
                        break
        else:
            # The branch that is tried second waits, unasked, until the first has failed.
            if plus_here:
                waiting_keys[waiting] = second
                waiting_depths[waiting] = depth + 1
                waiting += 1
            queries += 1
            if query(lines, block_mask, hashes, first):
                key = first
                depth += 1
                continue
        while waiting > 0:
            waiting -= 1
            key = waiting_keys[waiting]
            depth = waiting_depths[waiting]
            queries += 1
            if query(lines, block_mask, hashes, key):
                break
        else:
            break
    if cost != NULL:
        cost.queries = queries
        cost.nodes = nodes
    return found


cdef class PrefixFilter:
    """The keys of one broker's filters in `blocks` lines of 512 bits, `hashes` bits a key."""

    def __cinit__(self, Py_ssize_t blocks, int hashes=10, uint64_t seed=0):
        if blocks < 1 or blocks & (blocks - 1):
            raise ValueError(f"the number of blocks is a power of two, not {blocks}")
        if not 1 <= hashes <= HASHES_MAX:
            raise ValueError(f"a key has 1 to {HASHES_MAX} bits, not {hashes}")
        self.memory = calloc(blocks + 1, BLOCK_BYTES)
        if self.memory == NULL:
            raise MemoryError(f"no room for a filter of {blocks} blocks")
        self.lines = <uint64_t*>((<uintptr_t>self.memory + BLOCK_BYTES - 1) & ~<uintptr_t>(BLOCK_BYTES - 1))
        self.block_mask = blocks - 1
        self.hashes = hashes
        self.seed = seed

    def __dealloc__(self):
        free(self.memory)
        free(self.false_keys)

    cdef bint search(self, const unsigned char* topic, Py_ssize_t length) noexcept nogil:
        return walk(self, topic, length, False, True, NULL)

    cdef bint contains(self, uint64_t key) noexcept nogil:
        return query(self.lines, self.block_mask, self.hashes, key)

    cdef void insert(self, uint64_t key) noexcept nogil:
        cdef uint64_t* line = self.lines + (key & self.block_mask) * WORDS_PER_BLOCK
        cdef uint64_t mix = first_mix(key)
        cdef uint64_t slices = mix
        cdef int index
        for index in range(self.hashes):
            if index == SLICES_PER_MIX:
                slices = second_mix(mix)
            line[(slices >> 6) & 7] |= (<uint64_t>1) << (slices & 63)
            slices >>= 9

    cdef bint is_known_false(self, uint64_t key) noexcept nogil:
        cdef Py_ssize_t index = lower_bound(self.false_keys, self.false_count, key)
        return index < self.false_count and self.false_keys[index] == key

    def may_match(self, bytes topic not None) -> bool:
        """False only if no stored filter matches the topic."""
        return self.search(topic, len(topic))

    def count_queries(self, bytes topic not None, *, bint plus_first=False, bint masked=True) -> tuple:
        """The answer and the number of questions it took.

        `plus_first` asks `+` before the literal level, as the paper does; the broker asks the literal first,
        which finds matches sooner. Without `masked` the depth masks are ignored, as in the paper.
        """
        cdef SearchCost cost
        found = walk(self, topic, len(topic), plus_first, masked, &cost)
        return found, cost.queries

    def add(self, bytes filter not None) -> None:
        """Store a filter for good: what is counted and can be removed lives in LocalInterest."""
        cdef FilterKeys keys
        cdef int index
        collect_keys(self.seed, filter, len(filter), &keys)
        for index in range(keys.count):
            self.insert(keys.items[index].key)
        self.plus_depths |= keys.plus_depths
        self.hash_depths |= keys.hash_depths
        self.end_depths |= keys.end_depths

    def add_keys(self, keys) -> None:
        cdef uint64_t key
        for key in keys:
            self.insert(key)

    def has_key(self, uint64_t key) -> bool:
        return self.contains(key)

    def set_positions(self, positions) -> None:
        cdef uint64_t position
        for position in positions:
            require_inside(self, position)
            self.lines[position >> 6] |= (<uint64_t>1) << (position & 63)

    def clear_positions(self, positions) -> None:
        cdef uint64_t position
        for position in positions:
            require_inside(self, position)
            self.lines[position >> 6] &= ~((<uint64_t>1) << (position & 63))

    def merge(self, PrefixFilter other not None) -> None:
        """Become the union: whatever either filter matched is matched."""
        if other.block_mask != self.block_mask or other.hashes != self.hashes or other.seed != self.seed:
            raise ValueError("only filters of one size, one number of hashes and one seed can be merged")
        cdef Py_ssize_t word
        for word in range(self.words):
            self.lines[word] |= other.lines[word]
        self.plus_depths |= other.plus_depths
        self.hash_depths |= other.hash_depths
        self.end_depths |= other.end_depths
        # A key is surely absent from the union only if both say that it is absent from them.
        self.known_false = sorted(set(self.known_false) & set(other.known_false))

    @property
    def blocks(self) -> int:
        return self.block_mask + 1

    @property
    def words(self) -> int:
        return (self.block_mask + 1) * WORDS_PER_BLOCK

    @property
    def nbytes(self) -> int:
        """Memory of the bits."""
        return (self.block_mask + 1) * BLOCK_BYTES

    @property
    def bits(self) -> bytes:
        """All bits, position 0 first, little-endian."""
        return little_endian(self.lines, self.words)

    @bits.setter
    def bits(self, const unsigned char[::1] data not None):
        if data.shape[0] != self.nbytes:
            raise ValueError(f"a filter of {self.blocks} blocks has {self.nbytes} bytes, not {data.shape[0]}")
        cdef Py_ssize_t word
        for word in range(self.words):
            self.lines[word] = load64(&data[word * 8])

    @property
    def ones(self) -> int:
        """How many bits are set."""
        return int.from_bytes(self.bits, "little").bit_count()

    @property
    def known_false(self) -> list:
        """Keys that are certainly absent although all their bits are set."""
        cdef Py_ssize_t index
        return [self.false_keys[index] for index in range(self.false_count)]

    @known_false.setter
    def known_false(self, keys):
        cdef list ordered = sorted(set(keys))
        cdef Py_ssize_t count = len(ordered), index
        cdef uint64_t* replaced = <uint64_t*>malloc(max(1, count) * sizeof(uint64_t))
        if replaced == NULL:
            raise MemoryError("no room for the known-false keys")
        try:
            for index in range(count):
                replaced[index] = ordered[index]
        except BaseException:
            free(replaced)
            raise
        free(self.false_keys)
        self.false_keys = replaced
        self.false_count = count


cdef int require_inside(PrefixFilter self, uint64_t position) except -1:
    if position >> 9 > self.block_mask:
        raise ValueError(f"bit {position} lies outside a filter of {self.blocks} blocks")
    return 0


cdef bytes little_endian(const uint64_t* words, Py_ssize_t count):
    cdef bytearray data = bytearray(count * 8)
    cdef unsigned char* target = data
    cdef Py_ssize_t word
    for word in range(count):
        store64(target + word * 8, words[word])
    return bytes(data)


def search_each(filters, bytes topic not None) -> list:
    """Indices of the filters that may match, asked one after the other."""
    cdef PrefixFilter candidate
    cdef list found = []
    cdef Py_ssize_t index = 0
    for candidate in filters:
        if candidate.search(topic, len(topic)):
            found.append(index)
        index += 1
    return found
