"""Python's door to the C checks in scan.pxd: for tests, and for whoever has bytes and no pointer."""

from cpython.bytes cimport PyBytes_AS_STRING


def read_varint_at(bytes data, Py_ssize_t offset=0):
    """(bytes used, value); bytes used is 0 where more are needed and -1 where they are malformed."""
    cdef unsigned int value = 0
    if not 0 <= offset <= len(data):
        raise IndexError(f"offset {offset} is outside of {len(data)} bytes")
    cdef int used = read_varint(<const unsigned char*>PyBytes_AS_STRING(data) + offset, len(data) - offset, &value)
    return used, value


def varint_bytes(unsigned int value):
    """The fewest bytes that hold a value below 2**28."""
    cdef unsigned char encoded[4]
    if value > 0x0FFFFFFF:
        raise OverflowError(f"{value} doesn't fit a variable byte integer")
    cdef int written = write_varint(encoded, value)
    assert written == varint_size(value)
    return encoded[:written]


def is_valid_string(bytes data):
    """Whether these are the bytes of an MQTT string."""
    return utf8_valid(<const unsigned char*>PyBytes_AS_STRING(data), len(data))


def scan_publish_properties(bytes block):
    """(0 or a reason code, what a PublishScan says as a dict) for a PUBLISH's properties without their length."""
    cdef PublishScan scan
    cdef int reason = check_publish_properties(<const unsigned char*>PyBytes_AS_STRING(block), len(block), &scan)
    return reason, scan
