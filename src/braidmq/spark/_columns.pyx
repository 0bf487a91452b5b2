"""Received messages into the buffers of Arrow columns, without an object per message.

A `ColumnBuilder` takes batches of the client and keeps, for all of them together, one growing buffer per Arrow
buffer; `buffers()` hands them over. Messages without properties are the rule, so the columns that only
properties fill begin to exist with the first message that has any.

Invariant: after `add`, every column that exists has exactly `rows` entries. Cost: some tens of nanoseconds and
one copy of its bytes per message.
"""

cimport cython
from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcmp, memcpy, memset

from braidmq.client._batch cimport MessageBatch, Record
from braidmq.wire.scan cimport (
    CONTENT_TYPE,
    CORRELATION_DATA,
    MESSAGE_EXPIRY,
    PAYLOAD_FORMAT,
    RESPONSE_TOPIC,
    SUBSCRIPTION_IDENTIFIER,
    TOPIC_ALIAS,
    USER_PROPERTY,
    read_varint,
)

cdef enum:
    CAPACITY_MIN_BYTES = 4096
    COLUMN_BYTES_MAX = 0x7FFFFFFF   # Arrow's offsets have 32 bits
    ROW_COST_BYTES = 27             # what a row has beside topic, payload and properties
    TIME_DIGITS_MAX = 15            # milliseconds that still fit into Spark's microseconds
    NUMBER_DIGITS_MAX = 18          # of a delivery number, so that it fits into 64 bits with a sign
    DELIVERY_BYTES = 16

cdef const unsigned char* DELIVERY = b"braidmq-delivery"  # the property with the number of a delivery


@cython.final
cdef class Buffer:
    """Bytes that grow; read by others through the buffer protocol, and no longer changed then."""

    cdef unsigned char* data
    cdef Py_ssize_t used
    cdef Py_ssize_t capacity

    def __dealloc__(self):
        free(self.data)

    def __len__(self):
        return self.used

    def __getbuffer__(self, Py_buffer* view, int flags):
        self.extend(0)  # Arrow takes no buffer without an address, however empty
        PyBuffer_FillInfo(view, self, self.data, self.used, 1, flags)

    cdef inline unsigned char* extend(self, Py_ssize_t size) except NULL:
        """Room for `size` more bytes."""
        if self.used + size > self.capacity or self.data == NULL:
            self.grow(size)
        self.used += size
        return self.data + self.used - size

    cdef int grow(self, Py_ssize_t size) except -1:
        cdef Py_ssize_t capacity = max(self.used + size, self.capacity * 2, <Py_ssize_t>CAPACITY_MIN_BYTES)
        cdef void* moved = realloc(self.data, capacity)
        if moved == NULL:
            raise MemoryError
        self.data = <unsigned char*>moved
        self.capacity = capacity
        return 0

    cdef inline int add_int32(self, Py_ssize_t value) except -1:
        (<int32_t*>self.extend(4))[0] = <int32_t>value
        return 0

    cdef inline int add_int64(self, int64_t value) except -1:
        (<int64_t*>self.extend(8))[0] = value
        return 0

    cdef inline int set_bit(self, Py_ssize_t at, bint value) except -1:
        """Appends the bit number `at`."""
        if at & 7 == 0:
            self.extend(1)[0] = 0
        if value:
            self.data[at >> 3] |= <unsigned char>(1 << (at & 7))
        return 0


@cython.final
cdef class Strings:
    """A column of strings or bytes: offsets, values and which rows have one."""

    cdef Buffer offsets
    cdef Buffer values
    cdef Buffer valid
    cdef Py_ssize_t rows
    cdef bint nullable

    def __cinit__(self, bint nullable):
        self.offsets = Buffer()
        self.values = Buffer()
        self.valid = Buffer()
        self.nullable = nullable
        self.offsets.add_int32(0)

    cdef inline int add(self, const unsigned char* text, Py_ssize_t size) except -1:
        if self.values.used + size > COLUMN_BYTES_MAX:
            raise OverflowError("a segment has more bytes than 32-bit offsets can name")
        memcpy(self.values.extend(size), text, size)
        return self.end_row(True)

    cdef inline int end_row(self, bint valid) except -1:
        self.offsets.add_int32(self.values.used)
        if self.nullable:
            self.valid.set_bit(self.rows, valid)
        self.rows += 1
        return 0

    cdef inline int add_null(self) except -1:
        return self.end_row(False)

    cdef int copy(self, const unsigned char* field) except -1:
        """A string of MQTT: two bytes of length in front."""
        return self.add(field + 2, field_bytes(field))

    cdef tuple buffers(self):
        return self.valid if self.nullable else None, self.offsets, self.values


