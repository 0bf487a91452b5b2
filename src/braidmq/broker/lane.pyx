"""The input side of one connection: bytes in, frames found, PUBLISH packets and acknowledgements handled in C.

The fast lane is `extend_run`/`end_run`: consecutive plain QoS 0 frames (no retain, no properties) that go to
the same Fanout are not even looked into beyond their topic; their bytes are forwarded as one slice. Whatever
else a PUBLISH may be takes `publish_general`, which handles everything. All other packets go to `handle`, in
Python. A test shows that both ways give the same output for the same input.

Nothing here waits, reads a clock or touches a socket. Only an incomplete frame is kept between two calls; the
read buffer is one for all connections.
"""

from cpython.buffer cimport PyBUF_WRITE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.dict cimport PyDict_GetItem
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.string cimport memcmp, memcpy, memset

from braidmq.broker.counters cimport DROP_NOT_AUTHORIZED, DROP_TOPIC_TOO_LONG
from braidmq.broker.watching cimport WATCH_PACKETS, WATCH_PUBLISHED
from braidmq.broker.incoming cimport Incoming, passed_on, read_publish, uint16
from braidmq.messages.message cimport Message, new_message
from braidmq.broker.outlet cimport Outlet
from braidmq.broker.publishing cimport Publishing
from braidmq.broker.receiver cimport Frames, Outcome, Run, Target, new_outcome
from braidmq.broker.router cimport Fanout
from braidmq.wire.buffer cimport ByteBuffer
from braidmq.wire.scan cimport PublishScan, check_publish_properties, has_wildcard, read_varint, utf8_valid

from braidmq.errors import ProtocolError

cdef enum:
    SCRATCH_BYTES = 256 * 1024
    # What is read is written once for every subscriber; for many of them, less at a time stays in the cache.
    WIDE_FANOUT = 4
    WIDE_SCRATCH_BYTES = 32 * 1024
    # A longer beginning of a frame isn't copied in front of the next read any more: the rest is read behind it.
    COPIED_PARTIAL_BYTES_MAX = 16 * 1024

    PUBLISH = 3
    PUBACK = 0x40
    PUBREC = 0x50
    PUBREL = 0x62
    PUBCOMP = 0x70
    PINGREQ = 0xC0
    PINGRESP = 0xD0

    MALFORMED_PACKET = 0x81
    PROTOCOL_ERROR = 0x82
    NOT_AUTHORIZED = 0x87
    TOPIC_NAME_INVALID = 0x90
    PACKET_IDENTIFIER_NOT_FOUND = 0x92
    RECEIVE_MAXIMUM_EXCEEDED = 0x93
    TOPIC_ALIAS_INVALID = 0x94
    PACKET_TOO_LARGE = 0x95
    QUOTA_EXCEEDED = 0x97
    RETAIN_NOT_SUPPORTED = 0x9A

    DOLLAR = 0x24
    RIGHTS_CACHED_MAX = 4096
    RIGHTS_BYTES_MAX = 256 * 1024    # of topics
    # What is done between two looks at the stopwatch, and what of it some packets are. A packet that needs Python
    # is all of it, and so is a topic that was never seen, whose subscribers and rights have to be found.
    WORK_UNLOOKED = 64
    PUBLISH_WORK = 16
    ACKNOWLEDGEMENT_WORK = 4

cdef double WORK_S_MIN = 0.0002

# One read buffer for the process: it is filled and emptied within one call of the event loop.
cdef unsigned char _scratch[SCRATCH_BYTES]
cdef object _scratch_view = PyMemoryView_FromMemory(<char*>_scratch, SCRATCH_BYTES, PyBUF_WRITE)
cdef object _wide_scratch_view = _scratch_view[:WIDE_SCRATCH_BYTES]

# A run and what becomes of it, likewise: nobody keeps them beyond the call.
cdef Run _run = Run.__new__(Run)
cdef Outcome _run_outcome = new_outcome()


cdef class Answer:
    """The answer to a publish that is given when other nodes have the message."""

    def taken(self, bint is_refused):
        """One of them has it, though perhaps somebody there had no room; or it is no longer waited for."""
        self.open -= 1
        if is_refused:
            self.reason = QUOTA_EXCEEDED
        if self.open == 0:
            self.lane.give_awaited(self)


