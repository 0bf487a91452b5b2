"""What is written to a link between nodes: plain frames as they are, runs, and entries of the stream.

Frames, with the MQTT remaining length after the first byte. Numbers are little-endian, texts have their length, a
varint as in the store, before them:

    30 plain    a QoS 0 PUBLISH of MQTT 5, neither retained nor with an alias, for the sessions that want it
    F1 RUN      flags u8 (1 plain, 2 groups); publisher, n varint, group u64 ...; plain frames: with groups, all three
    F2 ENTRY    number u64; head: kind u8, but for kind 0 a text, route; message: flags u8 (QoS, 4 retain, 8 expiry,
                16 publisher, 32 stamp), [ms left varint], [publisher], [clock u64, node u64], topic, properties,
                payload; or nothing
    F3 ACK      number u64: taken up to there; n varint, number u64 ...: of them, somebody had no room for these

A route is flags u8 (1 plain, 2 groups), hops u8, and with groups n varint, group u64 ... Kind 0 is a publication; the
others belong to whoever joins broker and cluster, as do all other frames. Heads are what the store and pages
have as a delivery's `identifiers`.
"""

from cpython.bytes cimport PyBytes_AS_STRING

from braidmq.broker.counters cimport DROP_SLOW_SUBSCRIBER
from braidmq.broker.hub cimport TIGHT_BYTES, Hub
from braidmq.broker.lane cimport Lane
from braidmq.broker.outlet cimport DROPPED, TAKEN, TAKEN_FULL, Forwarded
from braidmq.broker.peer_frames cimport (
    ENTRY, HAS_EXPIRY, HAS_PUBLISHER, HAS_STAMP, RETAIN, ROUTE_HEAD_BYTES, RUN,
)
from braidmq.broker.receiver cimport Outcome
from braidmq.messages.message cimport Message
from braidmq.wire.buffer cimport ByteBuffer
from braidmq.wire.scan cimport read_varint, write_varint

cdef enum:
    OUTPUT_BYTES_MAX = 8 * 1024 * 1024    # of QoS 0 that a link has yet to write
    RUN_BYTES_MAX = 32 * 1024             # of frames behind one header, unless it is a single one


cdef class PeerOutlet(Lane):
    """The output of a link. It is congested when it is full, and while the peer asks for a pause."""

    def write_frame(self, bytes frame not None):
        """Send a frame that promises nothing."""
        self.out.write(frame)
        self.mark()

    def pause(self):
        """The peer asks for a pause: whoever publishes to it is held back as for a slow subscriber."""
        self.is_held = True

    def proceed(self):
        """The peer needs the pause no longer."""
        self.is_held = False
        self.output_drained()

    def output_drained(self):
        """The shell has written so much that there is room again."""
        if self.congested and not self.is_held and self.is_drained():
            self.drained()

    def is_drained(self):
        return self.pending_bytes() < output_limit(self.hub) // 2

    cdef Forwarded write_run(self, bytes head, const unsigned char* frames, Py_ssize_t size,
                             long long messages) except *:
        """Append plain frames, behind a header if there is one, unless the output is full."""
        cdef Py_ssize_t pending = self.pending_bytes()
        cdef Py_ssize_t limit = output_limit(self.hub)
        cdef unsigned char* cursor
        if pending >= limit and (self.impatient or pending + size > 2 * limit):
            self.hub.counters.drop(DROP_SLOW_SUBSCRIBER, messages)
            return DROPPED
        if head is not None:
            cursor = self.out.reserve(5)
            cursor[0] = RUN
            self.out.tail += 1 + write_varint(cursor + 1, <unsigned int>(len(head) + size))
            self.out.append(<const unsigned char*>PyBytes_AS_STRING(head), len(head))
        self.out.append(frames, size)
        self.mark()
        if pending + size < limit and not self.is_held:
            return TAKEN
        return self.overfull()

    cdef long long write_runs(self, bytes head, const unsigned char* frames, const unsigned char* end,
                              Outcome outcome) except -1:
        """The same in parts that the other end accepts, each of whole frames; how many messages were taken."""
        cdef const unsigned char* frame = frames
        cdef const unsigned char* begin = frames
        cdef unsigned int body_bytes = 0
        cdef long long messages = 0
        cdef long long taken = 0
        cdef Forwarded forwarded
        while frame < end:
            frame += 1 + read_varint(frame + 1, end - frame - 1, &body_bytes)
            frame += body_bytes
            messages += 1
            if frame - begin >= RUN_BYTES_MAX or frame == end:
                forwarded = self.write_run(head, begin, frame - begin, messages)
                taken += messages if forwarded != DROPPED else 0
                if forwarded == TAKEN_FULL:
                    outcome.congested = self
                begin = frame
                messages = 0
        return taken

    cdef int write_entry(self, Message message, bytes head, unsigned long long sequence) except -1:
        """Promise an entry: it leaves when the store has it."""
        cdef ByteBuffer out = self.promises()
        cdef ByteBuffer body = ByteBuffer.__new__(ByteBuffer)
        cdef unsigned char* cursor
        if len(message.topic):
            put_message_head(body, message, self.hub.now)
        cursor = out.reserve(5 + 8)
        cursor[0] = ENTRY
        cursor += 1 + write_varint(
            cursor + 1, <unsigned int>(8 + len(head) + body.size() + len(message.payload)))
        put_u64(cursor, sequence)
        out.tail = cursor + 8 - out.data
        out.append(<const unsigned char*>PyBytes_AS_STRING(head), len(head))
        out.append(body.start(), body.size())
        return out.append(<const unsigned char*>PyBytes_AS_STRING(message.payload), len(message.payload))


