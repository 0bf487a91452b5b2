"""What is read from a link between nodes: messages in C, all else by whoever joins broker and cluster.

See `peer_outlet` for the frames, and `peers` for what becomes of entries. Every length is checked before memory is
used for it; whatever can't be understood ends the link.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize

from braidmq.broker.counters cimport DROP_NOT_AUTHORIZED, DROP_TOPIC_TOO_LONG
from braidmq.broker.hub cimport Hub
from braidmq.broker.incoming cimport Incoming, passed_on, read_publish
from braidmq.broker.lane cimport Lane
from braidmq.broker.outlet cimport Outlet
from braidmq.broker.peer_frames cimport (
    ACK, ENTRY, HAS_EXPIRY, HAS_PUBLISHER, HAS_STAMP, KINDS, PLAIN, PUBLISHED, QOS, RETAIN, ROUTE_GROUPS, ROUTE_PLAIN,
    RUN,
)
from braidmq.broker.peer_outlet cimport PeerOutlet, append_number, append_u64
from braidmq.broker.peers cimport Peer
from braidmq.broker.publishing cimport Publishing
from braidmq.broker.receiver cimport Outcome, Run, Target, new_outcome
from braidmq.messages.message cimport Message, new_message
from braidmq.wire.buffer cimport ByteBuffer
from braidmq.wire.scan cimport PublishScan, check_publish_properties, read_varint, utf8_valid, write_varint

from braidmq.errors import ProtocolError
from braidmq.store.records import PEER_POSITION

cdef enum:
    GREETING_BYTES_MAX = 4 * 1024         # a frame of somebody who has yet to prove who it is,
    PROVEN_BYTES_MAX = 64 * 1024          # of somebody who has;
    # then of a peer: a packet, within a limit that may be larger there (or what it has sent could never be taken, and
    # would come again for ever), and before it the publisher and as many groups as there may be.
    PEER_PACKET_BYTES_LEAST = 16 * 1024 * 1024
    PEER_HEAD_BYTES_MAX = 1024 * 1024
    ENTRY_WORK = 16
    FRAME_WORK = 4

    MALFORMED_PACKET = 0x81
    PROTOCOL_ERROR = 0x82

cdef bytes PLAIN_ROUTE = bytes((ROUTE_PLAIN, 0))
cdef tuple OWN_PREFIXES = (b"$SYS/", b"$load/")    # each node's own

# A run and what becomes of it: nobody keeps them beyond the call.
cdef Run _run = Run.__new__(Run)
cdef Outcome _run_outcome = new_outcome()


cdef class PeerLane(PeerOutlet):
    """One link. `joint` is told of all frames that are no messages, and of its end."""

    def __init__(self, Hub hub not None, Publishing publishing not None, joint, shell):
        PeerOutlet.__init__(self, hub, publishing)
        self.joint = joint
        self.shell = shell
        self.input_bytes_max = GREETING_BYTES_MAX
        self.speak(5)

    # ---- for the joint -------------------------------------------------------------------------------

    def prove(self):
        """The other end has proved who it is."""
        self.input_bytes_max = PROVEN_BYTES_MAX

    def open(self, Peer peer not None, unsigned long long position):
        """Both ends are ready; the peer has kept our entries up to `position`."""
        self.peer = peer
        self.client_id = peer.client_id
        self.is_open = True
        self.input_bytes_max = max(self.hub.packet_bytes_max, PEER_PACKET_BYTES_LEAST) + PEER_HEAD_BYTES_MAX
        self.noted = self.promised_number = peer.kept
        peer.attach(self, position)

    def close(self, str why not None):
        """End the link from this side."""
        if not self.is_finished:
            self.lost(why)
            self.shell.close()

    def lost(self, str why not None):
        """The link is over, whoever ended it."""
        if self.is_finished:
            return
        self.is_finished = True
        self.is_open = self.is_held = False
        if self.peer is not None and self.peer.lane is self:
            self.peer.detach()
        self.drained()
        self.joint.lost(self, why)
        self.shell.defer(self.forget)    # not now: it may be at work on what it has read

    def fail(self, error):
        self.joint.failed(self, error)

    # ---- flow ----------------------------------------------------------------------------------------

    def wait_for(self, Outlet outlet):
        """Somebody here is behind. Beats and acknowledgements are in what is read, so it is read on."""
        if self.holds or self.is_finished:
            return
        self.holds = True
        outlet.add_waiting(self)
        self.joint.watch_congestion(outlet)
        if self.holds:
            self.joint.hold(self)

    def feed_on(self):
        self.holds = False
        if not self.is_finished:
            self.joint.go_on(self)

    def take_a_rest(self):
        """Much was handled at a stretch: the others have their turn first."""
        if not self.is_finished:
            self.hub.resting += 1
            self.shell.pause_reading()
            self.shell.defer(self._rested)

    def _rested(self):
        self.hub.resting -= 1
        if not self.is_finished:
            self.go_on(self.hub.now)
            if not self.is_parked:
                self.shell.resume_reading()

    # ---- frames in -----------------------------------------------------------------------------------

    cdef Py_ssize_t take_in(self, const unsigned char* data, Py_ssize_t size) except -1:
        cdef Py_ssize_t consumed
        consumed = Lane.take_in(self, data, size)
        if self.has_entries:
            self.acknowledge_entries()
        return consumed

    cdef int dispatch(self, const unsigned char* frame, Py_ssize_t header_bytes, Py_ssize_t frame_bytes) except -1:
        cdef unsigned char first = frame[0]
        cdef const unsigned char* body = frame + header_bytes
        cdef Py_ssize_t body_bytes = frame_bytes - header_bytes
        if self.is_open:
            if first == PLAIN:
                return self.take_plain(frame, header_bytes, frame_bytes)
            if first == ACK:
                self.work_left -= FRAME_WORK
                return self.take_acknowledgement(body, body_bytes)
            if first == ENTRY:
                self.end_run()
                self.work_left -= ENTRY_WORK
                return self.take_entry(body, body_bytes)
            if first == RUN:
                self.end_run()
                return self.take_run(body, body_bytes)
        self.end_run()
        self.work_left = 0
        self.joint.frame(self, first, PyBytes_FromStringAndSize(<char*>body, body_bytes))
        return 0

    cdef int take_plain(self, const unsigned char* frame, Py_ssize_t header_bytes, Py_ssize_t frame_bytes) except -1:
        cdef Message message
        cdef Outcome outcome
        if self.hub.watching.message_audience is None and self.extend_run(frame, header_bytes, frame_bytes):
            return 0
        self.end_run()
        self.work_left -= ENTRY_WORK
        self.peer.received_qos0 += 1
        message = self.read_plain(frame + header_bytes, frame_bytes - header_bytes, None)
        if message is not None:
            outcome = self.publishing.take_from_peer(message, PLAIN_ROUTE, None, self.peer.node)
            self.peer.unwanted += not outcome.is_matched
            if outcome.congested is not None:
                self.filled = outcome.congested
        return 0

    cdef int end_run(self) except -1:
        """Give the frames of the run to the sessions that want them, and to nobody else."""
        cdef Target target
        cdef Run run = _run
        cdef Outcome outcome = _run_outcome
        if self.run.count == 0:
            return 0
        self.peer.received_qos0 += self.run.count
        self.work_left -= 1 + <int>len(self.run_fanout.plain)
        if not self.run_fanout.plain:
            self.peer.unwanted += self.run.count
        run.frames = self.run
        run.is_v5 = True
        run.publisher = None
        run.translated = None
        outcome.congested = None
        for target in self.run_fanout.plain:
            target.receiver.forward(run, target, outcome)
        if outcome.congested is not None:
            self.filled = outcome.congested
        self.run_fanout = None
        self.run.count = 0
        self.run.largest_bytes = 0
        return 0

    cdef int take_run(self, const unsigned char* body, Py_ssize_t body_bytes) except -1:
        """Plain frames with what they are for before them."""
        cdef const unsigned char* cursor = body
        cdef const unsigned char* end = body + body_bytes
        cdef const unsigned char* frame
        cdef unsigned int inner_bytes = 0
        cdef int flags = read_byte(&cursor, end)
        cdef int used
        cdef str publisher = None
        cdef list groups = []
        cdef Message message
        if flags & ~(ROUTE_PLAIN | ROUTE_GROUPS):
            raise ProtocolError(PROTOCOL_ERROR, f"a run with flags {flags}")
        if flags & ROUTE_GROUPS:
            publisher = read_text(&cursor, end) or None
            groups = read_numbers(&cursor, end)
        while cursor < end:
            frame = cursor
            used = read_varint(frame + 1, end - frame - 1, &inner_bytes)
            if frame[0] != PLAIN or used <= 0 or inner_bytes > <size_t>(end - frame - 1 - used):
                raise ProtocolError(MALFORMED_PACKET, "a run holds what is no whole plain frame")
            cursor = frame + 1 + used + inner_bytes
            if flags & ROUTE_PLAIN:
                self.take_plain(frame, 1 + used, cursor - frame)
            message = self.read_plain(frame + 1 + used, inner_bytes, publisher) if groups else None
            if message is not None:
                self.work_left -= ENTRY_WORK
                for number in groups:
                    self.router.shared_groups.deliver_to(number, message)
        return self.end_run()

    cdef int take_entry(self, const unsigned char* body, Py_ssize_t body_bytes) except -1:
        cdef const unsigned char* cursor = body
        cdef const unsigned char* end = body + body_bytes
        cdef unsigned long long sequence = read_u64(&cursor, end)
        cdef int kind = read_byte(&cursor, end)
        cdef bytes head = b""
        cdef bytes route
        cdef Message message = None
        cdef Outcome outcome
        if kind >= KINDS:
            raise ProtocolError(PROTOCOL_ERROR, f"an entry of kind {kind}")
        if kind != PUBLISHED:
            head = read_bytes(&cursor, end)
        route = read_route(&cursor, end)
        if cursor < end:
            message = self.read_entry(cursor, end)
        elif kind == PUBLISHED:
            raise ProtocolError(MALFORMED_PACKET, "a publication without a message")
        self.has_entries = True
        if sequence <= self.peer.taken:
            return 0    # it comes again
        self.peer.taken = sequence
        self.peer.received_entries += 1
        if message is not None and not self.accepts(message):
            return 0
        if kind != PUBLISHED:
            self.joint.entered(self, kind, head, message, route)
            return 0
        outcome = self.publishing.take_from_peer(message, route, message.stamp, self.peer.node)
        self.peer.unwanted += (route[0] & ROUTE_PLAIN) != 0 and not outcome.is_matched
        if outcome.congested is not None:
            self.filled = outcome.congested
        if outcome.is_refused:
            self.refused = self.refused or []
            self.refused.append(sequence)
        return 0

    cdef int take_acknowledgement(self, const unsigned char* body, Py_ssize_t body_bytes) except -1:
        cdef const unsigned char* cursor = body
        cdef const unsigned char* end = body + body_bytes
        cdef unsigned long long position = read_u64(&cursor, end)
        cdef set refused = set(read_numbers(&cursor, end))
        if cursor != end:
            raise ProtocolError(MALFORMED_PACKET, "an acknowledgement is too long")
        self.peer.acknowledged(position, refused)
        return 0

    # ---- messages in ---------------------------------------------------------------------------------

    cdef Message read_plain(self, const unsigned char* body, Py_ssize_t body_bytes, str publisher):
        """The message of a plain frame; None if it was dropped and counted."""
        cdef Incoming incoming
        cdef PublishScan scan
        cdef Message message
        cdef double expires_at_s = 0.0
        read_publish(PLAIN, body, body_bytes, True, &incoming)
        check_properties(incoming.properties, incoming.properties_bytes, &scan)
        if scan.has_message_expiry:
            expires_at_s = self.hub.now + (scan.message_expiry_s or 1e-9)
        message = new_message(
            PyBytes_FromStringAndSize(<char*>incoming.topic, incoming.topic_bytes),
            PyBytes_FromStringAndSize(<char*>incoming.payload, incoming.payload_bytes),
            passed_on(incoming.properties, incoming.properties_bytes, &scan), 0, False, expires_at_s, publisher)
        return message if self.accepts(message) else None

    cdef Message read_entry(self, const unsigned char* cursor, const unsigned char* end):
        """The message of an entry, of which nothing but its topic remains to be checked."""
        cdef PublishScan scan
        cdef Message message
        cdef int flags = read_byte(&cursor, end)
        cdef double expires_at_s = 0.0
        cdef str publisher = None
        cdef bytes topic, properties
        cdef unsigned long long stamp_clock = 0
        cdef unsigned long long stamp_node = 0
        if flags & QOS == 3 or flags & ~(QOS | RETAIN | HAS_EXPIRY | HAS_PUBLISHER | HAS_STAMP):
            raise ProtocolError(MALFORMED_PACKET, f"an entry with flags {flags}")
        if flags & HAS_EXPIRY:
            expires_at_s = self.hub.now + (read_number(&cursor, end) / 1000.0 or 1e-9)
        if flags & HAS_PUBLISHER:
            publisher = read_text(&cursor, end)
        if flags & HAS_STAMP:
            stamp_clock = read_u64(&cursor, end)
            stamp_node = read_u64(&cursor, end)
        topic = read_bytes(&cursor, end)
        properties = read_bytes(&cursor, end)
        check_properties(<const unsigned char*>PyBytes_AS_STRING(properties), len(properties), &scan)
        if scan.has_message_expiry:
            raise ProtocolError(PROTOCOL_ERROR, "an entry with an expiry among its properties")
        message = new_message(topic, PyBytes_FromStringAndSize(<char*>cursor, end - cursor), properties, flags & QOS,
                              (flags & RETAIN) != 0, expires_at_s, publisher)
        message.stamp_clock = stamp_clock
        message.stamp_node = stamp_node
        return message

    cdef bint accepts(self, Message message) except -1:
        """Whether messages may come from other nodes under that topic, which must be one; else it is counted."""
        cdef bytes topic = message.topic
        if len(topic) == 0:
            raise ProtocolError(PROTOCOL_ERROR, "a message without a topic")
        if topic not in self.router.routes:
            self.work_left = 0
            if not self.check_topic(topic):
                self.hub.drop_message(DROP_TOPIC_TOO_LONG, message, None)
                return False
        if topic.startswith(OWN_PREFIXES):
            self.hub.drop_message(DROP_NOT_AUTHORIZED, message, None)
            return False
        return True

    # ---- acknowledging -------------------------------------------------------------------------------

    cdef int acknowledge_entries(self) except -1:
        """Note up to where entries were taken, and promise to say so when that is kept."""
        cdef ByteBuffer out = self.promises()
        cdef ByteBuffer body = ByteBuffer.__new__(ByteBuffer)
        cdef unsigned char* cursor
        cdef list refused = self.refused or []
        self.has_entries = False
        self.refused = None
        self.noted = self.peer.taken
        if self.hub.promises.journal is not None:
            self.hub.promises.journal.append((PEER_POSITION, self.peer.node, self.noted))
        else:
            self.peer.kept = self.noted
        if self.is_finished:
            return 0
        append_u64(body, self.noted)
        append_number(body, len(refused))
        for sequence in refused:
            append_u64(body, sequence)
        cursor = out.reserve(5)
        cursor[0] = ACK
        out.tail += 1 + write_varint(cursor + 1, <unsigned int>body.size())
        return out.append(body.start(), body.size())

    def promise_held(self):
        Lane.promise_held(self)
        self.promised_number = self.noted

    def release_promised(self):
        if self.peer is not None:
            self.peer.kept = max(self.peer.kept, self.promised_number)
        Lane.release_promised(self)


cdef int check_properties(const unsigned char* properties, Py_ssize_t size, PublishScan* scan) except -1:
    cdef int reason = check_publish_properties(properties, size, scan)
    if reason:
        raise ProtocolError(reason, "the properties of a message are wrong")
    if scan.subscription_identifier_count or scan.has_topic_alias:
        raise ProtocolError(PROTOCOL_ERROR, "a message with properties that are of one connection only")
    return 0


# ---- fields ----------------------------------------------------------------------------------------------


cdef int need(const unsigned char* cursor, const unsigned char* end, unsigned long long count) except -1:
    if count > <unsigned long long>(end - cursor):
        raise ProtocolError(MALFORMED_PACKET, "a frame between nodes is cut short")
    return 0


cdef int read_byte(const unsigned char** cursor, const unsigned char* end) except -1:
    cdef int value
    need(cursor[0], end, 1)
    value = cursor[0][0]
    cursor[0] += 1
    return value


cdef unsigned long long read_number(const unsigned char** cursor, const unsigned char* end) except? 0xFFFFFFFFFFFFFFFF:
    cdef unsigned long long value = 0
    cdef int shift = 0
    cdef int byte = 0x80
    while byte & 0x80:
        if shift > 63:
            raise ProtocolError(MALFORMED_PACKET, "a number between nodes is too long")
        byte = read_byte(cursor, end)
        value |= <unsigned long long>(byte & 0x7F) << shift
        shift += 7
    return value


cdef unsigned long long read_u64(const unsigned char** cursor, const unsigned char* end) except? 0xFFFFFFFFFFFFFFFF:
    cdef unsigned long long value = 0
    cdef int index
    need(cursor[0], end, 8)
    for index in range(8):
        value |= <unsigned long long>cursor[0][index] << 8 * index
    cursor[0] += 8
    return value


cdef bytes read_bytes(const unsigned char** cursor, const unsigned char* end):
    cdef unsigned long long size = read_number(cursor, end)
    need(cursor[0], end, size)
    cursor[0] += size
    return PyBytes_FromStringAndSize(<char*>cursor[0] - size, <Py_ssize_t>size)


cdef str read_text(const unsigned char** cursor, const unsigned char* end):
    cdef bytes data = read_bytes(cursor, end)
    if not utf8_valid(<const unsigned char*>PyBytes_AS_STRING(data), len(data)):
        raise ProtocolError(MALFORMED_PACKET, "a text between nodes is no UTF-8 string")
    return data.decode()


cdef list read_numbers(const unsigned char** cursor, const unsigned char* end):
    """Numbers of 64 bits, and how many there are before them."""
    cdef unsigned long long count = read_number(cursor, end)
    cdef unsigned long long _index
    if count > <unsigned long long>(end - cursor[0]) // 8:
        raise ProtocolError(MALFORMED_PACKET, "a frame between nodes is cut short")
    return [read_u64(cursor, end) for _index in range(count)]


cdef bytes read_route(const unsigned char** cursor, const unsigned char* end):
    cdef const unsigned char* begin = cursor[0]
    cdef int flags = read_byte(cursor, end)
    read_byte(cursor, end)    # hops
    if flags & ~(ROUTE_PLAIN | ROUTE_GROUPS):
        raise ProtocolError(PROTOCOL_ERROR, f"a route with flags {flags}")
    if flags & ROUTE_GROUPS:
        read_numbers(cursor, end)
    return PyBytes_FromStringAndSize(<char*>begin, cursor[0] - begin)
