"""Records -> bytes, as they come about. One payload is one turn of the broker: its records one after the other.

Client ids and message bodies are written once a segment, some megabytes of a file, and referred to by number:
NAME and BODY records, which only exist in the file, define the numbers. So every segment can be read by itself,
its reader never has to remember more than that, and a message that goes to a thousand sessions is one BODY and a
thousand references of a few bytes. The numbers are written out, so that after a damaged part a reference to
something lost in it is known as such, and never taken for another.

Which number a client id or a body has is noted in the session and in the body itself, together with the segment
for which that holds (`epoch`); so nothing is looked up for a message. Deliveries are mostly sent and settled in
order: stretches of them become one record each, which is written at the latest when the turn ends. Until then
they may be overtaken by records of other kinds, but for those that could change what they mean; within a turn
that makes no difference, since a turn is kept as a whole.

Cost: about 0.05 µs a message besides copying its bytes. Times are written on the wall clock.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE

from braidmq.store.format cimport *
from braidmq.wire.buffer cimport ByteBuffer

import msgspec

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL

cdef enum:
    VARINT_BYTES_MAX = 10
    KEPT_BLOCK_BYTES = 4 * 1024 * 1024
    PLACES_MAX = 4096

cdef unsigned long long _last_epoch = 0
cdef bytes SEGMENT_BEGINS = bytes((SEGMENT,))

KINDS = {
    "SESSION": SESSION, "SESSION_ENDED": SESSION_ENDED, "AWAY": AWAY, "SUBSCRIBED": SUBSCRIBED,
    "UNSUBSCRIBED": UNSUBSCRIBED, "QUEUED": QUEUED, "SENT": SENT, "RECEIVED": RECEIVED, "SETTLED": SETTLED,
    "INBOUND": INBOUND, "INBOUND_RELEASED": INBOUND_RELEASED, "RETAINED": RETAINED, "WILL": WILL,
    "CHECKPOINTED": CHECKPOINTED, "PAGED": PAGED, "UNPAGED": UNPAGED,
    "GROUP_QUEUED": GROUP_QUEUED, "GROUP_TAKEN": GROUP_TAKEN, "GROUP_ENDED": GROUP_ENDED,
    "GROUP_PAGED": GROUP_PAGED, "GROUP_UNPAGED": GROUP_UNPAGED,
    "NUMBERED": NUMBERED, "PEER_POSITION": PEER_POSITION, "LEAVING": LEAVING, "MOVED": MOVED,
    "STAMPED": STAMPED,
}


@cython.final
cdef class Encoder:
    """Writes turns for one file after another."""

    def __init__(self, double wall_offset_s):
        self.wall_offset_s = wall_offset_s
        self.out = ByteBuffer.__new__(ByteBuffer)
        self.begin_file()

    def begin_file(self):
        """What is noted from now on goes to a new file. Only between two turns."""
        global _last_epoch
        assert not len(self), "what was noted for the former file has to be taken first"
        _last_epoch += 1
        self.epoch = _last_epoch
        self.names = {}
        self.last_name = None
        self.bodies = 0
        self.begins_segment = False

    def begin_segment(self):
        """What is noted from now on refers to nothing before. Only between two turns."""
        self.begin_file()
        self.begins_segment = True

    def placed(self, offset, size):
        """What was taken last is to be found there: bodies in it need not be written again."""
        if self.places is None:
            self.places = {}
        elif len(self.places) >= PLACES_MAX:
            del self.places[next(iter(self.places))]
        self.places[self.epoch] = (offset, size)

    def forget_places(self):
        """What was written so far can't be referred to any more."""
        self.places = None

    def append(self, tuple record not None):
        """Note a record (see braidmq.store.records)."""
        self.end_stretches()
        self.put_record(record)

    def take(self):
        """The payload of the turn that ends here."""
        cdef bytes payload
        self.end_stretches()
        payload = PyBytes_FromStringAndSize(<char*>self.out.data, self.out.tail)
        self.out.head = self.out.tail = 0  # the block is kept: growing one in every turn would copy everything
        if self.out.capacity > KEPT_BLOCK_BYTES:
            self.out.release()
        if self.begins_segment and payload:
            self.begins_segment = False
            payload = SEGMENT_BEGINS + payload
        return payload

    def encode(self, list records not None):
        """The payload that says all these."""
        for record in records:
            self.append(record)
        return self.take()

    def __len__(self):
        """Whether there is anything to take: 0 if not."""
        return self.out.tail + self.sent_stretch.count + self.settled_stretch.count

    # ---- deliveries ----------------------------------------------------------------------------------

    cdef int queued(self, str client_id, Named* named, unsigned long long sequence, Message body, int qos, bint retain,
                    bytes identifiers, object group) except -1:
        cdef unsigned long long name = self.number_of(client_id, named)
        cdef unsigned long long number = self.body_number(body)
        self.put_byte(QUEUED)
        self.put_varint(name)
        self.put_varint(sequence)
        self.put_byte(qos | (RETAIN if retain else 0) | (HAS_IDENTIFIERS if PyBytes_GET_SIZE(identifiers) else 0)
                      | (HAS_GROUP if group is not None else 0))
        self.put_varint(number)
        if PyBytes_GET_SIZE(identifiers):
            self.put_bytes(identifiers)
        if group is not None:
            self.put_text(group.name)
            self.put_bytes(group.filter)
        return 0

    cdef int sent(self, str client_id, Named* named, unsigned long long sequence, unsigned int packet_id) except -1:
        cdef unsigned long long name = self.number_of(client_id, named)
        cdef Stretch* stretch = &self.sent_stretch
        if stretch.count and (name != stretch.name or sequence != stretch.sequence + stretch.count
                              or packet_id != stretch.packet_id + stretch.count):
            self.end_sent()
        if stretch.count == 0:
            stretch.name = name
            stretch.sequence = sequence
            stretch.packet_id = packet_id
        stretch.count += 1
        return 0

    cdef int received(self, str client_id, Named* named, unsigned long long sequence) except -1:
        cdef unsigned long long name = self.number_of(client_id, named)
        self.end_sent()
        self.put_byte(RECEIVED)
        self.put_varint(name)
        return self.put_varint(sequence)

    cdef int settled(self, str client_id, Named* named, unsigned long long sequence) except -1:
        cdef unsigned long long name = self.number_of(client_id, named)
        cdef Stretch* stretch = &self.settled_stretch
        if stretch.count and (name != stretch.name or sequence != stretch.sequence + stretch.count):
            self.end_stretches()
        if stretch.count == 0:
            stretch.name = name
            stretch.sequence = sequence
        stretch.count += 1
        return 0

    cdef int inbound(self, str client_id, Named* named, unsigned int packet_id, bint is_released) except -1:
        cdef unsigned long long name = self.number_of(client_id, named)
        self.put_byte(INBOUND_RELEASED if is_released else INBOUND)
        self.put_varint(name)
        return self.put_varint(packet_id)

    cdef int end_stretches(self) except -1:
        """Write the stretches. A delivery is sent before it is settled, so that comes first."""
        self.end_sent()
        return self.end_settled()

    cdef int end_sent(self) except -1:
        cdef Stretch* stretch = &self.sent_stretch
        if stretch.count:
            self.put_byte(SENT if stretch.count == 1 else SENT_STRETCH)
            self.put_varint(stretch.name)
            self.put_varint(stretch.sequence)
            self.put_varint(stretch.packet_id)
            if stretch.count > 1:
                self.put_varint(stretch.count)
            stretch.count = 0
        return 0

    cdef int end_settled(self) except -1:
        cdef Stretch* stretch = &self.settled_stretch
        if stretch.count:
            self.put_byte(SETTLED if stretch.count == 1 else SETTLED_STRETCH)
            self.put_varint(stretch.name)
            self.put_varint(stretch.sequence)
            if stretch.count > 1:
                self.put_varint(stretch.count)
            stretch.count = 0
        return 0

    # ---- records -------------------------------------------------------------------------------------

    cdef int put_record(self, tuple record) except -1:
        cdef int kind = record[0]
        cdef Named named = Named(0, 0)
        if kind == QUEUED:
            return self.queued(record[1], &named, record[2], record[3], record[4], record[5], record[6], record[7])
        if kind == RETAINED:
            return self.put_retained(record)
        if kind == CHECKPOINTED:
            self.put_byte(kind)
            return self.put_varint(record[1])
        if kind == PEER_POSITION:
            self.put_byte(kind)
            self.put_varint(record[1])
            return self.put_varint(record[2])
        if (kind == GROUP_QUEUED or kind == GROUP_TAKEN or kind == GROUP_ENDED or kind == GROUP_PAGED
                or kind == GROUP_UNPAGED):
            return self.put_of_group(kind, record)
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
        elif kind == PAGED or kind == NUMBERED or kind == LEAVING or kind == MOVED or kind == STAMPED:
            for number in record[2:]:
                self.put_varint(number)
        elif kind == UNSUBSCRIBED:
            self.put_text(record[2])
        elif kind == WILL:
            self.put_will(record[2])
            self.put_time(record[3])
            self.put_optional_text(record[4])
        elif kind != SESSION_ENDED and kind != UNPAGED:
            raise ValueError(f"no record is of kind {kind}")
        return 0

    cdef int put_of_group(self, int kind, tuple record) except -1:
        cdef unsigned long long number = self.body_number(record[4]) if kind == GROUP_QUEUED else 0
        self.put_byte(kind)
        self.put_text(record[1])
        self.put_bytes(record[2])
        if kind == GROUP_ENDED or kind == GROUP_UNPAGED:
            return 0
        self.put_signed(record[3])
        if kind == GROUP_QUEUED:
            self.put_varint(number)
        elif kind == GROUP_PAGED:
            self.put_signed(record[4])
            for size in record[5:]:
                self.put_varint(size)
        return 0

    cdef int put_retained(self, tuple record) except -1:
        cdef unsigned long long number = self.body_number(record[2])
        self.put_byte(RETAINED)
        self.put_bytes(record[1])
        return self.put_varint(number)

    cdef unsigned long long body_number(self, Message body) except? 0:
        """The number of the body, which is written first if this file doesn't have it; 0 for none."""
        if body is None:
            return 0
        if body.epoch != self.epoch:
            if self.places is not None and body.epoch in self.places:
                return self.put_elsewhere(body)
            self.bodies += 1
            body.epoch = self.epoch
            body.number = self.bodies
            self.put_body(body)
        return body.number

    cdef unsigned long long put_elsewhere(self, Message body) except? 0:
        """Refer to a body in another page; the number that it has here."""
        offset, size = self.places[body.epoch]
        self.bodies += 1
        self.put_byte(ELSEWHERE)
        self.put_varint(self.bodies)
        self.put_varint(offset)
        self.put_varint(size)
        self.put_varint(body.number)
        return self.bodies

    cdef int put_body(self, Message body) except -1:
        cdef unsigned long long publisher = 0
        if body.publisher is not None:
            publisher = self.name_number(body.publisher)
        self.put_byte(BODY)
        self.put_varint(body.number)
        self.put_byte(body.qos | (RETAIN if body.retain else 0) | (HAS_EXPIRY if body.expires_at_s else 0)
                      | (HAS_PUBLISHER if body.publisher is not None else 0)
                      | (HAS_PROPERTIES if PyBytes_GET_SIZE(body.properties) else 0)
                      | (HAS_STAMP if body.stamp_clock else 0))
        self.put_bytes(body.topic)
        self.put_bytes(body.payload)
        if PyBytes_GET_SIZE(body.properties):
            self.put_bytes(body.properties)
        if body.expires_at_s:
            self.put_time(body.expires_at_s)
        if body.publisher is not None:
            self.put_varint(publisher)
        if body.stamp_clock:
            self.put_varint(body.stamp_clock)
            self.put_varint(body.stamp_node)
        return 0

    cdef int put_will(self, object will) except -1:
        return self.put_bytes(b"" if will is None else msgspec.msgpack.encode(msgspec.structs.astuple(will)))

    # ---- fields --------------------------------------------------------------------------------------

    cdef int put_head(self, int kind, str client_id) except -1:
        """The kind and whom it is about; a name that this file doesn't know comes first."""
        cdef unsigned long long number = self.name_number(client_id)
        self.put_byte(kind)
        return self.put_varint(number)

    cdef unsigned long long number_of(self, str client_id, Named* named) except? 0xFFFFFFFFFFFFFFFF:
        """As `name_number`, for somebody who remembers the answer."""
        if named.epoch != self.epoch:
            named.number = self.name_number(client_id)
            named.epoch = self.epoch
        return named.number

    cdef unsigned long long name_number(self, str client_id) except? 0xFFFFFFFFFFFFFFFF:
        """The number of a client id; if this file doesn't have it, it is written first."""
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

    cdef int put_byte(self, int value) except -1:
        self.out.reserve(1)[0] = <unsigned char>value
        self.out.tail += 1
        return 0

    cdef int put_varint(self, unsigned long long value) except -1:
        cdef unsigned char* cursor = self.out.reserve(VARINT_BYTES_MAX)
        cdef int size = 0
        while value >= 0x80:
            cursor[size] = <unsigned char>(value & 0x7F | 0x80)
            value >>= 7
            size += 1
        cursor[size] = <unsigned char>value
        self.out.tail += size + 1
        return 0

    cdef int put_signed(self, long long value) except -1:
        """Numbers of either sign: small ones are short."""
        return self.put_varint((<unsigned long long>value << 1) ^ <unsigned long long>(value >> 63))

    cdef int put_bytes(self, bytes data) except -1:
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
