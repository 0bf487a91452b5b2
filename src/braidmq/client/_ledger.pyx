"""Which received messages still wait for our PUBACK or PUBREC, in the order they came.

Each QoS 1 or 2 message gets an ordinal: a number that rises over the life of the session and is never used
again. The application acknowledges ordinals in any order; the answers leave in the order of receipt
[MQTT-4.6.0-2] [MQTT-4.6.0-3], so one that comes early waits in the ledger. Ordinals below `head` are answered,
or were lost with their connection.

A ring of 6-byte entries: opening, marking and answering are O(1), and a batch is answered in one buffer.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint16_t, uint64_t
from libc.stdlib cimport free, malloc

from braidmq.errors import ProtocolError

cdef enum:
    FAILURE = 0x80
    RECEIVE_MAXIMUM_EXCEEDED = 0x93
    RING_SIZE_MIN = 64
    PACKET_IDENTIFIERS = 65535


cdef class AckLedger:
    def __cinit__(self, Py_ssize_t receive_maximum, bint with_reasons):
        self.receive_maximum = self.limit = receive_maximum
        self.with_reasons = with_reasons
        self.unreleased = set()
        self.unreleased_earlier = set()
        self.head = self.tail = 1  # 0 is the ordinal of what needs no answer
        self.mask = RING_SIZE_MIN - 1
        self.ring = <Entry*>malloc(RING_SIZE_MIN * sizeof(Entry))
        if self.ring == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.ring)

    @property
    def outstanding(self):
        """Messages that count against our receive maximum."""
        return self.tail - self.head + len(self.unreleased)

    cpdef uint64_t open(self, uint16_t packet_id, uint8_t qos) except 0:
        """A message has come; gives its ordinal."""
        cdef Entry* entry
        cdef uint64_t ordinal = self.tail
        if <Py_ssize_t>(ordinal - self.head) + len(self.unreleased) >= self.limit:
            raise ProtocolError(RECEIVE_MAXIMUM_EXCEEDED, f"more than {self.limit} messages unanswered")
        if ordinal - self.head > self.mask:
            self.grow()
        entry = &self.ring[ordinal & self.mask]
        entry.packet_id = packet_id
        entry.qos = qos
        entry.acknowledged = False
        entry.reason = 0
        self.tail = ordinal + 1
        return ordinal

    cdef int grow(self) except -1:
        cdef uint64_t mask = self.mask * 2 + 1
        cdef uint64_t ordinal
        cdef Entry* ring = <Entry*>malloc((mask + 1) * sizeof(Entry))
        if ring == NULL:
            raise MemoryError
        for ordinal in range(self.head, self.tail):
            ring[ordinal & mask] = self.ring[ordinal & self.mask]
        free(self.ring)
        self.ring = ring
        self.mask = mask
        return 0

    def acknowledge(self, uint64_t ordinal, uint8_t reason=0):
        """The application is done with a message. False if its connection is gone."""
        return self.mark(ordinal, reason)

    def flush(self):
        """The PUBACKs and PUBRECs that may leave now, as one buffer."""
        cdef uint64_t end = self.head
        cdef Py_ssize_t size = 0
        while end < self.tail and self.ring[end & self.mask].acknowledged:
            size += self.frame_bytes(&self.ring[end & self.mask])
            end += 1
        if size == 0:
            return b""
        cdef bytes frames = PyBytes_FromStringAndSize(NULL, size)
        cdef unsigned char* cursor = <unsigned char*>PyBytes_AS_STRING(frames)
        while self.head < end:
            cursor = self.write(cursor, &self.ring[self.head & self.mask])
            self.head += 1
        return frames

    cdef Py_ssize_t frame_bytes(self, const Entry* entry) noexcept:
        return 5 if entry.reason and self.with_reasons else 4

    cdef unsigned char* write(self, unsigned char* cursor, const Entry* entry) except NULL:
        cdef Py_ssize_t size = self.frame_bytes(entry)
        cursor[0] = 0x40 if entry.qos == 1 else 0x50
        cursor[1] = <unsigned char>(size - 2)
        cursor[2] = entry.packet_id >> 8
        cursor[3] = entry.packet_id & 0xFF
        if size == 5:
            cursor[4] = entry.reason
        if entry.qos == 2 and (entry.reason < FAILURE or not self.with_reasons):
            self.unreleased.add(entry.packet_id)
        return cursor + size

    def release(self, uint16_t packet_id):
        """The server's PUBREL, or its PUBLISH once more: whether we have answered that identifier before."""
        known = packet_id in self.unreleased or packet_id in self.unreleased_earlier
        self.unreleased.discard(packet_id)
        self.unreleased_earlier.discard(packet_id)
        return known

    def unanswered_qos2(self):
        """(ordinal, packet identifier, acknowledged, reason) of the QoS 2 messages that we have not answered."""
        cdef uint64_t ordinal
        cdef Entry entry
        cdef list found = []
        for ordinal in range(self.head, self.tail):
            entry = self.ring[ordinal & self.mask]
            if entry.qos == 2:
                found.append((ordinal, entry.packet_id, bool(entry.acknowledged), entry.reason))
        return found

    def connected(self, bint resumed):
        """A connection begins.

        On a resumed session Mosquitto (2.0.11) does not count what it delivers again, and sends a full window
        on top of it: one window more with every connection that ends before we have answered. Insisting would end
        every such connection, for ever; that there are no more packet identifiers is a bound too.
        """
        self.limit = PACKET_IDENTIFIERS if resumed else self.receive_maximum

    def abandon(self):
        """The connection is gone: nothing that is open can be answered any more."""
        self.head = self.tail
        self.unreleased_earlier |= self.unreleased
        self.unreleased.clear()

    def forget(self):
        """The session is gone, and with it what the server would still have released."""
        self.abandon()
        self.unreleased_earlier.clear()
