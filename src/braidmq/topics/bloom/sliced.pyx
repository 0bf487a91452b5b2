"""Which of many brokers may want this topic? One search instead of one a broker.

Purpose: the filters of 64 and more brokers, turned by a right angle: row r holds bit r of every filter, one
bit a broker.
Invariant: column s, read downwards, is the filter in slot s, repeated until the largest filter's length is
reached. A small filter can be repeated because its block is the key's low bits: block i of 2^j is block i, i
+ 2^j, .. of more.
How: a question ands the rows of a key's bits into a mask of brokers and stops when none is left. The search
carries the mask of the brokers for which the path exists, less those already found, and comes back as in a
single filter.
Cost: nearly that of one search while the brokers' filters differ; memory 8 bytes a bit of the largest filter
for 64 brokers. Loading a column touches every row once and is done in steps.
"""

from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

from braidmq.topics.bloom.hashing cimport (
    DEPTH_MAX, END_TOKEN, HASH_TOKEN, MASK_DEPTH_MAX, PLUS_TOKEN, SLICES_PER_MIX,
    extend, first_mix, prefetch, second_mix, smaller, trailing_zeros,
)
from braidmq.topics.bloom.prefix cimport (
    BLOCK_BITS, HASHES_MAX, NODES_MAX, WORDS_PER_BLOCK, Levels, lower_bound, open_levels, read_level,
)

cdef enum:
    FIRST_ROWS = 4      # most questions are answered by so many rows


cdef inline int mask_depth(int depth) noexcept nogil:
    return smaller(depth, MASK_DEPTH_MAX)


cdef inline uint64_t narrow(
    const uint64_t* base, uint64_t slices, int count, uint64_t* result, const int width
) noexcept nogil:
    """Keep the slots that are set in the rows of `count` slices; whether any are left. No branch a row."""
    cdef const uint64_t* row
    cdef uint64_t alive = 0
    cdef int _index, word
    for _index in range(count):
        row = base + (slices & (BLOCK_BITS - 1)) * width
        slices >>= 9
        for word in range(width):
            result[word] &= row[word]
    for word in range(width):
        alive |= result[word]
    return alive


cdef inline bint ask(
    SlicedFilter self, uint64_t key,
    const uint64_t* allowed, const uint64_t* mask, uint64_t* result, const int width,
) noexcept nogil:
    """result = the slots of mask & allowed that hold all bits of the key; whether there are any."""
    cdef const uint64_t* base = self.rows + (key & self.block_mask) * BLOCK_BITS * width
    cdef uint64_t mix, alive = 0
    cdef int word, second
    for word in range(width):
        result[word] = mask[word] & allowed[word]
        alive |= result[word]
    if not alive:
        return False
    mix = first_mix(key)
    if not narrow(base, mix, smaller(self.hashes, FIRST_ROWS), result, width):
        return False
    second = smaller(self.hashes, SLICES_PER_MIX) - FIRST_ROWS
    alive = narrow(base, mix >> (9 * FIRST_ROWS), second, result, width)
    if self.hashes > SLICES_PER_MIX:
        alive = narrow(base, second_mix(mix), self.hashes - SLICES_PER_MIX, result, width)
    return alive != 0


cdef inline void warm(SlicedFilter self, uint64_t key, const int width) noexcept nogil:
    """Ask memory for the first rows of a key that will be asked for soon."""
    cdef const uint64_t* base = self.rows + (key & self.block_mask) * BLOCK_BITS * width
    cdef uint64_t slices = first_mix(key)
    cdef int _index
    for _index in range(FIRST_ROWS):
        prefetch(base + (slices & (BLOCK_BITS - 1)) * width)
        slices >>= 9


cdef inline void take(
    SlicedFilter self, uint64_t key, uint64_t* hits, uint64_t* found, uint64_t* mask, const int width
) noexcept nogil:
    """Move the slots that hold the end of a filter from the mask to the found, unless the key is known to be
    false.
    """
    cdef Py_ssize_t index = lower_bound(self.false_keys, self.false_count, key)
    cdef int word
    if index < self.false_count and self.false_keys[index] == key:
        for word in range(width):
            hits[word] &= ~self.false_slots[index * width + word]
    for word in range(width):
        found[word] |= hits[word]
        mask[word] &= ~hits[word]


