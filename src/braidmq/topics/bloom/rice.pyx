"""Sorted positions in few bytes: Golomb-Rice coded gaps.

A gap is written as its upper part in unary (ones, closed by a zero) and its lower `width` bits as they are.
For n positions spread evenly over m bits the best width is floor(log2(0.69 m / n)), and a gap takes about
width + 1.5 bits. Decoding never trusts its input: every gap is checked against the end of the data and the
size of the filter, and memory grows only with what was really decoded.
"""

from libc.stdint cimport uint64_t

cdef enum:
    WIDTH_MAX = 32


def rice_width(Py_ssize_t count, uint64_t limit) -> int:
    """The best number of literal bits for `count` positions below `limit`."""
    return max(0, min(WIDTH_MAX, int(0.69 * limit / max(1, count)).bit_length() - 1))


def encode_positions(positions, int width) -> bytes:
    """Strictly ascending positions as bytes; the last byte is filled up with zeros."""
    cdef bytearray data = bytearray()
    cdef uint64_t position, gap, expected = 0, pending = 0
    cdef int pending_bits = 0, shift
    for position in positions:
        if position < expected:
            raise ValueError("positions must ascend")
        gap = position - expected
        expected = position + 1
        for _ in range(<Py_ssize_t>(gap >> width)):
            pending = pending << 1 | 1
            pending_bits += 1
            if pending_bits == 8:
                data.append(pending)
                pending = pending_bits = 0
        for shift in range(width, -1, -1):
            # First the zero that closes the unary part, then the lower bits.
            pending = pending << 1 | (0 if shift == width else (gap >> shift) & 1)
            pending_bits += 1
            if pending_bits == 8:
                data.append(pending)
                pending = pending_bits = 0
    if pending_bits:
        data.append(pending << (8 - pending_bits))
    return bytes(data)


def decode_positions(
    const unsigned char[::1] data not None, Py_ssize_t count, int width, uint64_t limit
) -> list:
    """`count` positions below `limit`; ValueError when the data holds anything else."""
    cdef list positions = []
    cdef Py_ssize_t cursor = 0, available = data.shape[0] * 8
    cdef uint64_t high, low, position, expected = 0
    cdef int _shift
    if not 0 <= width <= WIDTH_MAX:
        raise ValueError(f"a width of {width} bits is impossible")
    for _ in range(count):
        high = low = 0
        while cursor < available and (data[cursor >> 3] >> (7 - (cursor & 7))) & 1:
            high += 1
            cursor += 1
        cursor += 1
        if cursor + width > available:
            raise ValueError(f"{count} positions were promised, the data ends after {len(positions)}")
        for _shift in range(width):
            low = low << 1 | ((data[cursor >> 3] >> (7 - (cursor & 7))) & 1)
            cursor += 1
        position = expected + (high << width | low)
        if position >= limit:
            raise ValueError(f"position {position} lies outside a filter of {limit} bits")
        positions.append(position)
        expected = position + 1
    if (cursor + 7) >> 3 != data.shape[0]:
        raise ValueError(f"{data.shape[0] - ((cursor + 7) >> 3)} bytes follow the last position")
    return positions
