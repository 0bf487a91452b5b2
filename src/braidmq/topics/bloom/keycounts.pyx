"""Which keys a broker's filters need, and how often: the owner's exact side of an interest filter.

Purpose: to say which keys appear and which vanish when one filter comes or goes. A prefix that 10^5 filters
share is one key that appears once and vanishes once.
Invariant: a key is held exactly while some filter held ends with it (`own`) or passes through it (`through`).
`own` alone tells whether a filter is held, so that removing one that never came is refused instead of
corrupting counts.
Cost: 16 bytes a slot at a load of at most 3/4, one probe sequence a key; growing moves the table once.
"""

from array import array

from libc.stdlib cimport calloc, free

from braidmq.topics.bloom.hashing cimport (
    CUT_KEY, END_KEY, HASH_KEY, PREFIX_KEY, FilterKey, collect_keys,
)

cdef enum:
    SLOTS_MIN = 64
    THROUGH_COUNT = 0x7FFFFFFF
    PATH_FLAG = 0x80000000


cdef inline bint ends_filter(int kind) noexcept nogil:
    return kind == END_KEY or kind == HASH_KEY or kind == CUT_KEY


cdef inline bint is_empty(const KeyEntry* entry) noexcept nogil:
    return entry.own == 0 and (entry.through & THROUGH_COUNT) == 0