cdef inline void walk(
    SlicedFilter self, const unsigned char* topic, Py_ssize_t length, uint64_t* found, const int width
) noexcept nogil:
    """The search of a single filter (see prefix) for all slots: `mask` has those where the path exists."""
    cdef Levels levels
    cdef uint64_t waiting_keys[DEPTH_MAX]
    cdef int waiting_depths[DEPTH_MAX]
    cdef uint64_t waiting_masks[DEPTH_MAX * WIDTH_MAX]
    cdef uint64_t mask[WIDTH_MAX]
    cdef uint64_t hits[WIDTH_MAX]
    cdef uint64_t everywhere[WIDTH_MAX]
    cdef uint64_t key = self.seed, literal, other, alive
    cdef int depth = 0, waiting = 0, word, at
    cdef long nodes = 0
    # A leading wildcard never matches a topic that starts with `$` [MQTT-4.7.2-1].
    cdef bint wildcards = not (length > 0 and topic[0] == c"$")
    for word in range(width):
        found[word] = self.unknown[word]
        mask[word] = self.loaded[word] & ~found[word]
        everywhere[word] = ~<uint64_t>0
    open_levels(&levels, topic, length)
    while True:
        nodes += 1
        if nodes > NODES_MAX or depth == DEPTH_MAX:
            for word in range(width):
                found[word] |= mask[word]
            if nodes > NODES_MAX:
                for at in range(waiting * width):
                    found[at % width] |= waiting_masks[at]
                return
        else:
            if depth == levels.known:
                read_level(&levels)
            at = mask_depth(depth) * width
            literal = extend(key, levels.hashes[depth])
            if depth == levels.last:
                literal = extend(literal, END_TOKEN)
            warm(self, literal, width)
            if wildcards:
                other = extend(key, HASH_TOKEN)
                if ask(self, other, self.hash_at + at, mask, hits, width):
                    take(self, other, hits, found, mask, width)
            if depth == levels.last:
                at = mask_depth(depth + 1) * width
                if ask(self, literal, self.end_at + at, mask, hits, width):
                    take(self, literal, hits, found, mask, width)
                if wildcards:
                    other = extend(extend(key, PLUS_TOKEN), END_TOKEN)
                    for word in range(width):
                        hits[word] = self.plus_at[mask_depth(depth) * width + word] & self.end_at[at + word]
                    if ask(self, other, hits, mask, hits, width):
                        take(self, other, hits, found, mask, width)
            else:
                if wildcards:
                    alive = 0
                    for word in range(width):
                        waiting_masks[waiting * width + word] = mask[word] & self.plus_at[at + word]
                        alive |= mask[word] & self.plus_at[at + word]
                    if alive:
                        waiting_keys[waiting] = extend(key, PLUS_TOKEN)
                        warm(self, waiting_keys[waiting], width)
                        waiting_depths[waiting] = depth + 1
                        waiting += 1
                wildcards = True
                if ask(self, literal, everywhere, mask, mask, width):
                    key = literal
                    depth += 1
                    continue
        while waiting > 0:
            waiting -= 1
            key = waiting_keys[waiting]
            depth = waiting_depths[waiting]
            for word in range(width):
                mask[word] = ~found[word]
            if ask(self, key, waiting_masks + waiting * width, mask, mask, width):
                break
        else:
            return


