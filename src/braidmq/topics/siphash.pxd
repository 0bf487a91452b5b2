"""SipHash-1-3, inlined where it is used.

A keyed hash: who doesn't know the key can't choose levels that fall together, so no client can make a table
of the broker degenerate. About 10 ns for a level of up to 7 bytes.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy


cdef struct SipKey:
    uint64_t k0
    uint64_t k1


cdef inline uint64_t rotate_left(uint64_t x, int bits) noexcept nogil:
    return (x << bits) | (x >> (64 - bits))


cdef inline void sip_round(uint64_t* v) noexcept nogil:
    v[0] += v[1]
    v[2] += v[3]
    v[1] = rotate_left(v[1], 13) ^ v[0]
    v[3] = rotate_left(v[3], 16) ^ v[2]
    v[0] = rotate_left(v[0], 32)
    v[2] += v[1]
    v[0] += v[3]
    v[1] = rotate_left(v[1], 17) ^ v[2]
    v[3] = rotate_left(v[3], 21) ^ v[0]
    v[2] = rotate_left(v[2], 32)


cdef inline uint64_t read_tail(const uint8_t* data, Py_ssize_t length) noexcept nogil:
    """The last 0..7 bytes as a little-endian number, without a loop and without reading past the end."""
    cdef uint32_t head, tail
    if length >= 4:
        memcpy(&head, data, 4)
        memcpy(&tail, data + length - 4, 4)
        return <uint64_t>head | <uint64_t>tail << (8 * (length - 4))  # the overlap is the same bytes
    if length > 0:
        return (<uint64_t>data[0] | <uint64_t>data[length >> 1] << (8 * (length >> 1))
                | <uint64_t>data[length - 1] << (8 * (length - 1)))
    return 0


cdef inline uint64_t siphash(const uint8_t* data, Py_ssize_t length, SipKey key) noexcept nogil:
    cdef uint64_t[4] v
    cdef uint64_t word
    cdef Py_ssize_t left = length
    v[0] = key.k0 ^ 0x736f6d6570736575ULL
    v[1] = key.k1 ^ 0x646f72616e646f6dULL
    v[2] = key.k0 ^ 0x6c7967656e657261ULL
    v[3] = key.k1 ^ 0x7465646279746573ULL
    while left >= 8:
        memcpy(&word, data, 8)
        v[3] ^= word
        sip_round(v)
        v[0] ^= word
        data += 8
        left -= 8
    word = <uint64_t>(length & 0xff) << 56 | read_tail(data, left)
    v[3] ^= word
    sip_round(v)
    v[0] ^= word
    v[2] ^= 0xff
    sip_round(v)
    sip_round(v)
    sip_round(v)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


cdef SipKey sip_key(bytes seed) except *
