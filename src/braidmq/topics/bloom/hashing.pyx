"""Stable keys for topic filters: the same numbers on every machine, in every Python, in every process.

A filter is stored as its prefixes, so that a search can walk it level by level. For `a/+/c` these are the
keys of `a`, of `a/+` and of the *end* of `a/+/c`. `P/#` is stored as every prefix of P, P itself, the `#`
below P and the end of P, for `P/#` matches P too. A `$share/group/` in front is no part of what a broker
wants and is left out.

Cost: one pass over the bytes and one multiply a level. Rejected: hashing the text of each prefix (quadratic
in the levels, and a level that ends in the terminal's character collides with it); Python's hash() (salted
per process).
"""

from libc.string cimport memchr, memcmp


cdef Py_ssize_t shared_prefix_bytes(const unsigned char* filter, Py_ssize_t length) noexcept nogil:
    """Length of `$share/group/`, 0 when the filter isn't shared."""
    cdef const unsigned char* slash
    if length < 7 or memcmp(filter, b"$share/", 7) != 0:
        return 0
    slash = <const unsigned char*>memchr(filter + 7, c"/", length - 7)
    return slash - filter + 1 if slash != NULL else 0


cdef inline void append_key(FilterKeys* keys, uint64_t key, int kind, int depth) noexcept nogil:
    keys.items[keys.count].key = key
    keys.items[keys.count].kind = kind
    keys.items[keys.count].depth = depth
    keys.count += 1


cdef void collect_keys(
    uint64_t seed, const unsigned char* filter, Py_ssize_t length, FilterKeys* keys
) noexcept nogil:
    cdef Py_ssize_t skipped = shared_prefix_bytes(filter, length)
    cdef const unsigned char* level = filter + skipped
    cdef const unsigned char* stop = filter + length
    cdef const unsigned char* slash
    cdef Py_ssize_t level_bytes
    cdef uint64_t key = seed
    cdef int depth = 0
    keys.count = 0
    keys.plus_depths = keys.hash_depths = keys.end_depths = 0
    while True:
        slash = <const unsigned char*>memchr(level, c"/", stop - level)
        level_bytes = (stop if slash == NULL else slash) - level
        if slash == NULL and level_bytes == 1 and level[0] == c"#":
            append_key(keys, extend(key, HASH_TOKEN), HASH_KEY, depth)
            keys.hash_depths |= depth_bit(depth)
            if depth > 0:
                append_key(keys, extend(key, END_TOKEN), PARENT_END_KEY, depth)
                keys.end_depths |= depth_bit(depth)
            return
        if depth == DEPTH_MAX:
            # The search answers "maybe" below the prefix that was stored last.
            keys.items[keys.count - 1].kind = CUT_KEY
            return
        if level_bytes == 1 and level[0] == c"+":
            keys.plus_depths |= depth_bit(depth)
            key = extend(key, PLUS_TOKEN)
        else:
            key = extend(key, hash_level(level, level_bytes))
        depth += 1
        if slash == NULL:
            append_key(keys, extend(key, END_TOKEN), END_KEY, depth)
            keys.end_depths |= depth_bit(depth)
            return
        append_key(keys, key, PREFIX_KEY, depth)
        level = slash + 1


def strip_shared(bytes filter not None) -> bytes:
    """The filter without `$share/group/`."""
    return filter[shared_prefix_bytes(filter, len(filter)):]


def filter_keys(bytes filter not None, uint64_t seed) -> list:
    """Every key that stands for the filter, prefixes first."""
    cdef FilterKeys keys
    cdef int index
    collect_keys(seed, filter, len(filter), &keys)
    return [keys.items[index].key for index in range(keys.count)]


def path_key(levels, uint64_t seed) -> int:
    """The key of a path, given as its levels; `+` is the wildcard."""
    cdef uint64_t key = seed
    cdef bytes level
    for level in levels:
        key = extend(key, PLUS_TOKEN if level == b"+" else hash_level(level, len(level)))
    return key


def end_key(uint64_t path) -> int:
    """The key that says "a filter ends at this path"."""
    return extend(path, END_TOKEN)


def hash_key(uint64_t path) -> int:
    """The key that says "a filter goes on with `#` below this path"."""
    return extend(path, HASH_TOKEN)


def hash_bytes(bytes data not None) -> int:
    """64 stable bits of any bytes."""
    return hash_level(data, len(data))