cdef inline Py_ssize_t field_bytes(const unsigned char* field) noexcept:
    return <Py_ssize_t>field[0] << 8 | field[1]


# Where the properties of one message lie; NULL: it has none of that kind.
cdef struct Found:
    const unsigned char* content_type
    const unsigned char* response_topic
    const unsigned char* correlation_data
    bint has_time
    int64_t published_at_us


@cython.final
cdef class PropertyColumns:
    """The columns that come from MQTT 5 properties."""

    cdef Strings content_type
    cdef Strings response_topic
    cdef Strings correlation_data
    cdef Buffer published_at
    cdef Buffer published_at_valid
    cdef Buffer map_offsets
    cdef Strings keys
    cdef Strings items
    cdef Py_ssize_t rows

    def __cinit__(self, Py_ssize_t rows_before):
        self.content_type = Strings(True)
        self.response_topic = Strings(True)
        self.correlation_data = Strings(True)
        self.published_at = Buffer()
        self.published_at_valid = Buffer()
        self.map_offsets = Buffer()
        self.keys = Strings(False)
        self.items = Strings(False)
        self.map_offsets.add_int32(0)
        for _ in range(rows_before):
            self.add(NULL, 0)

    cdef int add(self, const unsigned char* properties, Py_ssize_t size) except -1:
        """One message; the properties without their length in front, found right by the client."""
        cdef Found found
        memset(&found, 0, sizeof(found))
        self.walk(properties, size, &found)
        add_optional(self.content_type, found.content_type)
        add_optional(self.response_topic, found.response_topic)
        add_optional(self.correlation_data, found.correlation_data)
        self.published_at.add_int64(found.published_at_us)
        self.published_at_valid.set_bit(self.rows, found.has_time)
        self.map_offsets.add_int32(self.keys.rows)
        self.rows += 1
        return 0

    cdef int walk(self, const unsigned char* properties, Py_ssize_t size, Found* found) except -1:
        cdef const unsigned char* cursor = properties
        cdef const unsigned char* end = properties + size
        cdef const unsigned char* field
        cdef Py_ssize_t first_key = self.keys.rows
        cdef uint8_t identifier
        while cursor < end:
            identifier = cursor[0]
            field = cursor + 1
            if identifier == CONTENT_TYPE:
                found.content_type = field
            elif identifier == RESPONSE_TOPIC:
                found.response_topic = field
            elif identifier == CORRELATION_DATA:
                found.correlation_data = field
            elif identifier == USER_PROPERTY:
                self.add_pair(field, field + 2 + field_bytes(field), first_key, found)
            cursor = behind(cursor, end)
        return 0

    cdef int add_pair(self, const unsigned char* key, const unsigned char* item, Py_ssize_t first_key,
                      Found* found) except -1:
        if is_delivery(key) or self.has_key(key, first_key):
            return 0
        self.keys.copy(key)
        self.items.copy(item)
        if field_bytes(key) == 2 and key[2] == c't' and key[3] == c's':
            found.has_time = read_time(item + 2, field_bytes(item), &found.published_at_us)
        return 0

    cdef bint has_key(self, const unsigned char* key, Py_ssize_t first_key) noexcept:
        """Whether this message had the name before: a map of Spark has every key once."""
        cdef const int32_t* offsets = <const int32_t*>self.keys.offsets.data
        cdef Py_ssize_t index, size = field_bytes(key)
        for index in range(first_key, self.keys.rows):
            if offsets[index + 1] - offsets[index] == size and memcmp(
                self.keys.values.data + offsets[index], key + 2, size
            ) == 0:
                return True
        return False