cdef Py_ssize_t output_limit(Hub hub) noexcept:
    return TIGHT_BYTES if hub.is_tight() else OUTPUT_BYTES_MAX


cdef bytes run_head(bytes head, str publisher):
    """What stands before plain frames that are for groups: the route, without its hops, and who has published."""
    cdef bytes name = publisher.encode() if publisher is not None else b""
    cdef unsigned char length[10]
    return head[1:2] + (<char*>length)[:write_number(length, len(name))] + name + head[1 + ROUTE_HEAD_BYTES:]


cdef int put_message_head(ByteBuffer out, Message message, double now) except -1:
    """All of a message but its payload, which comes last."""
    cdef bytes publisher
    cdef int flags = message.qos | (RETAIN if message.retain else 0) | (HAS_EXPIRY if message.expires_at_s else 0)
    flags |= (HAS_PUBLISHER if message.publisher is not None else 0) | (HAS_STAMP if message.stamp_clock else 0)
    append_number(out, <unsigned long long>flags)
    if message.expires_at_s:
        # Rounded up, so that a live message never arrives as an expired one.
        append_number(out, <unsigned long long>max(0.0, (message.expires_at_s - now) * 1000 + 0.999))
    if message.publisher is not None:
        publisher = message.publisher.encode()
        append_bytes(out, publisher)
    if message.stamp_clock:
        append_u64(out, message.stamp_clock)
        append_u64(out, message.stamp_node)
    append_bytes(out, message.topic)
    return append_bytes(out, message.properties)


cdef int write_number(unsigned char* cursor, unsigned long long value) noexcept:
    cdef int size = 0
    while value >= 0x80:
        cursor[size] = <unsigned char>(value & 0x7F | 0x80)
        value >>= 7
        size += 1
    cursor[size] = <unsigned char>value
    return size + 1


cdef inline void put_u64(unsigned char* cursor, unsigned long long value) noexcept:
    cdef int index
    for index in range(8):
        cursor[index] = <unsigned char>(value >> 8 * index)


cdef int append_number(ByteBuffer out, unsigned long long value) except -1:
    out.tail += write_number(out.reserve(10), value)
    return 0


cdef int append_u64(ByteBuffer out, unsigned long long value) except -1:
    put_u64(out.reserve(8), value)
    out.tail += 8
    return 0


cdef int append_bytes(ByteBuffer out, bytes data) except -1:
    append_number(out, len(data))
    return out.append(<const unsigned char*>PyBytes_AS_STRING(data), len(data))