cdef class SlicedFilter:
    """Filters of one seed and one number of hashes in numbered slots, 64 a word."""

    def __cinit__(self, *args, **settings):
        self.width = 1
        self.rows = <uint64_t*>calloc(BLOCK_BITS, sizeof(uint64_t))
        if self.rows == NULL:
            raise MemoryError("no room for the rows")
        self.labels = [None] * 64
        self.staged = {}

    def __init__(self, int hashes=10, uint64_t seed=0):
        if not 1 <= hashes <= HASHES_MAX:
            raise ValueError(f"a key has 1 to {HASHES_MAX} bits, not {hashes}")
        self.hashes = hashes
        self.seed = seed

    def __dealloc__(self):
        free(self.rows)
        free(self.false_keys)
        free(self.false_slots)

    cdef int search(self, const unsigned char* topic, Py_ssize_t length, uint64_t* found) except -1:
        cdef PrefixFilter single
        cdef int slot
        if self.width == 1:
            walk(self, topic, length, found, 1)
        else:
            walk(self, topic, length, found, self.width)
        if self.staged:
            for slot, single in self.staged.items():
                if single.search(topic, length):
                    found[slot >> 6] |= (<uint64_t>1) << (slot & 63)
        return 0

    def interested(self, bytes topic not None) -> list:
        """The labels of all slots whose filters may match the topic."""
        cdef uint64_t found[WIDTH_MAX]
        cdef uint64_t rest
        cdef list labels = []
        cdef int word
        self.search(topic, len(topic), found)
        for word in range(self.width):
            rest = found[word]
            while rest:
                labels.append(self.labels[word * 64 + trailing_zeros(rest)])
                rest &= rest - 1
        return labels

    @property
    def blocks(self) -> int:
        """Blocks of 512 rows."""
        return self.block_mask + 1

    @property
    def nbytes(self) -> int:
        """Memory of the rows."""
        return (self.block_mask + 1) * BLOCK_BITS * self.width * sizeof(uint64_t)

    def occupy(self, label) -> int:
        """A free slot for the label, whose filter isn't known yet. ValueError when all are taken."""
        if None not in self.labels:
            if self.width == WIDTH_MAX:
                raise ValueError(f"an index holds at most {64 * WIDTH_MAX} brokers")
            self.reshape(self.blocks, min(2 * self.width, WIDTH_MAX))
        slot = self.labels.index(None)
        self.labels[slot] = label
        self.set_unknown(slot, True)
        return slot

    def release(self, int slot) -> None:
        """Free a slot. Its bits stay in the rows, unasked, until the slot is loaded again."""
        self.require_slot(slot)
        self.staged.pop(slot, None)
        self.labels[slot] = None
        put_bit(self.unknown, slot, False)
        put_bit(self.loaded, slot, False)

    def set_unknown(self, int slot, bint unknown) -> None:
        self.require_slot(slot)
        put_bit(self.unknown, slot, unknown)

    def stage(self, int slot, PrefixFilter filter not None) -> None:
        """Search this filter by itself from now on, instead of what the rows hold for the slot."""
        self.require_slot(slot)
        if filter.seed != self.seed or filter.hashes != self.hashes:
            raise ValueError("all filters of an index have one seed and one number of hashes")
        put_bit(self.loaded, slot, False)
        self.staged[slot] = filter

    def load_rows(self, int slot, uint64_t first, uint64_t count) -> None:
        """Write the staged filter into the rows of `count` blocks, repeated as often as it fits."""
        cdef PrefixFilter filter = self.staged[slot]
        cdef uint64_t block, stop = min(first + count, self.block_mask + 1)
        cdef uint64_t bit = (<uint64_t>1) << (slot & 63), bits
        cdef uint64_t* row
        cdef int word, _index
        self.require_fitting(filter.block_mask + 1)
        for block in range(first, stop):
            row = self.rows + block * BLOCK_BITS * self.width + (slot >> 6)
            for word in range(WORDS_PER_BLOCK):
                bits = filter.lines[(block & filter.block_mask) * WORDS_PER_BLOCK + word]
                for _index in range(64):
                    row[0] = row[0] & ~bit | (bit if bits & 1 else 0)
                    bits >>= 1
                    row += self.width

    def finish_load(self, int slot) -> None:
        """All rows are written: search them for this slot, no longer the filter by itself."""
        del self.staged[slot]
        put_bit(self.loaded, slot, True)

    def set_depths(self, int slot, uint64_t plus, uint64_t hash, uint64_t end) -> None:
        cdef int depth
        self.require_slot(slot)
        for depth in range(64):
            put_bit(self.plus_at + depth * self.width, slot, (plus >> depth) & 1)
            put_bit(self.hash_at + depth * self.width, slot, (hash >> depth) & 1)
            put_bit(self.end_at + depth * self.width, slot, (end >> depth) & 1)

    def write_keys(self, int slot, uint64_t blocks, keys) -> None:
        """Set the bits of keys in a column of `blocks` blocks, in all its copies."""
        cdef uint64_t key, mix, slices, base
        cdef int index
        self.require_slot(slot)
        self.require_fitting(blocks)
        for key in keys:
            base = (key & (blocks - 1)) * BLOCK_BITS
            mix = slices = first_mix(key)
            for index in range(self.hashes):
                if index == SLICES_PER_MIX:
                    slices = second_mix(mix)
                self.write_copies(slot, blocks, base + (slices & (BLOCK_BITS - 1)), True)
                slices >>= 9

    def write_positions(self, int slot, uint64_t blocks, positions, bint value) -> None:
        """Set or clear bits of a column of `blocks` blocks, in all its copies."""
        cdef uint64_t position
        self.require_slot(slot)
        self.require_fitting(blocks)
        for position in positions:
            if position >= blocks * BLOCK_BITS:
                raise ValueError(f"bit {position} lies outside a filter of {blocks} blocks")
            self.write_copies(slot, blocks, position, value)

    def read_column(self, int slot, uint64_t blocks) -> bytes:
        """The bits of a slot's first `blocks` blocks, as PrefixFilter.bits gives them."""
        cdef bytearray data = bytearray(blocks * BLOCK_BITS // 8)
        cdef uint64_t position
        self.require_slot(slot)
        self.require_fitting(blocks)
        for position in range(blocks * BLOCK_BITS):
            if (self.rows[position * self.width + (slot >> 6)] >> (slot & 63)) & 1:
                data[position >> 3] |= 1 << (position & 7)
        return bytes(data)

    def replace_known_false(self, dict slots_by_key not None) -> None:
        """Keys that are false in the given sets of slots, each an integer with one bit a slot."""
        cdef Py_ssize_t count = len(slots_by_key), index
        cdef uint64_t* keys = <uint64_t*>malloc(max(1, count) * sizeof(uint64_t))
        cdef uint64_t* slots = <uint64_t*>malloc(max(1, count) * self.width * sizeof(uint64_t))
        cdef int word
        if keys == NULL or slots == NULL:
            free(keys)
            free(slots)
            raise MemoryError("no room for the known-false keys")
        free(self.false_keys)
        free(self.false_slots)
        self.false_keys, self.false_slots, self.false_count = keys, slots, 0
        for index, key in enumerate(sorted(slots_by_key)):
            keys[index] = key
            for word in range(self.width):
                slots[index * self.width + word] = (slots_by_key[key] >> (64 * word)) & 0xFFFFFFFFFFFFFFFF
        self.false_count = count

    def reshape(self, uint64_t blocks, int width) -> None:
        """Another number of rows (all columns repeat, so they are copied or cut) or of words in a row.

        The known-false table is emptied when the width changes: it has to be replaced.
        """
        cdef uint64_t* fresh
        cdef const uint64_t* source
        cdef uint64_t row, total = blocks * BLOCK_BITS, held = (self.block_mask + 1) * BLOCK_BITS
        if blocks < 1 or blocks & (blocks - 1) or not self.width <= width <= WIDTH_MAX:
            raise ValueError(f"an index can't have {blocks} blocks of {width} words")
        fresh = <uint64_t*>calloc(total * width, sizeof(uint64_t))
        if fresh == NULL:
            raise MemoryError(f"no room for {total * width * sizeof(uint64_t)} bytes of rows")
        for row in range(total):
            source = self.rows + (row & (held - 1)) * self.width
            memcpy(fresh + row * width, source, self.width * sizeof(uint64_t))
        free(self.rows)
        self.rows = fresh
        self.block_mask = blocks - 1
        if width != self.width:
            spread(self.plus_at, self.width, width)
            spread(self.hash_at, self.width, width)
            spread(self.end_at, self.width, width)
            self.labels.extend([None] * (64 * (width - self.width)))
            self.false_count = 0
            self.width = width

    cdef int require_slot(self, int slot) except -1:
        if not 0 <= slot < 64 * self.width:
            raise IndexError(f"slot {slot} of {64 * self.width}")
        return 0

    cdef int require_fitting(self, uint64_t blocks) except -1:
        if blocks < 1 or blocks & (blocks - 1) or blocks > self.block_mask + 1:
            raise ValueError(f"{blocks} blocks don't fit into {self.blocks}")
        return 0

    cdef void write_copies(self, int slot, uint64_t blocks, uint64_t position, bint value) noexcept nogil:
        cdef uint64_t rows = (self.block_mask + 1) * BLOCK_BITS
        while position < rows:
            put_bit(self.rows + position * self.width, slot, value)
            position += blocks * BLOCK_BITS


cdef inline void put_bit(uint64_t* words, int slot, bint value) noexcept nogil:
    cdef uint64_t bit = (<uint64_t>1) << (slot & 63)
    if value:
        words[slot >> 6] |= bit
    else:
        words[slot >> 6] &= ~bit


cdef void spread(uint64_t* table, int width, int wider) noexcept nogil:
    """Move 64 rows of `width` words apart, to `wider` words, in place and from the end."""
    cdef int depth, word
    for depth in range(63, -1, -1):
        for word in range(wider - 1, -1, -1):
            table[depth * wider + word] = table[depth * width + word] if word < width else 0