cdef inline int add_optional(Strings column, const unsigned char* field) except -1:
    return column.add_null() if field == NULL else column.copy(field)


cdef inline bint is_delivery(const unsigned char* key) noexcept:
    """Whether a property is the broker's, about this delivery and not of the message."""
    return field_bytes(key) == DELIVERY_BYTES and memcmp(key + 2, DELIVERY, DELIVERY_BYTES) == 0


cdef bint read_digits(const unsigned char* text, Py_ssize_t size, Py_ssize_t digits_max, int64_t* number) noexcept:
    cdef int64_t value = 0
    cdef Py_ssize_t index
    if not 0 < size <= digits_max:
        return False
    for index in range(size):
        if not c'0' <= text[index] <= c'9':
            return False
        value = value * 10 + (text[index] - c'0')
    number[0] = value
    return True


cdef bint read_time(const unsigned char* text, Py_ssize_t size, int64_t* time_us) noexcept:
    """Milliseconds since 1970, as digits."""
    cdef int64_t value = 0
    if not read_digits(text, size, TIME_DIGITS_MAX, &value):
        return False
    time_us[0] = value * 1000
    return True


cdef const unsigned char* behind(const unsigned char* property, const unsigned char* end) except NULL:
    """Where the next property begins; the client has found them right."""
    cdef uint8_t identifier = property[0]
    cdef const unsigned char* field = property + 1
    cdef unsigned int number = 0
    if identifier == PAYLOAD_FORMAT:
        return field + 1
    if identifier == MESSAGE_EXPIRY:
        return field + 4
    if identifier == TOPIC_ALIAS:
        return field + 2
    if identifier == SUBSCRIPTION_IDENTIFIER:
        return field + max(1, read_varint(field, end - field, &number))
    if identifier not in (CONTENT_TYPE, RESPONSE_TOPIC, CORRELATION_DATA, USER_PROPERTY):
        raise ValueError(f"a PUBLISH has no property 0x{identifier:02X}")
    field += 2 + field_bytes(field)
    return field + 2 + field_bytes(field) if identifier == USER_PROPERTY else field


cdef int64_t delivery_of(const unsigned char* block, Py_ssize_t size) except -1:
    """The number of a delivery, from its properties; 0 if it has none."""
    cdef unsigned int length = 0
    cdef int64_t number = 0
    cdef const unsigned char* end = block + size
    cdef const unsigned char* item
    if size <= 1:
        return 0
    block += read_varint(block, size, &length)
    while block < end:
        if block[0] == USER_PROPERTY and is_delivery(block + 1):
            item = block + 1 + 2 + DELIVERY_BYTES
            read_digits(item + 2, field_bytes(item), NUMBER_DIGITS_MAX, &number)
            return number
        block = behind(block, end)
    return 0


cdef inline uint64_t mixed(uint64_t digest, uint64_t word) noexcept:
    digest = (digest ^ word) * <uint64_t>0x9E3779B97F4A7C15
    return digest ^ digest >> 32


cdef uint64_t digest_of(uint64_t digest, const unsigned char* data, Py_ssize_t size) noexcept:
    """A quick checksum; it tells messages apart that were not made to look alike."""
    cdef uint64_t word
    cdef Py_ssize_t offset = 0
    digest = mixed(digest, <uint64_t>size)
    while offset + 8 <= size:
        memcpy(&word, data + offset, 8)
        digest = mixed(digest, word)
        offset += 8
    if offset < size:
        word = 0
        memcpy(&word, data + offset, size - offset)
        digest = mixed(digest, word)
    return digest


