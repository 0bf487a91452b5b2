"""Records <-> bytes. One payload is one turn of the broker: its records one after the other.

Client ids and message bodies are written once a file and referred to by number: NAME and BODY records, which
only exist in the file, define the numbers. So every file can be read by itself, and a message that goes to a
thousand sessions is one BODY and a thousand references of a few bytes. The numbers are written out, so that
after a damaged part a reference to something lost in it is known as such, and never taken for another.

Which body a message already has is known without a table on the hot path: the copies of one publish follow
each other in the journal. Only retained messages and checkpoints, which come back to a message later, keep
one (`shared`).

Cost: about 0.1 µs a record besides copying its bytes. Times are written on the wall clock.
"""

from cpython.buffer cimport PyBUF_READ
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.memoryview cimport PyMemoryView_FromMemory
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.string cimport memcpy

from braidmq.wire.buffer cimport ByteBuffer

from zlib import crc32

import msgspec

from braidmq.store.records import GroupName

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL

cdef enum:
    # As in braidmq.store.records; a test compares them.
    SESSION = 0
    SESSION_ENDED = 1
    AWAY = 2
    SUBSCRIBED = 3
    UNSUBSCRIBED = 4
    QUEUED = 5
    SENT = 6
    RECEIVED = 7
    SETTLED = 8
    INBOUND = 9
    INBOUND_RELEASED = 10
    RETAINED = 11
    WILL = 12
    CHECKPOINTED = 13
    # Of the file alone.
    NAME = 32
    BODY = 33

    VARINT_BYTES_MAX = 10
    FRAME_BYTES = 12
    KEPT_BLOCK_BYTES = 4 * 1024 * 1024

    # Bits of a BODY's flags, above its QoS, and of a QUEUED's.
    RETAIN = 4
    HAS_EXPIRY = 8
    HAS_PUBLISHER = 16
    HAS_PROPERTIES = 32
    HAS_IDENTIFIERS = 8
    HAS_GROUP = 16

KINDS = {
    "SESSION": SESSION, "SESSION_ENDED": SESSION_ENDED, "AWAY": AWAY, "SUBSCRIBED": SUBSCRIBED,
    "UNSUBSCRIBED": UNSUBSCRIBED, "QUEUED": QUEUED, "SENT": SENT, "RECEIVED": RECEIVED, "SETTLED": SETTLED,
    "INBOUND": INBOUND, "INBOUND_RELEASED": INBOUND_RELEASED, "RETAINED": RETAINED, "WILL": WILL,
    "CHECKPOINTED": CHECKPOINTED,
}


