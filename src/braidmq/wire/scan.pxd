# The checks that the fast lane needs, in C, with bodies here so that they inline into the modules that cimport
# them. No function allocates, raises or needs the GIL; each costs time linear in the bytes it is given and
# never reads past them. braidmq.wire.properties says the same in Python, and a test shows that they agree.

from libc.stdint cimport uint64_t
from libc.string cimport memchr, memcpy, memset


cdef enum:
    ACCEPTED = 0
    MALFORMED_PACKET = 0x81
    PROTOCOL_ERROR = 0x82
    TOPIC_ALIAS_INVALID = 0x94

cdef enum:
    VARINT_INCOMPLETE = 0
    VARINT_MALFORMED = -1

cdef enum:
    PAYLOAD_FORMAT = 0x01
    MESSAGE_EXPIRY = 0x02
    CONTENT_TYPE = 0x03
    RESPONSE_TOPIC = 0x08
    CORRELATION_DATA = 0x09
    SUBSCRIPTION_IDENTIFIER = 0x0B
    TOPIC_ALIAS = 0x23
    USER_PROPERTY = 0x26
    IDENTIFIER_MAX = 0x26


# What a PUBLISH's property block says, as far as routing it depends on that. Offsets count from the first byte
# after the property length.
ctypedef struct PublishScan:
    bint has_topic_alias
    unsigned int topic_alias            # 1..65535 when present
    Py_ssize_t topic_alias_offset       # of its identifier byte; the property is 3 bytes long
    bint has_message_expiry
    unsigned int message_expiry_s
    Py_ssize_t message_expiry_offset    # of the 4 bytes of its value, so that they can be counted down in place
    int payload_format                  # 0 or 1; -1 when absent
    unsigned int subscription_identifier_count
    unsigned int user_property_count


cdef inline int varint_size(unsigned int value) noexcept nogil:
    return 1 if value < 0x80 else 2 if value < 0x4000 else 3 if value < 0x200000 else 4


# Bytes used (1..4), VARINT_INCOMPLETE if `available` bytes are not enough, VARINT_MALFORMED if they are wrong.
cdef inline int read_varint(const unsigned char* p, Py_ssize_t available, unsigned int* value) noexcept nogil:
    cdef int index
    cdef unsigned int total = 0
    for index in range(4):
        if index >= available:
            return VARINT_INCOMPLETE
        total |= <unsigned int>(p[index] & 0x7F) << (7 * index)
        if p[index] < 0x80:
            if p[index] == 0 and index > 0:
                return VARINT_MALFORMED  # [MQTT-1.5.5-1]: the fewest bytes that do
            value[0] = total
            return index + 1
    return VARINT_MALFORMED


# Bytes written (1..4). The caller keeps `value` below 2**28 and room for varint_size(value) bytes.
cdef inline int write_varint(unsigned char* p, unsigned int value) noexcept nogil:
    cdef int index = 0
    while value >= 0x80:
        p[index] = <unsigned char>(value & 0x7F | 0x80)
        value >>= 7
        index += 1
    p[index] = <unsigned char>value
    return index + 1


# Bytes of the well-formed character at `p` that starts with a byte over 0x7F; 0 if it is ill-formed. The ranges
# of the second byte keep out over-long forms, surrogates and what lies beyond U+10FFFF.
cdef inline int utf8_sequence_bytes(const unsigned char* p, Py_ssize_t n) noexcept nogil:
    cdef unsigned char lead = p[0]
    cdef unsigned char low = 0x80
    cdef unsigned char high = 0xBF
    cdef int size, index
    if lead < 0xC2 or lead > 0xF4:
        return 0
    size = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
    if size > n:
        return 0
    if lead == 0xE0:
        low = 0xA0
    elif lead == 0xED:
        high = 0x9F
    elif lead == 0xF0:
        low = 0x90
    elif lead == 0xF4:
        high = 0x8F
    if p[1] < low or p[1] > high:
        return 0
    for index in range(2, size):
        if p[index] & 0xC0 != 0x80:
            return 0
    return size


