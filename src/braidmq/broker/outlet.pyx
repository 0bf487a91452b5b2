"""The output side of one connection: frames gather here until the shell writes them.

Memory is bounded. Up to `output_bytes_max` everything is taken. Above it the connection is congested: QoS 0
is still taken, but whoever feeds it is asked to stop reading, so that the publisher feels the subscriber's
pace. When that has lasted too long (`impatient`), or twice the limit is reached, QoS 0 is dropped and
counted. QoS 1 and 2 never go past the limit: they wait in the session. In a node that is full the limit is
lower for everybody.

Patience is an account: it is spent while feeders are held back, and regained at a tenth of that pace while they
aren't. A subscriber that reads in gulps, and is behind again at once, has no more of it than one that doesn't read.
"""

from braidmq.broker.counters cimport DROP_EXPIRED, DROP_PACKET_TOO_LARGE, DROP_SLOW_SUBSCRIBER
from braidmq.broker.hub cimport Hub
from braidmq.broker.watching cimport WATCH_ANSWERED, WATCH_DELIVERED, WATCH_PACKETS
from braidmq.messages.message cimport Message, publish_size, write_publish
from braidmq.wire.buffer cimport ByteBuffer

from braidmq.errors import ProtocolError
from braidmq.wire import encode

cdef enum:
    UNLIMITED_BYTES = 0x7FFFFFFF
    PACKET_TOO_LARGE = 0x95
    WRITE_THROUGH_BYTES = 8 * 1024    # a slice this large is worth a system call of its own

cdef double REGAINED = 0.1    # patience for each second without congestion


cdef class DirectWriter:
    """A transport that large slices may be given to without a copy."""

    cdef Py_ssize_t write_now(self, const unsigned char* data, Py_ssize_t size) except -1:
        return 0