cdef class Lane(Outlet):
    def __init__(self, hub, Publishing publishing not None):
        self.publishing = publishing
        self.router = publishing.router
        self.takes_fast_lane = True
        self.received_at_s = self.hub.now
        self.input_bytes_max = self.hub.limits.connect_bytes_max
        self.partial = ByteBuffer.__new__(ByteBuffer)
        memset(&self.run, 0, sizeof(Frames))

    # ---- what the control plane adds -----------------------------------------------------------------

    def handle(self, int first, bytes body):
        """A packet that is no PUBLISH and no acknowledgement (or comes before CONNECT)."""
        raise NotImplementedError

    def fail(self, error):
        """The client has broken the protocol."""
        raise NotImplementedError

    def wait_for(self, Outlet outlet):
        """This connection fills `outlet` faster than it drains; reading should pause."""

    def throttle(self):
        """This connection's own output is full of answers that the client does not read."""

    def take_a_rest(self):
        """Much was handled at a stretch: `go_on` should be called in a later turn."""
        self.is_parked = False

    def await_answers(self):
        """Too many answers are held back: nothing is read until `answers_left`."""

    def answers_left(self):
        """There is room for answers again: `go_on` should be called in a later turn."""

    def may_publish(self, bytes topic):
        """Whether the client may publish to `topic`; asked once a topic while `rights` is a dict."""
        return True

    def take_status(self, bytes payload):
        """The client has reported its status by a PUBLISH."""
        raise NotImplementedError

    # ---- bytes in ------------------------------------------------------------------------------------

    cpdef object receive_buffer(self):
        """Where the next bytes are to be put: valid until `received` is called, before any other connection's."""
        cdef Py_ssize_t size = 0
        cdef unsigned char* space
        if self.partial.size() == 0:
            return _wide_scratch_view if self.feeds_many else _scratch_view
        space = self.receive_space(&size)
        return PyMemoryView_FromMemory(<char*>space, size, PyBUF_WRITE)

    cdef unsigned char* receive_space(self, Py_ssize_t* size) except NULL:
        """The same for a caller that reads in C."""
        cdef Py_ssize_t held = self.partial.size()
        if held <= COPIED_PARTIAL_BYTES_MAX:
            size[0] = (WIDE_SCRATCH_BYTES if self.feeds_many and held == 0 else SCRATCH_BYTES) - held
            return _scratch + held
        # Grow by doubling up to the frame's size: a length that was only announced costs no memory.
        size[0] = min(held, self.partial_frame_bytes - held)
        return self.partial.reserve(size[0])

    cpdef int received(self, Py_ssize_t count, double now) except -1:
        """`count` bytes were put into the receive buffer."""
        cdef Py_ssize_t held = self.partial.size()
        cdef Py_ssize_t consumed
        self.hub.begin_turn(now)
        self.received_at_s = now
        self.hub.counters.bytes_received += count
        if self.is_finished:
            return 0
        if held > COPIED_PARTIAL_BYTES_MAX:
            self.partial.tail += count
            if self.partial.size() >= self.partial_frame_bytes:
                self.consume_partial()
            return 0
        if held:
            memcpy(_scratch, self.partial.start(), held)
            self.partial.release()
        consumed = self.take_in(_scratch, held + count)
        if consumed < held + count and not self.is_finished:
            self.partial.append(_scratch + consumed, held + count - consumed)
        return 0

    def receive(self, data, double now):
        """Take in bytes from anywhere: `receive_buffer` and `received` in one, for tests and other shells."""
        cdef Py_ssize_t offset = 0
        source = memoryview(data)
        while offset < len(source):
            buffer = self.receive_buffer()
            part = source[offset:offset + len(buffer)]
            buffer[:len(part)] = part
            self.received(len(part), now)
            offset += len(part)

    def go_on(self, double now):
        """Look at input that came while this connection was parked."""
        self.hub.begin_turn(now)
        self.is_parked = False
        if self.partial.size():
            self.consume_partial()

    def work_on(self):
        """The others have had their turn, and this connection has its own."""
        self.begin_work()

    def consume_partial(self):
        cdef Py_ssize_t size = self.partial.size()
        cdef Py_ssize_t consumed = self.take_in(self.partial.start(), size)
        self.partial.consume(consumed)
        if self.is_finished:
            self.partial.release()

    def forget(self):
        """The connection is over, and nothing works on it: give back at once what it holds, not as a cycle one day."""
        self.partial.release()
        self.held.release()
        self.promised.release()
        self.inbound_aliases = self.aliases = None

    @property
    def holds_bytes(self):
        """What was read and not handled, or written and not sent (for tests)."""
        return self.partial.size() + self.leaving.size() + self.held.size() + self.promised.size()

    cdef Py_ssize_t take_in(self, const unsigned char* data, Py_ssize_t size) except -1:
        cdef Py_ssize_t consumed = size
        cdef Outlet outlet
        self.begin_work()
        try:
            try:
                consumed = self.parse(data, size)
            finally:
                self.end_run()  # what came before a broken packet counts
        except ProtocolError as error:
            self.fail(error)
        if self.session is not None and self.session.agenda is not None:
            self.session.agenda.work_off()
        if self.filled is not None:
            outlet, self.filled = self.filled, None
            self.wait_for(outlet)
        if not self.has_room():
            self.throttle()
        if self.awaits_answers:
            self.await_answers()
        elif self.is_parked:
            self.take_a_rest()
        return consumed

    cdef Py_ssize_t parse(self, const unsigned char* data, Py_ssize_t size) except -1:
        """Handle all whole frames in `data`; how many bytes they have."""
        cdef const unsigned char* frame = data
        cdef const unsigned char* end = data + size
        cdef unsigned int body_bytes = 0
        cdef Py_ssize_t frame_bytes
        cdef int used
        self.partial_frame_bytes = 0
        while end - frame >= 2 and not self.is_parked and not self.is_finished:
            used = read_varint(frame + 1, end - frame - 1, &body_bytes)
            if used == 0:
                break
            if used < 0:
                raise ProtocolError(MALFORMED_PACKET, "the remaining length is no variable byte integer")
            frame_bytes = 1 + used + <Py_ssize_t>body_bytes
            if frame_bytes > self.input_bytes_max:
                raise ProtocolError(PACKET_TOO_LARGE,  # [MQTT-3.2.2-15]
                                    f"a packet of {frame_bytes} bytes; at most {self.input_bytes_max} are accepted")
            if frame_bytes > end - frame:
                self.partial_frame_bytes = frame_bytes
                break
            self.dispatch(frame, 1 + used, frame_bytes)
            frame += frame_bytes
            if self.work_left <= 0:
                self.look_at_stopwatch()
        return frame - data

    cdef int begin_work(self) except -1:
        # Many who make much work share the time, so that the others wait no longer than beside one of them.
        cdef double share_s = self.hub.work_s_max / (1 + self.hub.resting)
        self.works_until_s = self.hub.stopwatch.read_s() + max(share_s, WORK_S_MIN)
        self.work_left = WORK_UNLOOKED
        return 0

    cdef int look_at_stopwatch(self) except -1:
        """Leave the rest for later if this connection has had its time."""
        self.work_left = WORK_UNLOOKED
        if self.hub.stopwatch.read_s() > self.works_until_s:
            self.is_parked = True
        return 0

    def is_overtime(self):
        """Whether this connection has had its time, and others should have theirs."""
        return self.hub.stopwatch.read_s() > self.works_until_s

    cdef int dispatch(self, const unsigned char* frame, Py_ssize_t header_bytes, Py_ssize_t frame_bytes) except -1:
        cdef unsigned char first = frame[0]
        cdef const unsigned char* body = frame + header_bytes
        cdef Py_ssize_t body_bytes = frame_bytes - header_bytes
        if self.is_open and first == 0x30 and self.takes_fast_lane and self.extend_run(
            frame, header_bytes, frame_bytes
        ):
            return 0
        if self.hub.watching.wanted & WATCH_PACKETS:
            self.hub.watching.message_audience.packet_read(self.client_id, first, frame_bytes)
        if self.is_open:
            if first >> 4 == PUBLISH:
                self.end_run()
                self.hub.counters.publish_bytes_received += frame_bytes
                self.work_left -= PUBLISH_WORK
                return self.publish_general(first, body, body_bytes)
            self.hub.counters.others_received += 1
            self.work_left -= ACKNOWLEDGEMENT_WORK
            if self.acknowledged(first, body, body_bytes):
                return 0
            if first == PINGREQ and body_bytes == 0:
                return self.pong()
        else:
            self.hub.counters.others_received += 1
        self.end_run()
        self.work_left = 0
        self.handle(first, PyBytes_FromStringAndSize(<char*>body, body_bytes))
        return 0

    # ---- the fast lane -------------------------------------------------------------------------------

    cdef bint extend_run(self, const unsigned char* frame, Py_ssize_t header_bytes, Py_ssize_t frame_bytes) except -1:
        """Add a plain QoS 0 frame to the run; False if it must take the general way."""
        cdef const unsigned char* body = frame + header_bytes
        cdef Py_ssize_t body_bytes = frame_bytes - header_bytes
        cdef Py_ssize_t topic_bytes
        cdef bytes topic
        cdef void* found
        cdef object held    # what was found, so that it stays
        cdef long long revision
        if body_bytes < 3:
            return False
        topic_bytes = uint16(body)
        if 2 + topic_bytes + self.is_v5 > body_bytes or (self.is_v5 and body[2 + topic_bytes] != 0):
            return False
        if self.run.count and frame != self.run.end:    # another packet came between
            self.end_run()
        if self.run.count == 0 or topic_bytes != self.run_topic_bytes or memcmp(
            body + 2, self.run_topic, topic_bytes
        ) != 0:
            if body[2] == DOLLAR:  # perhaps the broker's own, which is looked into on the general way
                return False
            topic = PyBytes_FromStringAndSize(<char*>body + 2, topic_bytes)
            found = <void*>PyDict_GetItem(self.router.routes, topic)
            if self.run.count and found != <void*>self.run_fanout:
                # What the run brings about may end a group, and with it the route that was found.
                held = <object>found if found != NULL else None
                revision = self.router.last_revision
                self.end_run()
                if held is None or self.router.last_revision != revision:
                    found = <void*>PyDict_GetItem(self.router.routes, topic)
            if found == NULL:  # not yet known to be a valid topic
                return False
            if self.rights is not None and self.rights.get(topic) is not True:
                return False
            self.run_fanout = <Fanout>found
        if self.run.count == 0:
            self.run.start = frame
        self.run.end = frame + frame_bytes
        self.run_topic = body + 2
        self.run_topic_bytes = topic_bytes
        self.run.count += 1
        if frame_bytes > self.run.largest_bytes:
            self.run.largest_bytes = frame_bytes
        return True

    cdef int end_run(self) except -1:
        """Forward the frames of the run, if there is one."""
        cdef Target target
        cdef Run run = _run
        cdef Outcome outcome = _run_outcome
        if self.run.count == 0:
            return 0
        self.hub.counters.publishes_received += self.run.count
        self.hub.counters.publish_bytes_received += self.run.end - self.run.start
        self.feeds_many = len(self.run_fanout.targets) > WIDE_FANOUT
        self.work_left -= 1 + <int>len(self.run_fanout.targets)
        run.frames = self.run
        run.is_v5 = self.is_v5
        run.publisher = self.session.client_id
        run.translated = None
        outcome.congested = None
        for target in self.run_fanout.targets:
            target = target.towards(run.publisher)
            if target is not None:
                target.receiver.forward(run, target, outcome)
        for target in self.run_fanout.peers:
            target.receiver.forward(run, target, outcome)
        if outcome.congested is not None:
            self.filled = outcome.congested
        self.run_fanout = None
        self.run.count = 0
        self.run.largest_bytes = 0
        return 0

    # ---- acknowledgements ----------------------------------------------------------------------------

    cdef bint acknowledged(self, unsigned char first, const unsigned char* body, Py_ssize_t body_bytes) except -1:
        """Handle PUBACK, PUBREC, PUBREL and PUBCOMP without properties; False for any other packet."""
        cdef unsigned int packet_id, reason
        if body_bytes != 2 and not (body_bytes == 3 and self.is_v5):
            return False
        packet_id = uint16(body)
        reason = body[2] if body_bytes == 3 else 0
        # Reasons are checked against the packet type in Python; here only success is taken.
        if packet_id == 0 or reason != 0:
            return False
        return self.settled(first, packet_id, 0)

    cdef int pong(self) except -1:
        cdef unsigned char* cursor = self.out.reserve(2)
        cursor[0] = PINGRESP
        cursor[1] = 0
        self.out.tail += 2
        self.hub.counters.others_sent += 1
        if self.hub.watching.wanted & WATCH_PACKETS:
            self.hub.watching.message_audience.packet_sent(self.client_id, PINGRESP, 2)
        return self.mark()

    cdef bint settled(self, unsigned char first, unsigned int packet_id, unsigned int reason) except -1:
        if self.hub.watching.message_audience is not None:
            self.hub.watching.message_audience.acknowledged(self.session, first, packet_id, reason)
        if first == PUBACK:
            self.session.puback(packet_id, reason)
        elif first == PUBREC:
            self.session.pubrec(packet_id, reason)
        elif first == PUBCOMP:
            self.session.pubcomp(packet_id)
        elif first == PUBREL:
            found = self.session.end_inbound(packet_id)
            self.acknowledge(PUBCOMP, packet_id, 0 if found else PACKET_IDENTIFIER_NOT_FOUND)
        else:
            return False
        return True

    def settle(self, int first, int packet_id, int reason):
        """Handle an acknowledgement that Python has decoded."""
        self.settled(<unsigned char>first, packet_id, reason)

    # ---- the general way -----------------------------------------------------------------------------

    cdef int publish_general(self, unsigned char first, const unsigned char* body, Py_ssize_t body_bytes) except -1:
        cdef Incoming incoming
        cdef Message message
        cdef bint is_accepted = True
        read_publish(first, body, body_bytes, self.is_v5, &incoming)
        message = self.read_message(&incoming, &is_accepted)
        self.hub.counters.publishes_received += 1
        if self.hub.watching.wanted & WATCH_PUBLISHED:
            self.hub.watching.message_audience.published(message, incoming.packet_id)
        if not is_accepted:
            return self.refuse_topic(message, incoming.packet_id)
        if message.qos == 0:
            return self.take_qos0(message)
        if message.qos == 1:
            return self.take_qos1(message, incoming.packet_id)
        return self.take_qos2(message, incoming.packet_id)

    cdef int refuse_topic(self, Message message, unsigned int packet_id) except -1:
        """Answer a topic beyond our limits, if it can be: a client that tries again would never get out."""
        self.hub.drop_message(DROP_TOPIC_TOO_LONG, message, None)
        if message.qos == 0:
            raise ProtocolError(TOPIC_NAME_INVALID, "the topic is longer or deeper than this broker accepts")
        self.begin_answer()
        return self.answer(PUBACK if message.qos == 1 else PUBREC, packet_id, TOPIC_NAME_INVALID)

    cdef Message read_message(self, Incoming* incoming, bint* is_accepted):
        cdef PublishScan scan
        cdef bytes properties = b""
        cdef bytes topic
        cdef double expires_at_s = 0.0
        cdef int reason
        if incoming.properties_bytes:
            reason = check_publish_properties(incoming.properties, incoming.properties_bytes, &scan)
            if reason:
                raise ProtocolError(reason, "the properties of a PUBLISH are wrong")
            if scan.subscription_identifier_count:
                raise ProtocolError(PROTOCOL_ERROR, "PUBLISH with a subscription identifier")  # [MQTT-3.3.4-6]
            topic = self.resolve_topic(incoming, scan.topic_alias if scan.has_topic_alias else 0, is_accepted)
            properties = passed_on(incoming.properties, incoming.properties_bytes, &scan)
            if scan.has_message_expiry:
                # An expiry of 0 is over at once; so small a time later than now still means "expires".
                expires_at_s = self.hub.now + (scan.message_expiry_s or 1e-9)
        else:
            topic = self.resolve_topic(incoming, 0, is_accepted)
        return new_message(
            topic, PyBytes_FromStringAndSize(<char*>incoming.payload, incoming.payload_bytes), properties,
            incoming.qos, incoming.retain, expires_at_s, self.session.client_id)

    cdef bytes resolve_topic(self, Incoming* incoming, unsigned int alias, bint* is_accepted):
        """The topic of a PUBLISH; one that isn't accepted is kept as an empty one under its alias."""
        cdef bytes topic
        if alias > <unsigned int>self.hub.topic_alias_max:
            raise ProtocolError(TOPIC_ALIAS_INVALID, f"topic alias {alias}")  # [MQTT-3.3.2-9]
        if incoming.topic_bytes == 0:
            topic = self.inbound_aliases.get(alias) if alias and self.inbound_aliases is not None else None
            if topic is None:
                raise ProtocolError(PROTOCOL_ERROR if self.is_v5 else TOPIC_NAME_INVALID,
                                    "PUBLISH without a topic, or with an alias never set")
            is_accepted[0] = len(topic) > 0
            return topic
        topic = PyBytes_FromStringAndSize(<char*>incoming.topic, incoming.topic_bytes)
        if topic not in self.router.routes:
            self.work_left = 0
            is_accepted[0] = self.check_topic(topic)
        if alias:
            if self.inbound_aliases is None:
                self.inbound_aliases = {}
            self.inbound_aliases[alias] = topic if is_accepted[0] else b""
        return topic

    cdef bint check_topic(self, bytes topic) except -1:
        """Whether the topic is within our limits; it must be a topic at all."""
        cdef const unsigned char* data = <const unsigned char*>PyBytes_AS_STRING(topic)
        cdef Py_ssize_t size = len(topic)
        if not utf8_valid(data, size):
            raise ProtocolError(MALFORMED_PACKET, "the topic is no UTF-8 string")  # [MQTT-1.5.4-1]
        if has_wildcard(data, size):
            raise ProtocolError(TOPIC_NAME_INVALID, "wildcards in a topic name")  # [MQTT-3.3.2-2]
        return size <= self.hub.topic_bytes_max and topic.count(b"/") < self.hub.topic_levels_max

    cdef bint may_publish_to(self, Message message) except -1:
        cdef bytes topic = message.topic
        if PyBytes_AS_STRING(topic)[0] == DOLLAR and topic.startswith(b"$SYS/"):  # the broker's own
            self.hub.drop_message(DROP_NOT_AUTHORIZED, message, None)
            return False
        if self.status_topic is not None and topic.startswith(b"$load/"):  # the broker's as well, one a client
            if topic == self.status_topic:
                return True
            self.hub.drop_message(DROP_NOT_AUTHORIZED, message, None)
            return False
        if self.rights is None:
            return True
        allowed = self.rights.get(topic)
        if allowed is None:
            if len(self.rights) >= RIGHTS_CACHED_MAX or self.rights_bytes >= RIGHTS_BYTES_MAX:
                self.rights.clear()
                self.rights_bytes = 0
            self.rights_bytes += len(topic)
            self.work_left = 0
            allowed = self.rights[topic] = bool(self.may_publish(topic))
        if not allowed:
            self.hub.drop_message(DROP_NOT_AUTHORIZED, message, None)
        return allowed

    cdef int take_qos0(self, Message message) except -1:
        if self.may_publish_to(message):
            self.distribute(message)
        return 0

    cdef int take_qos1(self, Message message, unsigned int packet_id) except -1:
        self.begin_answer()
        if not self.may_publish_to(message):
            return self.answer(PUBACK, packet_id, NOT_AUTHORIZED)
        return self.answer_when_taken(PUBACK, packet_id, self.distribute(message))

    cdef int take_qos2(self, Message message, unsigned int packet_id) except -1:
        cdef Outcome outcome
        if self.session.inbound is not None and packet_id in self.session.inbound:
            # [MQTT-4.3.3-10] a repetition: answered again, never distributed again
            return 0 if self.repeats_awaited(packet_id) else self.acknowledge(PUBREC, packet_id, 0)
        self.begin_answer()
        if not self.may_publish_to(message):
            return self.answer(PUBREC, packet_id, NOT_AUTHORIZED)
        outcome = self.distribute(message)
        if outcome.reason < 0x80:
            self.session.begin_inbound(packet_id)
        return self.answer_when_taken(PUBREC, packet_id, outcome)

    cdef int begin_answer(self) except -1:
        """A client may not have too many publishes open. MQTT 3 doesn't know that: there it waits (see `answer`)."""
        if not self.is_v5:
            return 0
        if self.held_answers + self.session.open_inbound() >= self.hub.receive_maximum:
            raise ProtocolError(RECEIVE_MAXIMUM_EXCEEDED,  # [MQTT-3.3.4-7] is the client's duty
                                f"more than {self.hub.receive_maximum} QoS 1 and 2 publishes are open")
        return 0

    cdef int answer(self, unsigned char first, unsigned int packet_id, unsigned int reason) except -1:
        """Answer a publish, whatever the reason. MQTT 3 can't say no: there the connection ends."""
        if reason >= 0x80 and not self.is_v5:
            raise ProtocolError(reason, "the message was refused")
        if reason >= 0x80 and self.hub.promises.is_failing():
            # A refusal promises nothing, and what is held may be held for long.
            self.hub.counters.others_sent += 1
            self.out.write(bytes((first, 3, packet_id >> 8, packet_id & 0xFF, reason)))
            return self.mark()
        if self.hub.promises.are_held and (first == PUBACK or not self.is_v5):
            self.noted_answers += 1
            self.hold_answer(first)
        return self.acknowledge(first, packet_id, reason)

    cdef int hold_answer(self, unsigned char first) except -1:
        """Count an answer that can't be given yet, if nothing else bounds how many there are."""
        if first == PUBACK or not self.is_v5:
            self.held_answers += 1
            if not self.is_v5 and self.held_answers >= self.hub.receive_maximum:
                self.is_parked = self.awaits_answers = True
        return 0

    cdef int go_on_answered(self) except -1:
        if self.awaits_answers and self.held_answers < self.hub.receive_maximum:
            self.awaits_answers = False
            self.answers_left()
        return 0

    def release_promised(self):
        if self.is_finished:
            return self.forget()  # nothing may follow a goodbye
        Outlet.release_promised(self)
        self.go_on_answered()

    # ---- answers that wait for other nodes -----------------------------------------------------------

    cdef int answer_when_taken(self, unsigned char first, unsigned int packet_id, Outcome outcome) except -1:
        """Answer a publish, at once or when other nodes have it."""
        if outcome.awaited is None or outcome.reason >= 0x80:
            return self.answer(first, packet_id, outcome.reason)
        return self.await_peers(first, packet_id, outcome)

    cdef int await_peers(self, unsigned char first, unsigned int packet_id, Outcome outcome) except -1:
        cdef Answer answer = Answer.__new__(Answer)
        answer.lane = self
        answer.first = first
        answer.packet_id = packet_id
        answer.reason = outcome.reason
        answer.open = len(outcome.awaited)
        self.hold_answer(first)
        if first == PUBREC:
            self.session.awaited = self.session.awaited or {}
            self.session.awaited[packet_id] = answer
        for peer, number in outcome.awaited:
            peer.tell_when_taken(number, answer)
        return 0

    cdef int give_awaited(self, Answer answer) except -1:
        """Nobody is waited for any more."""
        if answer.first == PUBREC:
            self.session.awaited.pop(answer.packet_id, None)
            if answer.reason >= 0x80:
                self.session.end_inbound(answer.packet_id)
        if self.is_finished:
            return 0
        if answer.first == PUBACK or not self.is_v5:
            self.held_answers -= 1
        try:
            self.answer(answer.first, answer.packet_id, answer.reason)
        except ProtocolError as error:
            self.fail(error)
        return self.go_on_answered()

    cdef bint repeats_awaited(self, unsigned int packet_id) except -1:
        """Whether a repetition on a new connection is answered when other nodes have what it repeats."""
        cdef Answer answer
        if self.session.awaited is None or packet_id not in self.session.awaited:
            return False
        answer = self.session.awaited[packet_id]
        if answer.lane is not self:
            answer.lane = self
            self.hold_answer(answer.first)
        return True

    cdef Outcome distribute(self, Message message):
        """Publish it, unless it is for the broker itself; what became of it."""
        cdef Outcome outcome
        if self.status_topic is not None and message.topic == self.status_topic:
            self.take_status(message.payload)
            return new_outcome()
        outcome = self.publishing.take(message, True)
        if outcome.congested is not None:
            self.filled = outcome.congested
        if outcome.reason == RETAIN_NOT_SUPPORTED and self.is_v5:
            raise ProtocolError(RETAIN_NOT_SUPPORTED, "retained messages are turned off")  # [MQTT-3.2.2-14]
        return outcome
