"""SipHash-1-3 for Python, and the reading of its key. The hash itself is inline in siphash.pxd."""


cdef SipKey sip_key(bytes seed) except *:
    cdef SipKey key
    if len(seed) != 16:
        raise ValueError(f"a hash seed has 16 bytes, not {len(seed)}")
    memcpy(&key.k0, <const uint8_t*>seed, 8)
    memcpy(&key.k1, <const uint8_t*>seed + 8, 8)
    return key


def siphash13(bytes data not None, bytes seed not None):
    """The 64-bit hash of `data` under the 16-byte key `seed`."""
    return siphash(data, len(data), sip_key(seed))