cdef class Encoder:
    """Writes turns for one file after another."""

    cdef ByteBuffer out
    cdef double wall_offset_s          # wall clock minus the broker's monotonic clock
    cdef dict names                    # client id -> its number in this file
    cdef str last_name
    cdef unsigned long long last_number
    cdef object last_message           # the newest body in this file is this message's
    cdef unsigned long long bodies     # in this file
    cdef dict shared                   # message -> its number, for those that may be written again in this file

    def __init__(self, double wall_offset_s):
        self.wall_offset_s = wall_offset_s
        self.out = ByteBuffer.__new__(ByteBuffer)
        self.begin_file()

    def begin_file(self):
        """What is encoded from now on goes to a new file."""
        self.names = {}
        self.last_name = None
        self.last_message = None
        self.bodies = 0
        self.shared = {}

    def encode(self, list records not None, bint sharing=False):
        """The records as one payload; `sharing` makes each message be looked up among all in this file."""
        if not records:
            return b""
        self.put_all(records, sharing, 0)
        return self.finished()

    def frame(self, list records not None, bint sharing=False):
        """The same as a whole frame of a log (see braidmq.store.log); nothing for no records."""
        cdef unsigned int length, checksum
        if not records:
            return b""
        self.put_all(records, sharing, FRAME_BYTES)
        length = <unsigned int>(self.out.tail - FRAME_BYTES)
        memcpy(self.out.data, b"TURN", 4)
        memcpy(self.out.data + 4, &length, 4)
        checksum = crc32(PyMemoryView_FromMemory(<char*>self.out.data + FRAME_BYTES, length, PyBUF_READ),
                         crc32(PyMemoryView_FromMemory(<char*>self.out.data + 4, 4, PyBUF_READ)))
        memcpy(self.out.data + 8, &checksum, 4)
        return self.finished()

    cdef int put_all(self, list records, bint sharing, Py_ssize_t head_bytes) except -1:
        """Write the records behind some bytes that are left free."""
        cdef tuple record
        self.out.head = self.out.tail = 0
        if head_bytes:
            self.out.reserve(head_bytes)
            self.out.tail = head_bytes
        for record in records:
            self.put_record(record, sharing)
        return 0

    cdef bytes finished(self):
        """What was written. The block is kept, since growing one in every turn would copy everything again."""
        cdef bytes encoded = PyBytes_FromStringAndSize(<char*>self.out.data, self.out.tail)
        if self.out.capacity > KEPT_BLOCK_BYTES:
            self.out.release()
        return encoded

    # ---- records -------------------------------------------------------------------------------------

    cdef int put_record(self, tuple record, bint sharing) except -1:
        cdef int kind = record[0]
        if kind == QUEUED:
            return self.put_queued(record, sharing)
        if kind == RETAINED:
            return self.put_retained(record)
        if kind == CHECKPOINTED:
            self.put_byte(kind)
            return self.put_varint(record[1])
        self.put_head(kind, record[1])
        if kind == SENT:
            self.put_varint(record[2])
            self.put_varint(record[3])
        elif kind == RECEIVED or kind == SETTLED or kind == INBOUND or kind == INBOUND_RELEASED:
            self.put_varint(record[2])
        elif kind == SESSION:
            self.put_optional_text(record[2])
            self.put_double(record[3])
        elif kind == AWAY:
            self.put_time(record[2])
        elif kind == SUBSCRIBED:
            self.put_text(record[2])
            self.put_byte(record[3])
            self.put_varint(record[4])
        elif kind == UNSUBSCRIBED:
            self.put_text(record[2])
        elif kind == WILL:
            self.put_will(record[2])
            self.put_time(record[3])
            self.put_optional_text(record[4])
        elif kind != SESSION_ENDED:
            raise ValueError(f"no record is of kind {kind}")
        return 0

    cdef int put_queued(self, tuple record, bint sharing) except -1:
        cdef bint retain = record[5]
        cdef bytes identifiers = record[6]
        cdef object group = record[7]
        cdef unsigned long long number = self.body_number(record[3], sharing or retain, sharing)
        self.put_head(QUEUED, record[1])
        self.put_varint(record[2])
        self.put_byte(<int>record[4] | (RETAIN if retain else 0) | (HAS_IDENTIFIERS if identifiers else 0)
                      | (HAS_GROUP if group is not None else 0))
        self.put_varint(number)
        if identifiers:
            self.put_bytes(identifiers)
        if group is not None:
            self.put_text(group.name)
            self.put_bytes(group.filter)
        return 0

    cdef int put_retained(self, tuple record) except -1:
        cdef unsigned long long number = self.body_number(record[2], True, True)
        self.put_byte(RETAINED)
        self.put_bytes(record[1])
        return self.put_varint(number)

    cdef unsigned long long body_number(self, object message, bint may_be_shared, bint shares) except? 0:
        """The number of the message's body, which is written first if this file has none; 0 for no message."""
        if message is None:
            return 0
        if message is not self.last_message:
            if may_be_shared:
                found = self.shared.get(message)
                if found is not None:
                    return found
            self.bodies += 1
            self.put_body(message)
            self.last_message = message
        if shares:
            self.shared[message] = self.bodies
        return self.bodies

    cdef int put_body(self, object message) except -1:
        cdef bytes properties = message.properties
        cdef double expires_at_s = message.expires_at_s
        cdef str publisher = message.publisher
        cdef unsigned long long number = 0
        if publisher is not None:
            number = self.name_number(publisher)
        self.put_byte(BODY)
        self.put_varint(self.bodies)
        self.put_byte(<int>message.qos | (RETAIN if message.retain else 0) | (HAS_EXPIRY if expires_at_s else 0)
                      | (HAS_PUBLISHER if publisher is not None else 0) | (HAS_PROPERTIES if properties else 0))
        self.put_bytes(message.topic)
        self.put_bytes(message.payload)
        if properties:
            self.put_bytes(properties)
        if expires_at_s:
            self.put_time(expires_at_s)
        if publisher is not None:
            self.put_varint(number)
        return 0

    cdef int put_will(self, object will) except -1:
        return self.put_bytes(b"" if will is None else msgspec.msgpack.encode(msgspec.structs.astuple(will)))

    # ---- fields --------------------------------------------------------------------------------------

    cdef int put_head(self, int kind, str client_id) except -1:
        """The kind and whom it is about; a name that this file doesn't know comes first."""
        cdef unsigned long long number = self.name_number(client_id)
        self.put_byte(kind)
        return self.put_varint(number)

    cdef unsigned long long name_number(self, str client_id) except? 0xFFFFFFFFFFFFFFFF:
        if client_id is self.last_name:
            return self.last_number
        found = self.names.get(client_id)
        if found is None:
            found = len(self.names)
            self.put_byte(NAME)
            self.put_varint(found)
            self.put_text(client_id)
            self.names[client_id] = found
        self.last_name = client_id
        self.last_number = found
        return self.last_number

    cdef inline int put_byte(self, int value) except -1:
        self.out.reserve(1)[0] = <unsigned char>value
        self.out.tail += 1
        return 0

    cdef inline int put_varint(self, unsigned long long value) except -1:
        cdef unsigned char* cursor = self.out.reserve(VARINT_BYTES_MAX)
        cdef int size = 0
        while value >= 0x80:
            cursor[size] = <unsigned char>(value & 0x7F | 0x80)
            value >>= 7
            size += 1
        cursor[size] = <unsigned char>value
        self.out.tail += size + 1
        return 0

    cdef inline int put_bytes(self, bytes data) except -1:
        cdef Py_ssize_t size = PyBytes_GET_SIZE(data)
        self.put_varint(size)
        return self.out.append(<const unsigned char*>PyBytes_AS_STRING(data), size)

    cdef int put_text(self, str text) except -1:
        cdef Py_ssize_t size = 0
        cdef const char* data = PyUnicode_AsUTF8AndSize(text, &size)
        self.put_varint(size)
        return self.out.append(<const unsigned char*>data, size)

    cdef int put_optional_text(self, str text) except -1:
        self.put_byte(text is not None)
        return self.put_text(text) if text is not None else 0

    cdef int put_double(self, double value) except -1:
        return self.out.append(<const unsigned char*>&value, sizeof(double))

    cdef int put_time(self, double at_s) except -1:
        """A time of the broker's clock; 0 means none and stays 0."""
        return self.put_double(at_s + self.wall_offset_s if at_s else 0.0)


