"""Bytes -> records: the other side of braidmq.store.encoding."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.string cimport memcpy

from braidmq.messages.message cimport Message, new_message
from braidmq.store.format cimport *

import msgspec

from braidmq.messages.wills import PendingWill
from braidmq.store.records import GroupName


cdef enum:
    STRETCH_MAX = 1 << 24    # of a turn; more is no stretch but nonsense
    TOPICS_MAX = 1 << 17     # that are shared


def _nowhere(offset, size, number):
    """What a body that stands elsewhere is for those who don't look there."""


cdef class Decoder:
    """Reads the turns of one file after another.

    A lenient decoder leaves out records that refer to what was lost in a damaged part; otherwise they are a
    ValueError.
    """

    cdef double wall_offset_s
    cdef bint lenient
    cdef public object find_elsewhere  # (offset, size, number) -> message or None, for pages
    cdef bint refers_to_lost           # the present record does
    cdef dict names                    # number -> client id
    cdef dict bodies                   # number -> message
    cdef dict topics                   # one object for each topic, however many messages have it
    cdef const unsigned char* cursor
    cdef const unsigned char* end

    def __init__(self, double wall_offset_s, bint lenient=False):
        self.lenient = lenient
        self.wall_offset_s = wall_offset_s
        self.topics = {}
        self.find_elsewhere = _nowhere
        self.begin_file()

    def body_of(self, unsigned long long number):
        """The message of that number in what was decoded last; None if there is none."""
        return self.bodies.get(number)

    def begin_file(self):
        """What is decoded from now on comes from the next file."""
        self.names = {}
        self.bodies = {}
        if len(self.topics) > TOPICS_MAX:
            self.topics = {}

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
            elif kind == SEGMENT:
                self.begin_file()
            elif kind == NAME:
                number = self.varint()
                self.names[number] = self.text()
            elif kind == ELSEWHERE:
                number = self.varint()
                offset, size = self.varint(), self.varint()
                self.bodies[number] = self.find_elsewhere(offset, size, self.varint())
            elif kind == SENT_STRETCH or kind == SETTLED_STRETCH:
                self.stretch(kind, records)
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
        if kind == PEER_POSITION:
            return (kind, self.varint(), self.varint())
        if (kind == GROUP_QUEUED or kind == GROUP_TAKEN or kind == GROUP_ENDED or kind == GROUP_PAGED
                or kind == GROUP_UNPAGED):
            return self.of_group(kind)
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
        if kind == SESSION_ENDED or kind == UNPAGED:
            return (kind, client_id)
        if kind == PAGED:
            return (kind, client_id, self.varint(), self.varint(), self.varint(), self.varint(), self.varint(),
                    self.varint(), self.varint())
        if kind == STAMPED:
            return (kind, client_id, self.varint(), self.varint())
        if kind == MOVED:
            return (kind, client_id, self.varint(), self.varint(), self.varint(), self.varint())
        if kind == NUMBERED or kind == LEAVING:
            return (kind, client_id, self.varint(), self.varint(), self.varint())
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

    cdef int stretch(self, int kind, list records) except -1:
        """Deliveries that follow each other, each as a record of its own."""
        cdef str client_id = self.name()
        cdef unsigned long long sequence = self.varint()
        cdef unsigned long long packet_id = self.varint() if kind == SENT_STRETCH else 0
        cdef unsigned long long count = self.varint()
        cdef unsigned long long step
        if count > STRETCH_MAX:
            raise ValueError("a stretch is too long")
        for step in range(0 if self.refers_to_lost else count):
            if kind == SENT_STRETCH:
                records.append((SENT, client_id, sequence + step, packet_id + step))
            else:
                records.append((SETTLED, client_id, sequence + step))
        return 0

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

    cdef tuple of_group(self, int kind):
        cdef str name = self.text()
        filter = self.topic()
        if kind == GROUP_ENDED or kind == GROUP_UNPAGED:
            return (kind, name, filter)
        sequence = self.signed_()
        if kind == GROUP_TAKEN:
            return (kind, name, filter, sequence)
        if kind == GROUP_PAGED:
            return (kind, name, filter, sequence, self.signed_(), self.varint(), self.varint(), self.varint(),
                    self.varint(), self.varint())
        return (kind, name, filter, sequence, self.message())

    cdef Message body(self):
        cdef int flags = self.byte()
        cdef bytes properties = b""
        cdef double expires_at_s = 0.0
        cdef str publisher = None
        cdef Message message
        cdef bytes topic = self.topic()
        cdef bytes payload = self.bytes_()
        if flags & HAS_PROPERTIES:
            properties = self.bytes_()
        if flags & HAS_EXPIRY:
            expires_at_s = self.time()
        if flags & HAS_PUBLISHER:
            publisher = self.name()
        message = new_message(topic, payload, properties, flags & 3, (flags & RETAIN) != 0, expires_at_s, publisher)
        if flags & HAS_STAMP:
            message.stamp_clock = self.varint()
            message.stamp_node = self.varint()
        return message

    cdef object message(self):
        """The message that a number stands for; None for 0: one that is no longer needed."""
        cdef unsigned long long number = self.varint()
        message = self.bodies.get(number)
        if message is None and number:
            self.refers_to_lost = True
        return message

    cdef object will(self):
        cdef bytes encoded = self.bytes_()
        return PendingWill(*msgspec.msgpack.decode(encoded)) if encoded else None

    cdef str name(self):
        name = self.names.get(self.varint())
        if name is None:
            self.refers_to_lost = True
        return name

    cdef bytes topic(self):
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

    cdef long long signed_(self) except? -1:
        cdef unsigned long long value = self.varint()
        return <long long>(value >> 1) ^ -<long long>(value & 1)

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
