"""Cuts the server's bytes into frames, and takes plain PUBLISH frames straight into the inbox.

The fast lane takes a PUBLISH of QoS 0 or 1 that is right in every detail and uses no topic alias; a run of
them is copied with one memcpy. Every other frame goes out through `next_frame()` in its place, so the order of
messages is the order on the wire. A frame that is wrong goes out too: the decoder of braidmq.wire names the
fault, and this file needs no second opinion.

Every byte is looked at once. Only an incomplete frame is kept between two feeds, in a buffer that grows with
what has come, not with what the header promises.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint16_t, uint32_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcmp, memcpy

from braidmq.client._batch cimport Inbox, Record, Storage, size_of
from braidmq.client._ledger cimport AckLedger
from braidmq.wire.scan cimport (
    ACCEPTED,
    VARINT_INCOMPLETE,
    VARINT_MALFORMED,
    PublishScan,
    check_publish_properties,
    has_wildcard,
    read_varint,
    utf8_valid,
)

from braidmq.errors import ProtocolError

cdef enum:
    PUBLISH = 3
    DUP = 0x08
    V5 = 5
    PARTIAL_BYTES_MIN = 256
    PARTIAL_BYTES_KEPT = 65536      # a larger buffer is given back once its frame is complete
    MALFORMED_PACKET = 0x81
    PACKET_TOO_LARGE = 0x95


@cython.final
cdef class Scanner:
    cdef Inbox inbox
    cdef AckLedger ledger
    cdef int version
    cdef Py_ssize_t packet_bytes_max
    cdef public bint fast               # whether PUBLISH frames may go straight to the inbox
    cdef public bint dropping_qos0      # the inbox is full: QoS 0 is counted and dropped
    cdef public Py_ssize_t dropped      # QoS 0 messages that found the inbox full
    cdef Py_buffer view                 # what feed() was given
    cdef bint viewing                   # whether there is a view
    cdef const unsigned char* cursor
    cdef const unsigned char* end
    cdef const unsigned char* run       # the bytes that new records speak of, not stored yet
    cdef const unsigned char* run_end
    cdef const unsigned char* topic     # the last topic that was found right, inside the view
    cdef Py_ssize_t topic_bytes
    cdef unsigned char* partial         # the incomplete frame at the end of the last feed
    cdef Py_ssize_t partial_bytes
    cdef Py_ssize_t partial_capacity

    def __cinit__(self, Inbox inbox, AckLedger ledger, int version, Py_ssize_t packet_bytes_max):
        self.inbox = inbox
        self.ledger = ledger
        self.version = version
        self.packet_bytes_max = packet_bytes_max

    def __dealloc__(self):
        if self.viewing:
            PyBuffer_Release(&self.view)
        free(self.partial)

    def feed(self, data):
        """Takes what came from the server. Call `next_frame` until it gives None; `data` is borrowed till then."""
        self.release_view()
        PyObject_GetBuffer(data, &self.view, PyBUF_SIMPLE)
        self.viewing = True
        self.cursor = <const unsigned char*>self.view.buf
        self.end = self.cursor + self.view.len
        self.topic_bytes = 0

    def reset(self):
        """A new connection begins."""
        self.release_view()
        self.partial_bytes = 0
        self.fast = False

    cdef void release_view(self) noexcept:
        if self.viewing:
            PyBuffer_Release(&self.view)
            self.viewing = False
        self.cursor = self.end = NULL

    def next_frame(self):
        """(first byte, body) of the next frame that needs thought; None when all is used up."""
        frame = None
        while frame is None:
            if self.partial_bytes:
                if not self.complete_partial():
                    break
                frame = self.take_partial()
            elif self.cursor < self.end:
                frame = self.scan_run()
            else:
                break
        if frame is None:
            self.release_view()
        return frame

    cdef tuple scan_run(self):
        """Takes plain PUBLISH frames until the view ends or another frame stops it, which it gives."""
        cdef Storage storage = self.inbox.room(0)
        self.run = self.run_end = self.cursor
        try:
            return self.scan_frames(storage)
        finally:
            self.store_run(storage)

    cdef tuple scan_frames(self, Storage storage):
        cdef const unsigned char* frame
        cdef Py_ssize_t header_bytes = 0, frame_bytes
        while self.cursor < self.end:
            frame = self.cursor
            frame_bytes = self.measure(frame, self.end - frame, &header_bytes)
            if frame_bytes == 0 or frame_bytes > self.end - frame:
                self.keep_partial(self.end - frame)
                return None
            self.cursor = frame + frame_bytes
            if not self.take(storage, frame, header_bytes, frame_bytes):
                return slow_frame(frame, header_bytes, frame_bytes)
        return None

    cdef Py_ssize_t measure(
        self, const unsigned char* frame, Py_ssize_t available, Py_ssize_t* header_bytes
    ) except -1:
        """Bytes of the whole frame; 0 while not even its length is known."""
        cdef unsigned int length = 0
        cdef int used = read_varint(frame + 1, available - 1, &length)
        if used == VARINT_INCOMPLETE:
            return 0
        if used == VARINT_MALFORMED:
            raise ProtocolError(MALFORMED_PACKET, "the remaining length is malformed")
        header_bytes[0] = 1 + used
        if header_bytes[0] + <Py_ssize_t>length > self.packet_bytes_max:
            raise ProtocolError(PACKET_TOO_LARGE, f"a packet is over the limit of {self.packet_bytes_max} bytes")
        return header_bytes[0] + length

    cdef bint take(
        self, Storage storage, const unsigned char* frame, Py_ssize_t header_bytes, Py_ssize_t frame_bytes
    ) except -1:
        """The fast lane: whether the frame was taken."""
        cdef Record found
        cdef Record* record
        if not self.fast or frame[0] >> 4 != PUBLISH:
            return False
        if not self.plain_publish(frame + header_bytes, frame_bytes - header_bytes, frame[0], &found):
            return False
        if found.packet_id == 0 and self.dropping_qos0:
            self.dropped += 1
            self.store_run(storage)
            self.run = self.run_end = frame + frame_bytes
            return True
        found.ordinal = self.ledger.open(found.packet_id, 1) if found.packet_id else 0
        found.topic_at += <uint32_t>(storage.used + (frame + header_bytes - self.run))
        found.payload_at += <uint32_t>(storage.used + (frame + header_bytes - self.run))
        record = storage.new_record()
        record[0] = found
        self.run_end = frame + frame_bytes
        self.inbox.count += 1
        self.inbox.received += 1
        self.inbox.size_bytes += size_of(record)
        return True

    cdef int store_run(self, Storage storage) except -1:
        """Copies the bytes that the new records speak of."""
        cdef Py_ssize_t size = self.run_end - self.run
        storage.reserve(size)
        memcpy(storage.data + storage.used, self.run, size)
        storage.used += size
        self.run = self.run_end
        return 0

    cdef bint plain_publish(
        self, const unsigned char* body, Py_ssize_t size, unsigned char first_byte, Record* found
    ) noexcept:
        """Whether the body is beyond reproach; then `found` has its places, counted from the body's start."""
        cdef PublishScan scan
        cdef unsigned int properties_bytes = 0
        cdef int used
        cdef Py_ssize_t offset, topic_bytes
        cdef int qos = first_byte >> 1 & 3
        if size < 2 or qos > 1 or (qos == 0 and first_byte & DUP):
            return False
        topic_bytes = <Py_ssize_t>body[0] << 8 | body[1]
        offset = 2 + topic_bytes
        found.packet_id = 0
        if qos:
            offset += 2
            if offset > size:
                return False
            found.packet_id = <uint16_t>body[offset - 2] << 8 | body[offset - 1]
            if found.packet_id == 0:
                return False
        if offset > size or not self.topic_is_right(body + 2, topic_bytes):
            return False
        found.properties_bytes = 0
        if self.version == V5:
            used = read_varint(body + offset, size - offset, &properties_bytes)
            if used <= 0 or offset + used + <Py_ssize_t>properties_bytes > size:
                return False
            if properties_bytes:
                if check_publish_properties(body + offset + used, properties_bytes, &scan) != ACCEPTED:
                    return False
                if scan.has_topic_alias:
                    return False
            found.properties_bytes = used + properties_bytes
            offset += found.properties_bytes
        found.topic_at = 2
        found.topic_bytes = <uint16_t>topic_bytes
        found.payload_at = <uint32_t>offset
        found.payload_bytes = <uint32_t>(size - offset)
        found.flags = first_byte & 0x0F
        return True

    cdef bint topic_is_right(self, const unsigned char* topic, Py_ssize_t size) noexcept:
        if size == 0:
            return False
        if size == self.topic_bytes and memcmp(topic, self.topic, size) == 0:
            return True
        if has_wildcard(topic, size) or not utf8_valid(topic, size):
            return False
        self.topic = topic
        self.topic_bytes = size
        return True

    cdef int keep_partial(self, Py_ssize_t size) except -1:
        """Puts `size` bytes at the cursor behind what is kept, and moves the cursor over them."""
        cdef Py_ssize_t capacity = self.partial_bytes + size
        cdef void* moved
        if capacity > self.partial_capacity:
            capacity = max(capacity, self.partial_capacity * 2, PARTIAL_BYTES_MIN)
            moved = realloc(self.partial, capacity)
            if moved == NULL:
                raise MemoryError
            self.partial = <unsigned char*>moved
            self.partial_capacity = capacity
        memcpy(self.partial + self.partial_bytes, self.cursor, size)
        self.partial_bytes += size
        self.cursor += size
        return 0

    cdef bint complete_partial(self) except -1:
        """Adds what the kept frame is missing; whether it is complete now."""
        cdef Py_ssize_t header_bytes = 0, missing
        while True:
            missing = self.measure(self.partial, self.partial_bytes, &header_bytes) - self.partial_bytes
            if missing == 0:
                return True
            if self.cursor == self.end:
                return False
            # Before the length is known, one byte at a time: the rest may belong to the next frame.
            self.keep_partial(min(missing, self.end - self.cursor) if missing > 0 else 1)

    cdef tuple take_partial(self):
        """The kept frame if it needs thought; None if the fast lane took it."""
        cdef Py_ssize_t header_bytes = 0, frame_bytes = self.partial_bytes
        cdef Storage storage = self.inbox.room(0)
        frame = None
        self.measure(self.partial, frame_bytes, &header_bytes)
        self.run = self.run_end = self.partial
        if self.take(storage, self.partial, header_bytes, frame_bytes):
            self.store_run(storage)
        else:
            frame = slow_frame(self.partial, header_bytes, frame_bytes)
        self.partial_bytes = 0
        self.topic_bytes = 0  # the last topic may have been in this buffer
        if self.partial_capacity > PARTIAL_BYTES_KEPT:
            free(self.partial)
            self.partial = NULL
            self.partial_capacity = 0
        return frame


cdef tuple slow_frame(const unsigned char* frame, Py_ssize_t header_bytes, Py_ssize_t frame_bytes):
    cdef bytes body = PyBytes_FromStringAndSize(<const char*>frame + header_bytes, frame_bytes - header_bytes)
    return frame[0], body