def identify(MessageBatch batch):
    """(flags as uint8, packet identifiers as uint16, digests as uint64, delivery numbers as int64).

    It is what a repeat is known by.
    """
    cdef Py_ssize_t count = batch.stop - batch.start
    cdef Buffer flags = Buffer(), packet_ids = Buffer(), digests = Buffer(), deliveries = Buffer()
    cdef uint8_t* flag = <uint8_t*>flags.extend(count)
    cdef uint16_t* packet_id = <uint16_t*>packet_ids.extend(count * 2)
    cdef uint64_t* digest = <uint64_t*>digests.extend(count * 8)
    cdef int64_t* delivery = <int64_t*>deliveries.extend(count * 8)
    cdef const unsigned char* data = batch.storage.data
    cdef const Record* record = &batch.storage.records[batch.start]
    cdef Py_ssize_t index
    for index in range(count):
        flag[index] = record.flags
        packet_id[index] = record.packet_id
        digest[index] = digest_of(
            digest_of(0, data + record.topic_at, record.topic_bytes), data + record.payload_at, record.payload_bytes
        )
        delivery[index] = delivery_of(data + record.payload_at - record.properties_bytes, record.properties_bytes)
        record += 1
    return flags, packet_ids, digests, deliveries


@cython.final
cdef class ColumnBuilder:
    cdef readonly Py_ssize_t rows
    cdef Strings topic
    cdef Strings payload
    cdef Buffer flags
    cdef Buffer received_at
    cdef Buffer packet_ids
    cdef Buffer digests
    cdef PropertyColumns properties

    def __cinit__(self):
        self.topic = Strings(False)
        self.payload = Strings(False)
        self.flags = Buffer()
        self.received_at = Buffer()
        self.packet_ids = Buffer()
        self.digests = Buffer()

    @property
    def size_bytes(self):
        """About what the segment will have."""
        cdef Py_ssize_t size = self.topic.values.used + self.payload.values.used + self.rows * ROW_COST_BYTES
        if self.properties is not None:
            size += self.properties.keys.values.used + self.properties.items.values.used
            size += self.properties.correlation_data.values.used
        return size

    def add(self, MessageBatch batch, int64_t received_at_us, tuple identity, const uint8_t[::1] repeats=None):
        """The messages of a batch, with what `identify` said; without those that `repeats` marks."""
        cdef const uint8_t[::1] flags = identity[0]
        cdef const uint8_t[::1] packet_ids = identity[1]
        cdef const uint8_t[::1] digests = identity[2]
        cdef Py_ssize_t index, count = batch.stop - batch.start
        cdef const unsigned char* data = batch.storage.data
        cdef const Record* record
        for index in range(count):
            if repeats is not None and repeats[index]:
                continue
            record = &batch.storage.records[batch.start + index]
            self.topic.add(data + record.topic_at, record.topic_bytes)
            self.payload.add(data + record.payload_at, record.payload_bytes)
            self.flags.extend(1)[0] = flags[index]
            self.received_at.add_int64(received_at_us)
            memcpy(self.packet_ids.extend(2), &packet_ids[2 * index], 2)
            memcpy(self.digests.extend(8), &digests[8 * index], 8)
            self.add_properties(data + record.payload_at - record.properties_bytes, record.properties_bytes)
            self.rows += 1

    cdef int add_properties(self, const unsigned char* block, Py_ssize_t size) except -1:
        cdef unsigned int length = 0
        cdef int used
        if size <= 1:
            return 0 if self.properties is None else self.properties.add(NULL, 0)
        if self.properties is None:
            self.properties = PropertyColumns(self.rows)
        used = read_varint(block, size, &length)
        return self.properties.add(block + used, size - used)

    def buffers(self):
        """Column -> its Arrow buffers; the map has those of its children. The builder is of no use afterwards."""
        cdef PropertyColumns found = self.properties
        columns = {
            "topic": self.topic.buffers(),
            "payload": self.payload.buffers(),
            "flags": (None, self.flags),
            "received_at": (None, self.received_at),
            "packet_id": (None, self.packet_ids),
            "digest": (None, self.digests),
        }
        if found is not None:
            columns["published_at"] = (found.published_at_valid, found.published_at)
            columns["content_type"] = found.content_type.buffers()
            columns["response_topic"] = found.response_topic.buffers()
            columns["correlation_data"] = found.correlation_data.buffers()
            columns["user_properties"] = (None, found.map_offsets)
            columns["keys"] = found.keys.buffers()
            columns["items"] = found.items.buffers()
        return columns