cdef class Decoder:
    """Reads the turns of one file after another.

    `make_message(topic, payload, qos, retain, properties, expires_at_s, publisher)` and `make_will(*fields)`
    make the objects that the records hold. A lenient decoder leaves out records that refer to what was lost in a
    damaged part; otherwise they are a ValueError.
    """

    cdef object make_message
    cdef object make_will
    cdef double wall_offset_s
    cdef bint lenient
    cdef bint refers_to_lost           # the present record does
    cdef dict names                    # number -> client id
    cdef dict bodies                   # number -> message
    cdef dict topics                   # one object for each topic, however many messages have it
    cdef const unsigned char* cursor
    cdef const unsigned char* end

    def __init__(self, make_message, make_will, double wall_offset_s, bint lenient=False):
        self.lenient = lenient
        self.make_message = make_message
        self.make_will = make_will
        self.wall_offset_s = wall_offset_s
        self.topics = {}
        self.begin_file()

    def begin_file(self):
        """What is decoded from now on comes from the next file."""
        self.names = {}
        self.bodies = {}

    def decode(self, const unsigned char[::1] payload not None):
        """The records of one payload; ValueError if it isn't one."""
        cdef list records = []
        cdef int kind
        if payload.shape[0] == 0:
            return records
        self.cursor = &payload[0]
        self.end = self.cursor + payload.shape[0]
        while self.cursor < self.end:
            kind = self.byte()
            self.refers_to_lost = False
            if kind == BODY:
                number = self.varint()
                self.bodies[number] = self.body()
            elif kind == NAME:
                number = self.varint()
                self.names[number] = self.text()
            else:
                record = self.record(kind)
                if not self.refers_to_lost:
                    records.append(record)
            if self.refers_to_lost and not self.lenient:
                raise ValueError("a record refers to what isn't there")
        return records

    cdef tuple record(self, int kind):
        cdef str client_id
        if kind == RETAINED:
            topic = self.topic()
            return (kind, topic, self.message())
        if kind == CHECKPOINTED:
            return (kind, self.varint())
        client_id = self.name()
        if kind == QUEUED:
            return self.queued(client_id)
        if kind == SENT:
            sequence = self.varint()
            return (kind, client_id, sequence, self.varint())
        if kind == RECEIVED or kind == SETTLED or kind == INBOUND or kind == INBOUND_RELEASED:
            return (kind, client_id, self.varint())
        if kind == SESSION:
            owner = self.optional_text()
            return (kind, client_id, owner, self.double_())
        if kind == SESSION_ENDED:
            return (kind, client_id)
        if kind == AWAY:
            return (kind, client_id, self.time())
        if kind == SUBSCRIBED:
            filter = self.text()
            options = self.byte()
            return (kind, client_id, filter, options, self.varint())
        if kind == UNSUBSCRIBED:
            return (kind, client_id, self.text())
        if kind == WILL:
            will = self.will()
            due_s = self.time()
            return (kind, client_id, will, due_s, self.optional_text())
        raise ValueError(f"a record of an unknown kind, {kind}")

    cdef tuple queued(self, str client_id):
        cdef object group = None
        cdef bytes identifiers = b""
        sequence = self.varint()
        cdef int flags = self.byte()
        message = self.message()
        if flags & HAS_IDENTIFIERS:
            identifiers = self.bytes_()
        if flags & HAS_GROUP:
            name = self.text()
            group = GroupName(name, self.bytes_())
        return (QUEUED, client_id, sequence, message, flags & 3, (flags & RETAIN) != 0, identifiers, group)

    cdef object body(self):
        cdef int flags = self.byte()
        cdef bytes properties = b""
        cdef double expires_at_s = 0.0
        cdef str publisher = None
        topic = self.topic()
        payload = self.bytes_()
        if flags & HAS_PROPERTIES:
            properties = self.bytes_()
        if flags & HAS_EXPIRY:
            expires_at_s = self.time()
        if flags & HAS_PUBLISHER:
            publisher = self.name()
        return self.make_message(topic, payload, flags & 3, (flags & RETAIN) != 0, properties, expires_at_s, publisher)

    cdef object message(self):
        """The message that a number stands for; None for 0: one that is no longer needed."""
        cdef unsigned long long number = self.varint()
        message = self.bodies.get(number)
        if message is None and number:
            self.refers_to_lost = True
        return message

    cdef object will(self):
        cdef bytes encoded = self.bytes_()
        return self.make_will(*msgspec.msgpack.decode(encoded)) if encoded else None

    cdef str name(self):
        name = self.names.get(self.varint())
        if name is None:
            self.refers_to_lost = True
        return name

    cdef object topic(self):
        topic = self.bytes_()
        return self.topics.setdefault(topic, topic)

    # ---- fields --------------------------------------------------------------------------------------

    cdef int need(self, unsigned long long count) except -1:
        if count > <unsigned long long>(self.end - self.cursor):
            raise ValueError("a record is cut short")
        return 0

    cdef int byte(self) except -1:
        cdef int value
        self.need(1)
        value = self.cursor[0]
        self.cursor += 1
        return value

    cdef unsigned long long varint(self) except? 0xFFFFFFFFFFFFFFFF:
        cdef unsigned long long value = 0
        cdef int shift = 0
        cdef int byte = 0x80
        while byte & 0x80:
            if shift > 63:
                raise ValueError("a number is too long")
            byte = self.byte()
            value |= <unsigned long long>(byte & 0x7F) << shift
            shift += 7
        return value

    cdef bytes bytes_(self):
        cdef unsigned long long size = self.varint()
        self.need(size)
        self.cursor += size
        return PyBytes_FromStringAndSize(<const char*>self.cursor - size, <Py_ssize_t>size)

    cdef str text(self):
        cdef unsigned long long size = self.varint()
        self.need(size)
        self.cursor += size
        return PyUnicode_DecodeUTF8(<const char*>self.cursor - size, <Py_ssize_t>size, NULL)

    cdef str optional_text(self):
        return self.text() if self.byte() else None

    cdef double double_(self) except? -1:
        cdef double value
        self.need(sizeof(double))
        memcpy(&value, self.cursor, sizeof(double))
        self.cursor += sizeof(double)
        return value

    cdef double time(self) except? -1:
        cdef double at_s = self.double_()
        return at_s - self.wall_offset_s if at_s else 0.0