# MQTT's strings: well-formed UTF-8 without U+0000.  [MQTT-1.5.4-1] [MQTT-1.5.4-2]
cdef inline bint utf8_valid(const unsigned char* p, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t offset = 0
    cdef uint64_t word
    cdef int size
    while offset < n:
        if n - offset >= 8:
            memcpy(&word, p + offset, 8)
            # The top bit of some byte is set if that byte is not ASCII, or (after the subtraction) is 0.
            if (word | (word - <uint64_t>0x0101010101010101)) & <uint64_t>0x8080808080808080 == 0:
                offset += 8
                continue
        if p[offset] == 0:
            return False
        if p[offset] < 0x80:
            offset += 1
            continue
        size = utf8_sequence_bytes(p + offset, n - offset)
        if size == 0:
            return False
        offset += size
    return True


# Offset after the binary field at `offset`, or -1 if it runs over the end.
cdef inline Py_ssize_t binary_end(const unsigned char* p, Py_ssize_t n, Py_ssize_t offset) noexcept nogil:
    cdef Py_ssize_t end
    if offset + 2 > n:
        return -1
    end = offset + 2 + (<Py_ssize_t>p[offset] << 8 | p[offset + 1])
    return end if end <= n else -1


# Offset after the string at `offset`, or -1 if it runs over the end or is no MQTT string.
cdef inline Py_ssize_t string_end(const unsigned char* p, Py_ssize_t n, Py_ssize_t offset) noexcept nogil:
    cdef Py_ssize_t end = binary_end(p, n, offset)
    if end < 0 or not utf8_valid(p + offset + 2, end - offset - 2):
        return -1
    return end


cdef inline bint has_wildcard(const unsigned char* p, Py_ssize_t n) noexcept nogil:
    return n > 0 and (memchr(p, c'+', n) != NULL or memchr(p, c'#', n) != NULL)


# Reads the value of one property at `cursor[0]` and moves the cursor after it; 0 or a reason code.
cdef inline int scan_property(
    int identifier, const unsigned char* p, Py_ssize_t n, Py_ssize_t* cursor, PublishScan* out
) noexcept nogil:
    cdef Py_ssize_t offset = cursor[0]
    cdef Py_ssize_t end = -1
    cdef unsigned int value = 0
    cdef int used
    if identifier == USER_PROPERTY:
        end = string_end(p, n, offset)
        if end >= 0:
            end = string_end(p, n, end)
        out.user_property_count += 1
    elif identifier == MESSAGE_EXPIRY:
        if offset + 4 <= n:
            end = offset + 4
            out.has_message_expiry = True
            out.message_expiry_offset = offset
            out.message_expiry_s = (
                <unsigned int>p[offset] << 24 | <unsigned int>p[offset + 1] << 16
                | <unsigned int>p[offset + 2] << 8 | p[offset + 3]
            )
    elif identifier == TOPIC_ALIAS:
        if offset + 2 <= n:
            end = offset + 2
            out.has_topic_alias = True
            out.topic_alias_offset = offset - 1
            out.topic_alias = <unsigned int>p[offset] << 8 | p[offset + 1]
            if out.topic_alias == 0:
                return TOPIC_ALIAS_INVALID  # [MQTT-3.3.2-8]
    elif identifier == PAYLOAD_FORMAT:
        if offset < n:
            end = offset + 1
            out.payload_format = p[offset]
            if p[offset] > 1:
                return PROTOCOL_ERROR
    elif identifier == CONTENT_TYPE:
        end = string_end(p, n, offset)
    elif identifier == RESPONSE_TOPIC:
        end = string_end(p, n, offset)
        if end >= 0 and (end == offset + 2 or has_wildcard(p + offset + 2, end - offset - 2)):
            return PROTOCOL_ERROR  # [MQTT-3.3.2-14] [MQTT-4.7.3-1]
    elif identifier == CORRELATION_DATA:
        end = binary_end(p, n, offset)
    elif identifier == SUBSCRIPTION_IDENTIFIER:
        used = read_varint(p + offset, n - offset, &value)
        if used > 0:
            end = offset + used
            out.subscription_identifier_count += 1
            if value == 0:
                return PROTOCOL_ERROR
    if end < 0:
        return MALFORMED_PACKET
    cursor[0] = end
    return ACCEPTED


cdef inline void clear_scan(PublishScan* out) noexcept nogil:
    memset(out, 0, sizeof(PublishScan))
    out.payload_format = -1


# Checks the property block of a PUBLISH (`n` bytes after the property length) and says what is in it. Gives 0,
# or the reason code that Python's decode_properties would raise; then `out` is what had been read until there.
cdef inline int check_publish_properties(
    const unsigned char* p, Py_ssize_t n, PublishScan* out
) noexcept nogil:
    cdef uint64_t seen = 0
    cdef uint64_t bit
    cdef Py_ssize_t cursor = 0
    cdef int identifier, reason
    clear_scan(out)
    while cursor < n:
        identifier = p[cursor]
        if identifier > IDENTIFIER_MAX:
            return MALFORMED_PACKET
        bit = <uint64_t>1 << identifier
        if seen & bit and identifier != USER_PROPERTY and identifier != SUBSCRIPTION_IDENTIFIER:
            return PROTOCOL_ERROR
        seen |= bit
        cursor += 1
        reason = scan_property(identifier, p, n, &cursor, out)
        if reason != ACCEPTED:
            return reason
    return ACCEPTED
