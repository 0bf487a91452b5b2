"""The arithmetic of keys, inlined into every module that searches.

A key is 64 bits and names a path of levels: key(root) = seed, key(P/level) = extend(key(P), hash(level)).
Wildcards and the end of a filter are typed tokens, never text, so that no topic can spell them. One multiply
an edge.
"""

from libc.stdint cimport uint64_t

cdef extern from *:
    """
    #ifndef BRAIDMQ_BLOOM_HASHING
    #define BRAIDMQ_BLOOM_HASHING
    #include <stdint.h>
    #include <string.h>

    /* Upper half of the 128-bit product. */
    static inline uint64_t bq_high64(uint64_t a, uint64_t b) {
    #ifdef __SIZEOF_INT128__
        return (uint64_t)(((unsigned __int128)a * b) >> 64);
    #else
        uint64_t ah = a >> 32, al = (uint32_t)a, bh = b >> 32, bl = (uint32_t)b;
        uint64_t mid = ah * bl + ((al * bl) >> 32), cross = al * bh + (uint32_t)mid;
        return ah * bh + (mid >> 32) + (cross >> 32);
    #endif
    }

    /* Both halves of the product, folded. */
    static inline uint64_t bq_mum(uint64_t a, uint64_t b) {
        return a * b ^ bq_high64(a, b);
    }

    /* Little-endian loads and stores, so that a key is the same number on every machine. */
    static inline uint64_t bq_load64(const unsigned char *p) {
        uint64_t word;
        memcpy(&word, p, 8);
    #if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        word = __builtin_bswap64(word);
    #endif
        return word;
    }

    static inline void bq_store64(unsigned char *p, uint64_t word) {
    #if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        word = __builtin_bswap64(word);
    #endif
        memcpy(p, &word, 8);
    }

    static inline uint64_t bq_load32(const unsigned char *p) {
        return (uint64_t)p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 | (uint64_t)p[3] << 24;
    }

    #if defined(__GNUC__) || defined(__clang__)
    #define bq_prefetch(address) __builtin_prefetch(address)
    #define bq_trailing_zeros(word) __builtin_ctzll(word)
    #else
    static inline int bq_trailing_zeros(uint64_t word) {
        int count = 0;
        while (!((word >> count) & 1)) count++;
        return count;
    }
    #define bq_prefetch(address) ((void)(address))
    #endif
    #endif
    """
    uint64_t high64 "bq_high64"(uint64_t a, uint64_t b) noexcept nogil
    uint64_t mum "bq_mum"(uint64_t a, uint64_t b) noexcept nogil
    uint64_t load64 "bq_load64"(const unsigned char* p) noexcept nogil
    void store64 "bq_store64"(unsigned char* p, uint64_t word) noexcept nogil
    uint64_t load32 "bq_load32"(const unsigned char* p) noexcept nogil
    int trailing_zeros "bq_trailing_zeros"(uint64_t word) noexcept nogil
    void prefetch "bq_prefetch"(const void* address) noexcept nogil

cdef enum:
    DEPTH_MAX = 128     # levels that are told apart; what lies deeper is answered with "maybe"
    MASK_DEPTH_MAX = 63  # depths from here on share the last bit of a depth mask
    SLICES_PER_MIX = 7  # 9-bit slices in one 64-bit mix

cdef extern from *:
    """
    #ifndef BRAIDMQ_BLOOM_TOKENS
    #define BRAIDMQ_BLOOM_TOKENS
    #define BQ_C1 UINT64_C(0x9E3779B97F4A7C15)
    #define BQ_C2 UINT64_C(0xBF58476D1CE4E5B9)
    #define BQ_C3 UINT64_C(0x94D049BB133111EB)
    #define BQ_PLUS UINT64_C(0x243F6A8885A308D3)
    #define BQ_HASH UINT64_C(0x13198A2E03707344)
    #define BQ_END UINT64_C(0xA4093822299F31D0)
    #endif
    """
    const uint64_t C1 "BQ_C1"
    const uint64_t C2 "BQ_C2"
    const uint64_t C3 "BQ_C3"
    const uint64_t PLUS_TOKEN "BQ_PLUS"
    const uint64_t HASH_TOKEN "BQ_HASH"
    const uint64_t END_TOKEN "BQ_END"


cdef inline uint64_t hash_level(const unsigned char* level, Py_ssize_t length) noexcept nogil:
    """64 bits of one level, 16 bytes a multiply. Unseeded: the seed enters at the root of the chain."""
    cdef uint64_t state = C3 ^ (<uint64_t>length * C1)
    cdef uint64_t low, high
    while length > 16:
        state = mum(load64(level) ^ C1, load64(level + 8) ^ state)
        level += 16
        length -= 16
    if length >= 8:
        low = load64(level)
        high = load64(level + length - 8)
    elif length >= 4:
        low = load32(level)
        high = load32(level + length - 4)
    elif length > 0:
        low = (<uint64_t>level[0] << 16) | (<uint64_t>level[length >> 1] << 8) | level[length - 1]
        high = 0
    else:
        low = 0
        high = 0
    return mum(low ^ C1, high ^ state)


cdef inline uint64_t extend(uint64_t key, uint64_t token) noexcept nogil:
    return mum(key ^ token ^ C1, C2) + token


cdef inline uint64_t first_mix(uint64_t key) noexcept nogil:
    """Seven 9-bit positions inside a block; second_mix of it gives seven more, independent of the block's own
    bits.
    """
    return mum(key ^ C3, C1)


cdef inline uint64_t second_mix(uint64_t mix) noexcept nogil:
    return mum(mix, C2)


cdef inline int smaller(int a, int b) noexcept nogil:
    return a if a < b else b


cdef inline uint64_t depth_bit(int depth) noexcept nogil:
    return (<uint64_t>1) << smaller(depth, MASK_DEPTH_MAX)


cdef enum KeyKind:
    PREFIX_KEY = 0      # a filter goes on below this path
    END_KEY = 1         # a filter ends exactly here
    HASH_KEY = 2        # a filter ends here with `#`
    PARENT_END_KEY = 3  # `P/#` also matches P [MQTT-4.7.1-2], so the end of P is stored with it
    CUT_KEY = 4         # the prefix after which a filter of more than DEPTH_MAX levels is cut off

cdef struct FilterKey:
    uint64_t key
    int kind            # KeyKind
    int depth           # levels before the token: 0 is the root

# A filter of DEPTH_MAX levels yields that many prefixes, a terminal and a parent's end.
cdef enum:
    FILTER_KEYS_MAX = 130

cdef struct FilterKeys:
    FilterKey items[FILTER_KEYS_MAX]
    int count
    uint64_t plus_depths    # bit d: level d is `+`
    uint64_t hash_depths    # bit d: `#` stands after d levels
    uint64_t end_depths     # bit d: the filter (or the parent of its `#`) ends after d levels

cdef void collect_keys(
    uint64_t seed, const unsigned char* filter, Py_ssize_t length, FilterKeys* keys
) noexcept nogil