cdef class Outlet:
    def __cinit__(self, Hub hub not None, *args, **kwargs):
        self.hub = hub
        self.out = self.leaving = ByteBuffer.__new__(ByteBuffer)
        self.held = ByteBuffer.__new__(ByteBuffer)
        self.promised = ByteBuffer.__new__(ByteBuffer)
        self.version = 4
        self.client_packet_bytes_max = UNLIMITED_BYTES

    def speak(self, int version, Py_ssize_t packet_bytes_max=UNLIMITED_BYTES, int alias_max=0):
        """The client has told, in its CONNECT, which version it speaks and what it accepts."""
        self.version = version
        self.is_v5 = version >= 5
        self.client_packet_bytes_max = packet_bytes_max
        self.alias_max = alias_max

    def fits(self, Py_ssize_t size):
        """Whether the client accepts a packet of that many bytes."""
        return size <= self.client_packet_bytes_max

    @property
    def output(self):
        """The bytes that may leave now; the shell takes them from there."""
        return self.leaving

    # ---- packets -------------------------------------------------------------------------------------

    def send(self, packet):
        """Send a packet that promises nothing."""
        self._write(self.out, self._encoded(packet))
        self.mark()

    def promise(self, packet):
        """Send a packet that may leave only after this turn's records are kept."""
        self._write(self.promises(), self._encoded(packet))

    def promise_first(self, packet):
        """The same for the CONNACK: nothing leaves before it does [MQTT-3.2.0-1]."""
        self.promise(packet)
        self.out = self.promises()

    def _write(self, ByteBuffer out, bytes encoded):
        out.write(encoded)
        self.hub.counters.others_sent += 1
        if self.hub.watching.wanted & WATCH_PACKETS:
            self.hub.watching.message_audience.packet_sent(self.client_id, encoded[0], len(encoded))

    def check_fits(self, packet):
        """Raise ProtocolError if the client does not accept a packet of that size."""
        self._encoded(packet)

    def _encoded(self, packet):
        encoded = encode(packet, self.version)
        if not self.fits(len(encoded)):  # [MQTT-3.1.2-24]
            raise ProtocolError(PACKET_TOO_LARGE, "the client does not accept an answer of this size")
        return encoded

    cdef ByteBuffer promises(self):
        """Where frames go that may leave only after this turn's records are kept."""
        if not self.hub.promises.are_held:
            self.mark()
            return self.out
        if not self.is_holding:
            self.is_holding = True
            self.hub.promises.held_outlets.append(self)
        return self.held

    cdef int acknowledge(self, unsigned char first, unsigned int packet_id, unsigned int reason) except -1:
        """Append PUBACK, PUBREC, PUBREL or PUBCOMP; success is left out, as every version may."""
        cdef ByteBuffer out = self.promises()
        cdef unsigned char* cursor = out.reserve(5)
        cdef bint with_reason = reason != 0 and self.is_v5
        cursor[0] = first
        cursor[1] = 3 if with_reason else 2
        cursor[2] = <unsigned char>(packet_id >> 8)
        cursor[3] = <unsigned char>packet_id
        if with_reason:
            cursor[4] = <unsigned char>reason
        out.tail += 5 if with_reason else 4
        self.hub.counters.others_sent += 1
        if self.hub.watching.wanted & (WATCH_ANSWERED | WATCH_PACKETS):
            self.hub.watching.message_audience.answered(self.client_id, first, packet_id, reason,
                                                        5 if with_reason else 4)
        return 0

    # ---- holding -------------------------------------------------------------------------------------

    def promise_held(self):
        """The store is given what is noted: what is held for that leaves with the next `release_promised`."""
        self.held, self.promised = self.promised, self.held
        self.promised_answers = self.noted_answers
        self.noted_answers = 0
        self.is_holding = False

    def release_promised(self):
        """The store has kept what it was given."""
        if self.leaving.size() == 0:
            self.leaving, self.promised = self.promised, self.leaving
        else:
            self.leaving.append(self.promised.start(), self.promised.size())
            self.promised.release()
        self.out = self.leaving
        self.held_answers -= self.promised_answers
        self.mark()

    # ---- messages ------------------------------------------------------------------------------------

    cdef Forwarded forward(self, const unsigned char* frames, Py_ssize_t size, long long messages) except *:
        """Append ready QoS 0 frames, unless the output is full."""
        cdef Py_ssize_t pending = self.pending_bytes()
        cdef Py_ssize_t limit = self.hub.output_limit()
        cdef Py_ssize_t written
        if pending >= limit and (self.impatient or pending + size > 2 * limit):
            self.hub.counters.drop(DROP_SLOW_SUBSCRIBER, messages)
            return DROPPED
        self.hub.counters.publishes_sent += messages
        self.hub.counters.publish_bytes_sent += size
        if size >= WRITE_THROUGH_BYTES and pending == 0 and self.direct is not None:
            written = self.direct.write_now(frames, size)
            frames += written
            size -= written
            if size == 0:
                return TAKEN
        self.out.append(frames, size)
        self.mark()
        if pending + size < limit:
            return TAKEN
        return self.overfull()

    cdef Forwarded send_qos0(self, Message message, bint retain, bytes identifiers) except *:
        cdef Py_ssize_t pending = self.pending_bytes()
        cdef Py_ssize_t limit = self.hub.output_limit()
        cdef bint is_entry
        if pending >= limit and (self.impatient or pending > 2 * limit):
            self.hub.drop_message(DROP_SLOW_SUBSCRIBER, message, self.client_id)
            return DROPPED
        # An entry of another node comes again if this node crashes before it is kept: what it brings is held.
        is_entry = message.origin != 0 and (message.qos or message.retain)
        if not self.publish(self.promises() if is_entry else self.out, message, 0, retain, False, 0, identifiers):
            return DROPPED
        self.mark()
        if self.pending_bytes() < limit:
            return TAKEN
        return self.overfull()

    cdef bint publish(self, ByteBuffer out, Message message, int qos, bint retain, bint dup, int packet_id,
                      bytes identifiers) except -1:
        """Append a PUBLISH; False if it was dropped (and counted) because it is too old or too large."""
        cdef int alias = 0
        cdef bint topic_known = False
        cdef Py_ssize_t size
        # A delivery that has begun is finished, however long that takes [MQTT-4.3.3-7].
        if message.expires_at_s and self.hub.now >= message.expires_at_s and not dup:
            self.hub.drop_message(DROP_EXPIRED, message, self.client_id)  # [MQTT-3.3.2-5]
            return False
        # A held frame may leave after a later unheld one, so only frames sent at once may define an alias.
        if self.alias_max and not self.hub.promises.are_held:
            alias = self.alias_for(message.topic, &topic_known)
        if self.client_packet_bytes_max != UNLIMITED_BYTES and publish_size(
            message, self.is_v5, qos, identifiers, alias, topic_known
        ) > self.client_packet_bytes_max:
            if alias and not topic_known:
                del self.aliases[message.topic]
            self.hub.drop_message(DROP_PACKET_TOO_LARGE, message, self.client_id)  # [MQTT-3.1.2-25]
            return False
        size = out.size()
        write_publish(out, message, self.is_v5, qos, retain, dup, packet_id, identifiers, alias, topic_known,
                      self.hub.now)
        size = out.size() - size
        self.hub.counters.publishes_sent += 1
        self.hub.counters.publish_bytes_sent += size
        if self.hub.watching.wanted & (WATCH_DELIVERED | WATCH_PACKETS):
            self.hub.watching.message_audience.delivered(message, self.client_id, qos, packet_id, dup, retain, size)
        return True

    cdef int alias_for(self, bytes topic, bint* known) except -1:
        """The alias to send with `topic`, 0 for none; aliases go to the first topics and stay theirs."""
        if self.aliases is None:
            self.aliases = {}
        found = self.aliases.get(topic)
        if found is not None:
            known[0] = True
            return found
        if len(self.aliases) >= self.alias_max:
            return 0
        self.aliases[topic] = len(self.aliases) + 1  # [MQTT-3.1.2-26] never above the client's maximum
        return len(self.aliases)

    cdef Forwarded overfull(self) noexcept:
        """The output has gone over its limit."""
        if not self.congested:
            self.congested = True
            self.congested_at_s = self.hub.now
            self.patience_spent_s = max(0.0, self.patience_spent_s - REGAINED * (self.hub.now - self.calm_since_s))
            self.impatient = self.patience_spent_s >= self.hub.patience_s
        return TAKEN if self.impatient else TAKEN_FULL

    # ---- congestion ----------------------------------------------------------------------------------

    def add_waiting(self, feeder):
        """`feeder` has paused its reading; it is told when this output has drained."""
        if self.waiting_feeders is None:
            self.waiting_feeders = []
        self.waiting_feeders.append(feeder)

    def lose_patience(self):
        """Congested for too long: let the feeders go on, and drop QoS 0 until the output has drained."""
        if self.congested:
            self.impatient = True
            self.patience_spent_s = self.hub.patience_s
            self._wake_feeders()

    @property
    def patience_ends_at_s(self):
        """When feeders are to be held back no longer, if it stays congested."""
        return self.congested_at_s + self.hub.patience_s - self.patience_spent_s

    def drained(self):
        """The output has fallen to less than half of its limit: everybody may go on."""
        if self.congested and not self.impatient:
            self.patience_spent_s += self.hub.now - self.congested_at_s
        self.calm_since_s = self.hub.now
        self.congested = False
        self.impatient = False
        self._wake_feeders()

    def ask_for_more(self):
        """The session has more to send, and lets the others have their turn first."""

    def is_drained(self):
        return self.pending_bytes() < self.hub.output_limit() // 2

    def _wake_feeders(self):
        feeders, self.waiting_feeders = self.waiting_feeders, None
        for feeder in feeders or ():
            feeder.feed_on()
