"""One client's session: what is on its way to the client, what waits, what the client has begun to send.

A QoS 1 or 2 delivery is in exactly one place: in `queue` (waiting), or in `inflight` (it has a packet id).
It is sent at once when the client has room for it, else it waits in the bounded queue; acknowledgements pull
the next ones. On a new connection everything in flight is sent again, in order, before anything new
[MQTT-4.4.0-1].

Retained messages for a new subscription are replayed at the client's pace from a list of references, so that
100,000 of them cost neither memory nor a pause of the loop.
"""

from collections import deque
from math import inf

from braidmq.broker.hub cimport (
    DROP_AWAY, DROP_NOT_AUTHORIZED, DROP_QUEUE_FULL, DROP_REJECTED, DROP_SESSION_ENDED, Hub,
)
from braidmq.broker.inflight cimport AWAITS_PUBACK, AWAITS_PUBCOMP, AWAITS_PUBREC, Inflight, Slot
from braidmq.broker.message cimport Message
from braidmq.broker.outlet cimport DROPPED, TAKEN_FULL, Forwarded, Outlet

cdef enum:
    PUBREL = 0x62
    PACKET_IDS_MAX = 65535
    PACKET_IDENTIFIER_NOT_FOUND = 0x92



cdef class Target:
    """What the matching subscriptions of one session ask for, taken together."""

    def __init__(self, Session session not None, int qos, bint retain_as_published=False,
                 bytes identifiers not None=b"", group=None, bint spares_publisher=False, Target own=None):
        self.session = session
        self.qos = qos
        self.retain_as_published = retain_as_published
        self.identifiers = identifiers
        self.group = group
        self.spares_publisher = spares_publisher
        self.own = own


cdef class Delivery:
    """A QoS 1 or 2 message that waits in a session's queue."""

    cdef readonly Message message
    cdef readonly Target target
    cdef readonly int qos
    cdef readonly bint retain
    cdef readonly unsigned long long sequence