cdef class KeyCounts:
    """Reference counts of the keys of all filters of one owner."""

    def __cinit__(self, uint64_t seed=0):
        self.slots = SLOTS_MIN
        self.entries = <KeyEntry*>calloc(self.slots, sizeof(KeyEntry))
        if self.entries == NULL:
            raise MemoryError("no room for the key counts")
        self.seed = seed

    def __dealloc__(self):
        free(self.entries)

    def add(self, bytes filter not None) -> list:
        """Count the filter once more; the keys that are new."""
        cdef FilterKeys keys
        cdef FilterKey* item
        cdef KeyEntry* entry
        cdef list appeared = []
        cdef int index
        collect_keys(self.seed, filter, len(filter), &keys)
        while (self.used + keys.count) * 4 > self.slots * 3:
            self.grow()
        for index in range(keys.count):
            item = &keys.items[index]
            entry = &self.entries[self.slot_of(item.key)]
            if is_empty(entry):
                entry.key = item.key
                entry.through = 0
                self.used += 1
                appeared.append(item.key)
                if item.kind == PREFIX_KEY:
                    entry.through = PATH_FLAG
            if ends_filter(item.kind):
                entry.own += 1
            else:
                entry.through += 1
        self.count_depths(&keys, 1)
        self.filters += 1
        return appeared

    def discard(self, bytes filter not None) -> list:
        """Count the filter once less; the keys that no filter needs any more. KeyError if it isn't held."""
        cdef FilterKeys keys
        cdef FilterKey* item
        cdef KeyEntry* entry
        cdef list vanished = []
        cdef Py_ssize_t slot
        cdef int index
        collect_keys(self.seed, filter, len(filter), &keys)
        if not self._holds(&keys):
            raise KeyError(filter)
        for index in range(keys.count):
            item = &keys.items[index]
            slot = self.slot_of(item.key)
            entry = &self.entries[slot]
            if ends_filter(item.kind):
                entry.own -= 1
            else:
                entry.through -= 1
            if is_empty(entry):
                vanished.append(item.key)
                self.remove_slot(slot)
        self.count_depths(&keys, -1)
        self.filters -= 1
        return vanished

    def __contains__(self, bytes filter not None) -> bool:
        """Whether the filter itself is held."""
        cdef FilterKeys keys
        collect_keys(self.seed, filter, len(filter), &keys)
        return self._holds(&keys)

    def __len__(self) -> int:
        """Number of keys."""
        return self.used

    def has_key(self, uint64_t key) -> bool:
        return self.present(key)

    def keys(self) -> array:
        """All keys, in no order."""
        cdef uint64_t[::1] target
        cdef Py_ssize_t slot, count = 0
        found = array("Q", bytes(8 * self.used))
        if self.used:
            target = found
            for slot in range(self.slots):
                if not is_empty(&self.entries[slot]):
                    target[count] = self.entries[slot].key
                    count += 1
        return found

    def paths(self, keys) -> list:
        """Those of the keys below which filters go on."""
        cdef uint64_t key
        return [key for key in keys if self.is_path(key)]

    @property
    def plus_depths(self) -> int:
        return used_depths(self.plus_filters)

    @property
    def hash_depths(self) -> int:
        return used_depths(self.hash_filters)

    @property
    def end_depths(self) -> int:
        return used_depths(self.end_filters)

    @property
    def nbytes(self) -> int:
        return self.slots * sizeof(KeyEntry)

    cdef bint present(self, uint64_t key) noexcept nogil:
        return not is_empty(&self.entries[self.slot_of(key)])

    cdef bint is_path(self, uint64_t key) noexcept nogil:
        """Whether the key is there and filters go on below it."""
        cdef const KeyEntry* entry = &self.entries[self.slot_of(key)]
        return not is_empty(entry) and entry.through & PATH_FLAG != 0

    cdef Py_ssize_t slot_of(self, uint64_t key) noexcept nogil:
        """The key's slot, or the empty one where it would go. Low bits are taken: keys are well mixed."""
        cdef Py_ssize_t mask = self.slots - 1
        cdef Py_ssize_t slot = <Py_ssize_t>(key & <uint64_t>mask)
        while not is_empty(&self.entries[slot]) and self.entries[slot].key != key:
            slot = (slot + 1) & mask
        return slot

    cdef int grow(self) except -1:
        cdef KeyEntry* old = self.entries
        cdef Py_ssize_t old_slots = self.slots, slot
        cdef KeyEntry* fresh = <KeyEntry*>calloc(old_slots * 2, sizeof(KeyEntry))
        if fresh == NULL:
            raise MemoryError("no room to grow the key counts")
        self.entries = fresh
        self.slots = old_slots * 2
        for slot in range(old_slots):
            if not is_empty(&old[slot]):
                fresh[self.slot_of(old[slot].key)] = old[slot]
        free(old)
        return 0

    cdef void remove_slot(self, Py_ssize_t slot) noexcept nogil:
        """Empty a slot and move back what probed past it, so that no tombstones pile up."""
        cdef Py_ssize_t mask = self.slots - 1
        cdef Py_ssize_t hole = slot, candidate = (slot + 1) & mask, home
        self.used -= 1
        while not is_empty(&self.entries[candidate]):
            home = <Py_ssize_t>(self.entries[candidate].key & <uint64_t>mask)
            if ((candidate - home) & mask) >= ((candidate - hole) & mask):
                self.entries[hole] = self.entries[candidate]
                hole = candidate
            candidate = (candidate + 1) & mask
        self.entries[hole].own = 0
        self.entries[hole].through = 0

    cdef void count_depths(self, const FilterKeys* keys, int change) noexcept nogil:
        cdef int depth
        for depth in range(64):
            self.plus_filters[depth] += change * <int>((keys.plus_depths >> depth) & 1)
            self.hash_filters[depth] += change * <int>((keys.hash_depths >> depth) & 1)
            self.end_filters[depth] += change * <int>((keys.end_depths >> depth) & 1)

    cdef bint _holds(self, const FilterKeys* keys) noexcept nogil:
        cdef int index
        for index in range(keys.count):
            if ends_filter(keys.items[index].kind):
                return self.entries[self.slot_of(keys.items[index].key)].own > 0
        return False


cdef uint64_t used_depths(const uint32_t* filters) noexcept nogil:
    cdef uint64_t depths = 0
    cdef int depth
    for depth in range(64):
        if filters[depth]:
            depths |= (<uint64_t>1) << depth
    return depths