cdef class Session:
    def __init__(self, Hub hub not None, str client_id not None, str owner=None):
        self.hub = hub
        self.client_id = client_id
        self.owner = owner
        self.inflight = Inflight()
        self.subscriptions = {}
        self.expiry_s = 0.0
        self.window = PACKET_IDS_MAX

    def remember(self, bint remembered):
        """Whether the session outlives its connection, so that its changes are noted for the store."""
        self.is_remembered = remembered and self.hub.journal is not None

    # ---- the client comes and goes -------------------------------------------------------------------

    def attach(self, Outlet outlet not None, int window):
        """The client is here: send again what was in flight, then what waits."""
        self.outlet = outlet
        self.window = window
        self.outstanding = 0
        unsettled = self.inflight.in_order()
        self.resend = deque(unsettled) if unsettled else None
        self.pump()

    def detach(self):
        """The client is away. Retained messages not yet replayed are forgotten with the connection."""
        self.outlet = None
        self.resend = None
        self.replay = None
        self.outstanding = 0
        self.inflight.shrink()

    # ---- towards the client --------------------------------------------------------------------------

    cdef bint may_send(self) noexcept:
        return (self.outlet is not None and self.outstanding < self.window
                and self.inflight.count < PACKET_IDS_MAX and self.outlet.has_room())

    cdef Outcome deliver(self, Message message, Target target, bint retain) except *:
        cdef int qos = message.qos if message.qos < target.qos else target.qos
        cdef Forwarded forwarded
        if qos == 0:
            if self.outlet is None:
                self.hub.drop_message(DROP_AWAY, message, self.client_id)
                return NOT_DELIVERED
            forwarded = self.outlet.send_qos0(message, retain, target.identifiers)
            if forwarded == DROPPED:
                return NOT_DELIVERED
            return DELIVERED_FULL if forwarded == TAKEN_FULL else DELIVERED
        if self.queue is None and self.resend is None and self.may_send():
            self.last_sequence += 1
            if self.is_remembered:
                self.hub.journal.queued(self.client_id, &self.named, self.last_sequence, message, qos, retain,
                                        target.identifiers, target.group)
            self.send(message, target, qos, retain, self.last_sequence)
            return DELIVERED
        return self.enqueue(message, target, qos, retain)

    cdef bint is_full(self, Py_ssize_t cost) noexcept:
        """Whether the queue has no place for a message of that cost."""
        if self.queue is None:
            return False
        return len(self.queue) >= self.hub.queue_messages_max or self.queue_bytes + cost > self.hub.queue_bytes_max

    cdef Outcome enqueue(self, Message message, Target target, int qos, bint retain) except *:
        cdef Delivery delivery
        cdef Py_ssize_t cost = message.cost()
        if self.is_full(cost):
            self.hub.drop_message(DROP_QUEUE_FULL, message, self.client_id)
            return REFUSED
        if self.queue is None:
            self.queue = deque()
        self.last_sequence += 1
        delivery = Delivery.__new__(Delivery)
        delivery.message = message
        delivery.target = target
        delivery.qos = qos
        delivery.retain = retain
        delivery.sequence = self.last_sequence
        self.queue.append(delivery)
        self.queue_bytes += cost
        if self.is_remembered:
            self.hub.journal.queued(self.client_id, &self.named, self.last_sequence, message, qos, retain,
                                    target.identifiers, target.group)
        if self.hub.message_audience is not None:
            why = "the client is away" if self.outlet is None else "the client is behind"
            self.hub.message_audience.queued(message, self.client_id, None, why)
        return DELIVERED

    cdef bint send(self, Message message, Target target, int qos, bint retain,
                   unsigned long long sequence) except -1:
        """Give the delivery a packet id and write it; False if it was dropped as too old or too large."""
        cdef int packet_id = self.inflight.add(message, target, qos, retain, sequence)
        if not self.outlet.publish(self.outlet.promises(), message, qos, retain, False, packet_id,
                                   target.identifiers):
            self.inflight.remove(self.inflight.find(packet_id))
            self.settle(sequence)
            return False
        self.outstanding += 1
        if self.is_remembered:
            self.hub.journal.sent(self.client_id, &self.named, sequence, packet_id)
        return True

    cdef int send_again(self, unsigned int packet_id) except -1:
        cdef Slot* slot = self.inflight.find(packet_id)
        cdef Target target
        if slot == NULL:
            return 0
        self.outstanding += 1
        if slot.stage == AWAITS_PUBCOMP:
            return self.outlet.acknowledge(PUBREL, packet_id, 0)
        target = <Target>slot.target
        if not self.outlet.publish(self.outlet.promises(), <Message>slot.message,
                                   1 if slot.stage == AWAITS_PUBACK else 2, slot.retain, True, packet_id,
                                   target.identifiers):  # [MQTT-3.3.1-1] sent again, so DUP is set
            self.outstanding -= 1
            sequence = slot.sequence
            self.inflight.remove(slot)
            self.settle(sequence)
        return 0

    cdef int pump_more(self) except -1:
        """Send what waits, as far as the client has room: first the old, then the queue, then retained ones."""
        cdef Delivery delivery
        while self.resend is not None and self.may_send():
            self.send_again(self.resend.popleft())
            if not self.resend:
                self.resend = None
        while self.queue is not None and self.resend is None and self.may_send():
            delivery = self.queue.popleft()
            self.queue_bytes -= delivery.message.cost()
            if not self.queue:
                self.queue = None
            self.send(delivery.message, delivery.target, delivery.qos, delivery.retain, delivery.sequence)
        while self.replay is not None and self.queue is None and self.resend is None and self.may_send():
            message, target, is_current = self.replay.popleft()
            if not self.replay:
                self.replay = None
            # One that was replaced meanwhile has reached the client as a new message already.
            if is_current(message):
                self.deliver(message, target, True)
        return 0

    def send_retained(self, list messages not None, Target target not None, is_current):
        """Send retained messages to a new subscription, at the client's pace."""
        if not messages:
            return
        if self.replay is None:
            self.replay = deque()
        self.replay.extend([(message, target, is_current) for message in messages])
        self.pump()

    def has_room_again(self):
        """The connection's output has drained."""
        self.pump()

    # ---- the client answers --------------------------------------------------------------------------

    cdef int settle(self, unsigned long long sequence) except -1:
        if self.is_remembered:
            self.hub.journal.settled(self.client_id, &self.named, sequence)
        return 0

    cdef int finish(self, Slot* slot, unsigned int reason) except -1:
        cdef unsigned long long sequence = slot.sequence
        if reason >= 0x80 and slot.stage != AWAITS_PUBCOMP:
            # [MQTT-4.8.2-6] nobody else gets it either
            self.hub.drop_message(DROP_REJECTED, <object>slot.message, self.client_id)
        self.inflight.remove(slot)
        if self.outstanding:
            self.outstanding -= 1
        self.settle(sequence)
        return self.pump()

    cdef int puback(self, unsigned int packet_id, unsigned int reason) except -1:
        cdef Slot* slot = self.inflight.find(packet_id)
        if slot != NULL and slot.stage == AWAITS_PUBACK:
            self.finish(slot, reason)
        return 0

    cdef int pubrec(self, unsigned int packet_id, unsigned int reason) except -1:
        cdef Slot* slot = self.inflight.find(packet_id)
        if slot == NULL or slot.stage == AWAITS_PUBACK:
            if reason < 0x80:
                self.outlet.acknowledge(PUBREL, packet_id, PACKET_IDENTIFIER_NOT_FOUND)
            return 0
        if reason >= 0x80:
            return self.finish(slot, reason)  # [MQTT-4.3.3-4] the exchange ends here
        if slot.stage == AWAITS_PUBREC:
            self.inflight.received(slot)
            if self.is_remembered:
                self.hub.journal.received(self.client_id, &self.named, slot.sequence)
        return self.outlet.acknowledge(PUBREL, packet_id, 0)

    cdef int pubcomp(self, unsigned int packet_id) except -1:
        cdef Slot* slot = self.inflight.find(packet_id)
        if slot != NULL and slot.stage == AWAITS_PUBCOMP:
            self.finish(slot, 0)
        return 0

    # ---- QoS 2 from the client -----------------------------------------------------------------------

    def begin_inbound(self, int packet_id):
        """Note the id of a QoS 2 publish; False if it is known, and the publish therefore a repetition."""
        if self.inbound is None:
            self.inbound = set()
        elif packet_id in self.inbound:
            return False
        self.inbound.add(packet_id)
        if self.is_remembered:
            self.hub.journal.inbound(self.client_id, &self.named, packet_id, False)
        return True

    def end_inbound(self, int packet_id):
        """The client has released the id; False if it wasn't in use."""
        if self.inbound is None or packet_id not in self.inbound:
            return False
        self.inbound.remove(packet_id)
        if self.is_remembered:
            self.hub.journal.inbound(self.client_id, &self.named, packet_id, True)
        return True

    # ---- after a restart -----------------------------------------------------------------------------

    def restore_queued(self, Message message not None, Target target not None, int qos, bint retain,
                       unsigned long long sequence):
        """Put back a delivery that waited; they come in order of their sequence. Nothing is noted."""
        cdef Delivery delivery = Delivery.__new__(Delivery)
        delivery.message = message
        delivery.target = target
        delivery.qos = qos
        delivery.retain = retain
        delivery.sequence = sequence
        if self.queue is None:
            self.queue = deque()
        self.queue.append(delivery)
        self.queue_bytes += message.cost()
        self.last_sequence = max(self.last_sequence, sequence)

    def restore_sent(self, int packet_id, Message message, Target target not None, int qos, bint retain,
                     unsigned long long sequence):
        """Put back a delivery under its packet id; one whose message is None was received by the client."""
        cdef int stage = AWAITS_PUBCOMP if message is None else AWAITS_PUBACK if qos == 1 else AWAITS_PUBREC
        self.inflight.restore(packet_id, message, target, stage, retain, sequence)
        self.last_sequence = max(self.last_sequence, sequence)

    def restore_inbound(self, set packet_ids not None):
        """Put back the ids of QoS 2 publishes that the client has yet to release."""
        self.inbound = packet_ids or None

    def in_flight(self):
        """What is under way: (packet id, message or None once received, target, qos, retain, sequence)."""
        cdef Slot* slot
        cdef list found = []
        for packet_id in self.inflight.in_order():
            slot = self.inflight.find(packet_id)
            found.append((packet_id, <object>slot.message, <object>slot.target,
                          1 if slot.stage == AWAITS_PUBACK else 2, slot.retain != 0, slot.sequence))
        return found

    def under_way(self, unsigned int packet_id):
        """What was sent under an id and isn't finished: (qos, message or None once received); or None."""
        cdef Slot* slot = self.inflight.find(packet_id)
        if slot == NULL:
            return None
        return 1 if slot.stage == AWAITS_PUBACK else 2, <object>slot.message

    # ---- rights --------------------------------------------------------------------------------------

    def forget(self, may_read):
        """Drop what waits and `may_read(topic)` denies; what of it belongs to shared groups, for others.

        What is under way to a client that is here has reached it; for one that is away it waits, too.
        """
        cdef Slot* slot
        cdef Delivery delivery
        cdef Target target
        movable = []
        kept = deque()
        for delivery in self.queue or ():
            if may_read(delivery.message.topic):
                kept.append(delivery)
                continue
            self.queue_bytes -= delivery.message.cost()
            self.settle(delivery.sequence)
            if delivery.target.group is not None:
                movable.append((delivery.message, delivery.target))
            else:
                self.hub.drop_message(DROP_NOT_AUTHORIZED, delivery.message, self.client_id)
        self.queue = kept or None
        for packet_id in self.inflight.in_order() if self.outlet is None else ():
            slot = self.inflight.find(packet_id)
            if slot.stage == AWAITS_PUBCOMP or may_read((<Message>slot.message).topic):
                continue
            sequence = slot.sequence
            self.hub.drop_message(DROP_NOT_AUTHORIZED, <object>slot.message, self.client_id)
            self.inflight.remove(slot)
            self.settle(sequence)
        self.replay = deque([waiting for waiting in self.replay or () if may_read(waiting[0].topic)]) or None
        return movable

    # ---- the end -------------------------------------------------------------------------------------

    def abandon(self):
        """End the session: deliveries of shared groups that another member may have; the rest is dropped.

        A QoS 2 delivery that has begun stays with its member and dies with it [MQTT-4.8.2-5].
        """
        cdef Slot* slot
        cdef Delivery delivery
        cdef Target target
        movable = []
        for packet_id in self.inflight.in_order():
            slot = self.inflight.find(packet_id)
            target = <Target>slot.target
            if slot.stage == AWAITS_PUBACK and target.group is not None:
                movable.append((<Message>slot.message, target))
            elif slot.stage != AWAITS_PUBCOMP:
                self.hub.drop_message(DROP_SESSION_ENDED, <object>slot.message, self.client_id)
            self.inflight.remove(slot)
        for delivery in self.queue or ():
            if delivery.target.group is not None:
                movable.append((delivery.message, delivery.target))
            else:
                self.hub.drop_message(DROP_SESSION_ENDED, delivery.message, self.client_id)
        self.queue = None
        self.queue_bytes = 0
        return movable

    @property
    def is_connected(self):
        return self.outlet is not None

    @property
    def queued(self):
        """Deliveries that wait for room at the client, or for the client."""
        return len(self.queue) if self.queue is not None else 0

    def check(self):
        """Assert the session's invariants (for tests)."""
        assert self.queue is None or len(self.queue) > 0
        assert self.queue_bytes == sum((<Delivery>d).message.cost() for d in self.queue or ())
        assert 0 <= self.outstanding <= self.inflight.count
        ids = self.inflight.in_order()
        assert len(set(ids)) == len(ids) == self.inflight.count
        assert self.outlet is not None or (self.resend is None and self.replay is None)
