"""One client's session: what is on its way to the client, what waits, what the client has begun to send.

A QoS 1 or 2 delivery is in exactly one place: in `queue` (waiting), or in `inflight` (it has a packet id).
It is sent at once when the client has room for it, else it waits in the bounded queue; acknowledgements pull
the next ones. On a new connection everything in flight is sent again, in order, before anything new
[MQTT-4.4.0-1].

What belongs to a shared group waits in the group, never here: a group gives a session only what it can take at
once, and what becomes of it is put on the groups' agenda. What else the session sends and gets acknowledged is told
to its `member`.

Retained messages for a new subscription are looked for at the client's pace, so that 100,000 of them cost neither
memory nor a pause of the loop.
"""

from collections import OrderedDict, deque

from braidmq.broker.backlog cimport Ring, Waiting
from braidmq.broker.counters cimport (
    DROP_AWAY, DROP_NOT_AUTHORIZED, DROP_QUEUE_FULL, DROP_REJECTED, DROP_SESSION_ENDED,
)
from braidmq.broker.hub cimport Hub
from braidmq.broker.inflight cimport AWAITS_PUBACK, AWAITS_PUBCOMP, AWAITS_PUBREC, Inflight, Slot
from braidmq.messages.message cimport Message
from braidmq.broker.outlet cimport DROPPED, TAKEN_FULL, Forwarded, Outlet
from braidmq.broker.queued cimport QueuedReceiver
from braidmq.broker.receiver cimport Frames, Outcome, Receiver, Run, Target
from braidmq.broker.sharing.agenda cimport (
    ACKNOWLEDGED, COMPLETED, MEMBER_CAME, MEMBER_WENT, RECEIVED, UNSENDABLE,
)
from braidmq.broker.sharing.member cimport Delivery
from braidmq.wire.scan cimport read_varint

from braidmq.errors import ProtocolError

cdef enum:
    PUBREL = 0x62
    PACKET_IDS_MAX = 65535
    PROTOCOL_ERROR = 0x82
    PACKET_IDENTIFIER_NOT_FOUND = 0x92
    REPLAYED_AT_A_STRETCH = 256    # retained messages that are looked at before others have their turn,
    REPLAY_SHARE = 4               # or until this part of a turn's time is over: rules may make looking slow
    FETCHED_BELOW = 64    # deliveries that are left in memory when the next page is read


OVERFLOWS = ("drop_newest", "drop_oldest", "refuse")


cdef inline Delivery delivery_of(Slot* slot):
    """What the session's groups know it as, or None."""
    return <Delivery>slot.delivery if slot.delivery != NULL else None


END = object()  # of an iterator


cdef class Session(QueuedReceiver):
    def __init__(self, Hub hub not None, str client_id not None, str owner=None):
        QueuedReceiver.__init__(self, hub, client_id)
        self.owner = owner
        self.inflight = Inflight()
        self.subscriptions = {}
        self.expiry_s = 0.0
        self.window = PACKET_IDS_MAX
        self.overflow = hub.limits.overflow

    def remember(self, bint remembered):
        """Whether the session outlives its connection, so that its changes are noted for the store."""
        self.is_remembered = remembered and self.hub.promises.journal is not None

    # ---- the client comes and goes -------------------------------------------------------------------

    def attach(self, Outlet outlet not None, int window):
        """The client is here: send again what was in flight, then what waits."""
        self.outlet = outlet
        self.window = window
        self.outstanding = 0
        self.inbound_before = set(self.inbound) if self.inbound else None
        unsettled = self.inflight.in_order()
        self.resend = deque(unsettled) if unsettled else None
        if self.member is not None:
            self.member.connected(self.hub.now)
        self.pump()
        if self.member is not None:
            self.agenda.tell_of_member(MEMBER_CAME, self.member)
            self.agenda.work_off()

    def detach(self):
        """The client is away. Retained messages not yet replayed are forgotten with the connection."""
        self.outlet = None
        self.resend = None
        self.replay = None
        self.awaits_replay = False
        self.outstanding = 0
        if self.member is not None:
            self.agenda.tell_of_member(MEMBER_WENT, self.member)
            self.agenda.work_off()
        self.inflight.shrink()
        self.note_pageable()

    # ---- towards the client --------------------------------------------------------------------------

    cdef bint may_send(self) noexcept:
        return (self.outlet is not None and self.outstanding < self.window
                and self.inflight.count < PACKET_IDS_MAX and self.outlet.has_room())

    cdef bint can_take(self) noexcept:
        """Whether a delivery would be sent at once."""
        return self.queue is None and self.resend is None and self.may_send()

    cdef int deliver(self, Message message, Target target, Outcome outcome) except -1:
        if self.passage is not None and message.qos and target.qos and not self.passage.takes(message, target):
            return 0
        return self.hand_out(message, target, message.retain and target.retain_as_published, outcome)

    def take(self, Message message not None, Target target not None):
        """Deliver a message past the passage, which has decided on it before."""
        self.hand_out(message, target, message.retain and target.retain_as_published, None)

    cdef int hand_out(self, Message message, Target target, bint retain, Outcome outcome) except -1:
        cdef int qos = message.qos if message.qos < target.qos else target.qos
        if qos == 0:
            return self.hand_out_qos0(message, target, retain, outcome)
        if not self.can_take():
            return self.enqueue(message, target, qos, retain, outcome)
        self.last_sequence += 1
        self.note_queued(message, target, qos, retain, self.last_sequence)
        self.send(message, target, qos, retain, self.last_sequence)
        return 0

    cdef int hand_out_qos0(self, Message message, Target target, bint retain, Outcome outcome) except -1:
        cdef Forwarded forwarded
        if self.outlet is None:
            return self.hub.drop_message(DROP_AWAY, message, self.client_id)
        forwarded = self.outlet.send_qos0(message, retain, target.identifiers)
        if forwarded == DROPPED:
            return 0
        if self.member is not None and target.group is None:
            self.member.sent(self.hub.now)
        if forwarded == TAKEN_FULL and outcome is not None:
            outcome.congested = self.outlet
        return 0

    cdef int forward(self, Run run, Target target, Outcome outcome) except -1:
        cdef Outlet outlet = self.outlet
        cdef Frames frames = run.frames
        if outlet is None:
            self.hub.counters.drop(DROP_AWAY, frames.count)
            return 0
        if self.member is not None and target.group is None:
            self.member.sent_many(self.hub.now, frames.count)
        # Translation adds a byte to the body, and perhaps one to the length before it.
        if (len(target.identifiers) or outlet.alias_max
                or frames.largest_bytes + 2 > outlet.client_packet_bytes_max):
            return self.forward_singly(run, target, outcome)
        if outlet.is_v5 != run.is_v5:
            frames = run.in_version(outlet.is_v5)
        if outlet.forward(frames.start, frames.end - frames.start, frames.count) == TAKEN_FULL:
            outcome.congested = outlet
        return 0

    cdef int forward_singly(self, Run run, Target target, Outcome outcome) except -1:
        """Frames of which each has to be written anew for this client."""
        cdef const unsigned char* frame = run.frames.start
        cdef unsigned int body_bytes = 0
        while frame < run.frames.end:
            frame += 1 + read_varint(frame + 1, run.frames.end - frame - 1, &body_bytes)
            if self.outlet.send_qos0(run.message(frame, body_bytes), False, target.identifiers) == TAKEN_FULL:
                outcome.congested = self.outlet
            frame += body_bytes
        return 0

    cdef bint may_get(self, bytes topic, object may_read) except -1:
        return may_read(self, topic)

    cdef bint is_full(self, Py_ssize_t cost) noexcept:
        return self.on_overflow == REFUSE and self.lacks_room(cost)

    cdef bint lacks_room(self, Py_ssize_t cost) noexcept:
        """Whether the queue has no place for a message of that cost. An empty one has for any."""
        if self.queue is None:
            return False
        return self.queue.count >= self.hub.queue_messages_max or self.queue_bytes + cost > self.hub.queue_limit()

    cdef int enqueue(self, Message message, Target target, int qos, bint retain, Outcome outcome) except -1:
        """Let the delivery wait, if there is room or room can be made."""
        cdef Py_ssize_t cost = message.cost()
        if self.lacks_room(cost) and not self.make_room(message, outcome):
            return 0
        self.last_sequence += 1
        self.wait(message, target, qos, retain, self.last_sequence)
        self.note_queued(message, target, qos, retain, self.last_sequence)
        if self.hub.watching.message_audience is not None:
            why = "the client is away" if self.outlet is None else "the client is behind"
            self.hub.watching.message_audience.queued(message, self.client_id, None, why)
        return 0

    cdef bint make_room(self, Message message, Outcome outcome) except -1:
        """Give up what has waited longest; False: the message itself is given up."""
        if self.on_overflow == DROP_OLDEST:
            while self.lacks_room(message.cost()):
                self.drop_oldest()
            return True
        if self.on_overflow == REFUSE and outcome is not None:
            outcome.is_refused = True
        self.hub.drop_message(DROP_QUEUE_FULL, message, self.client_id)
        return False

    cdef int drop_oldest(self) except -1:
        cdef Message message
        if self.queue.head.count == 0:
            self.hub.pager.drop_page(self)
            return 0
        message = <Message>self.queue.head.at(0).message
        self.settle(self.queue.head.at(0).sequence)
        self.take_first()
        return self.hub.drop_message(DROP_QUEUE_FULL, message, self.client_id)

    @property
    def overflow(self):
        """What becomes of deliveries that find the queue full: one of the words of `[limits] overflow`."""
        return OVERFLOWS[<int>self.on_overflow]

    @overflow.setter
    def overflow(self, str rule not None):
        self.on_overflow = <Overflow><int>OVERFLOWS.index(rule)

    cdef bint send_shared(self, Message message, Target target, Delivery delivery) except -1:
        """Send what a shared group has chosen this session for, while it `can_take`."""
        cdef bint retain = message.retain and target.retain_as_published
        self.note_queued(message, target, delivery.qos, retain, delivery.token)
        return self.send(message, target, delivery.qos, retain, delivery.token, delivery)

    cdef bint send(self, Message message, Target target, int qos, bint retain,
                   unsigned long long sequence, Delivery delivery=None) except -1:
        """Give the delivery a packet id and write it; False if it was dropped as too old or too large."""
        cdef int packet_id
        if self.member is not None and delivery is None:
            delivery = self.member.plain_delivery(sequence)
        packet_id = self.inflight.add(message, target, qos, retain, sequence, delivery)
        if not self.outlet.publish(self.outlet.promises(), message, qos, retain, False, packet_id,
                                   self.extras(target, sequence)):
            self.inflight.remove(self.inflight.find(packet_id))
            self.settle(sequence)
            return False
        self.outstanding += 1
        if self.member is not None and target.group is None:
            self.member.sent(self.hub.now, delivery)
        if self.is_remembered:
            self.hub.promises.journal.sent(self.client_id, &self.named, sequence, packet_id)
        return True

    cdef int send_again(self, unsigned int packet_id) except -1:
        cdef Slot* slot = self.inflight.find(packet_id)
        cdef Target target
        cdef Delivery delivery
        if slot == NULL:
            return 0
        self.outstanding += 1
        if slot.stage == AWAITS_PUBCOMP:
            return self.outlet.acknowledge(PUBREL, packet_id, 0)
        target = <Target>slot.target
        if not self.outlet.publish(self.outlet.promises(), <Message>slot.message,
                                   1 if slot.stage == AWAITS_PUBACK else 2, slot.retain, True, packet_id,
                                   self.extras(target, slot.sequence)):  # [MQTT-3.3.1-1] sent again, so DUP is set
            self.outstanding -= 1
            sequence = slot.sequence
            delivery = delivery_of(slot)
            self.inflight.remove(slot)
            self.settle(sequence)
            if delivery is None:
                return 0
            if target.group is not None:
                self.agenda.tell_of_delivery(UNSENDABLE, target.group, delivery, 0)
            else:
                delivery.member.withdrawn(delivery)
        return 0

    cdef int pump_more(self) except -1:
        """Send what waits, as far as the client has room: first the old, then the queue, then retained ones."""
        while self.resend is not None and self.may_send():
            self.send_again(self.resend.popleft())
            if not self.resend:
                self.resend = None
        while self.queue is not None and self.resend is None and self.may_send():
            if self.queue.head.count == 0:
                break
            self.send_waiting()
        if self.queue is not None and self.queue.head.count < FETCHED_BELOW and self.queue.page_count():
            self.hub.pager.fetch(self)
        if self.may_replay() and not self.awaits_replay:
            if self.hub.replaying:
                self.await_replay()
            else:
                self.replay_some()
        return 0

    cdef bint may_replay(self) noexcept:
        return self.replay is not None and self.queue is None and self.resend is None and self.may_send()

    cdef int replay_some(self) except -1:
        """Send retained messages, if nothing else waits: some now, and some when the others have had their turn."""
        cdef int looked_at = 0
        cdef double until_s = self.hub.stopwatch.read_s() + self.hub.work_s_max / REPLAY_SHARE
        while self.may_replay():
            if looked_at == REPLAYED_AT_A_STRETCH or (looked_at and self.hub.stopwatch.read_s() > until_s):
                self.await_replay()
                break
            looked_at += 1
            filter = next(iter(self.replay))
            messages, target = self.replay[filter]
            message = next(messages, END)
            if message is END:
                self.stop_replay(filter)
            elif message is not None:
                self.hand_out(message, target, True, None)
        return 0

    cdef int await_replay(self) except -1:
        """Let the others have their turn first."""
        self.awaits_replay = True
        self.outlet.ask_for_more()
        return 0

    def replay_on(self):
        """It is this session's turn to send retained messages."""
        self.awaits_replay = False
        self.replay_some()
        self.has_room_again()

    cdef int send_waiting(self) except -1:
        """Send the first that waits in memory."""
        cdef Waiting* waiting = self.queue.head.at(0)
        cdef Message message = <Message>waiting.message
        cdef Target target = <Target>waiting.target
        cdef int qos = waiting.qos
        cdef bint retain = waiting.retain
        cdef unsigned long long sequence = waiting.sequence
        self.take_first()
        return self.send(message, target, qos, retain, sequence)

    def send_retained(self, bytes filter not None, messages, Target target not None):
        """Send what an iterator finds of retained messages, at the client's pace; None is work that found none."""
        if self.replay is None:
            self.replay = OrderedDict()
        self.replay[filter] = (messages, target)  # of a filter that is still replayed, all over again
        self.replay.move_to_end(filter)
        self.pump()

    def stop_replay(self, bytes filter not None):
        """No more retained messages for that filter."""
        if self.replay is not None:
            self.replay.pop(filter, None)
            self.replay = self.replay or None

    def has_room_again(self):
        """The connection's output has drained."""
        self.pump()
        if self.member is not None:
            if self.can_take():
                self.agenda.tell_of_room(self.member)
            self.agenda.work_off()

    # ---- the client answers --------------------------------------------------------------------------
    # An answer of the wrong kind is a protocol error [MQTT-4.13.1-1]: its delivery would never be finished. An id
    # that stands for nothing may be left from before; only PUBREC has to be answered then.

    cdef int finish(self, Slot* slot, unsigned int reason) except -1:
        cdef unsigned long long sequence = slot.sequence
        cdef Target target = <Target>slot.target
        cdef Delivery delivery = delivery_of(slot)
        cdef bint was_received = slot.stage == AWAITS_PUBCOMP
        if reason >= 0x80 and not was_received:
            # [MQTT-4.8.2-6] nobody else gets it either
            self.hub.drop_message(DROP_REJECTED, <object>slot.message, self.client_id)
        self.inflight.remove(slot)
        if self.outstanding:
            self.outstanding -= 1
        self.settle(sequence)
        self.pump()
        if self.member is None:
            return 0
        if delivery is not None and target.group is not None:
            self.agenda.tell_of_delivery(COMPLETED if was_received else ACKNOWLEDGED, target.group, delivery, reason)
        elif delivery is not None and not was_received:
            self.member.acked(self.hub.now, delivery)
        if self.can_take():
            self.agenda.tell_of_room(self.member)
        return 0

    cdef int puback(self, unsigned int packet_id, unsigned int reason) except -1:
        cdef Slot* slot = self.inflight.find(packet_id)
        if slot == NULL:
            return 0
        if slot.stage != AWAITS_PUBACK:
            raise ProtocolError(PROTOCOL_ERROR, f"PUBACK for the QoS 2 delivery {packet_id}")
        return self.finish(slot, reason)

    cdef int pubrec(self, unsigned int packet_id, unsigned int reason) except -1:
        cdef Slot* slot = self.inflight.find(packet_id)
        cdef Target target
        cdef Delivery delivery
        cdef unsigned long long sequence
        if slot == NULL:
            if reason < 0x80:
                self.outlet.acknowledge(PUBREL, packet_id, PACKET_IDENTIFIER_NOT_FOUND)
            return 0
        if slot.stage == AWAITS_PUBACK:
            raise ProtocolError(PROTOCOL_ERROR, f"PUBREC for the QoS 1 delivery {packet_id}")
        if reason >= 0x80:
            return self.finish(slot, reason)  # [MQTT-4.3.3-4] the exchange ends here
        self.outlet.acknowledge(PUBREL, packet_id, 0)
        if slot.stage == AWAITS_PUBREC:
            target, sequence = <Target>slot.target, slot.sequence
            self.inflight.received(slot)
            if self.is_remembered:
                self.hub.promises.journal.received(self.client_id, &self.named, sequence)
            delivery = delivery_of(slot)
            if delivery is not None and target.group is not None:
                self.agenda.tell_of_delivery(RECEIVED, target.group, delivery, 0)
            elif delivery is not None:
                delivery.member.acked(self.hub.now, delivery)
        return 0

    cdef int pubcomp(self, unsigned int packet_id) except -1:
        cdef Slot* slot = self.inflight.find(packet_id)
        if slot == NULL:
            return 0
        if slot.stage != AWAITS_PUBCOMP:
            raise ProtocolError(PROTOCOL_ERROR, f"PUBCOMP for {packet_id}, which no PUBREC was sent for")
        return self.finish(slot, 0)

    # ---- QoS 2 from the client -----------------------------------------------------------------------

    def begin_inbound(self, int packet_id):
        """Note the id of a QoS 2 publish; False if it is known, and the publish therefore a repetition."""
        if self.inbound is None:
            self.inbound = set()
        elif packet_id in self.inbound:
            return False
        self.inbound.add(packet_id)
        if self.is_remembered:
            self.hub.promises.journal.inbound(self.client_id, &self.named, packet_id, False)
        return True

    cdef Py_ssize_t open_inbound(self) except -1:
        """How many publishes of this connection the client has yet to release: Receive Maximum counts no others."""
        if self.inbound is None:
            return 0
        return len(self.inbound) - (len(self.inbound_before) if self.inbound_before is not None else 0)

    def end_inbound(self, int packet_id):
        """The client has released the id; False if it wasn't in use."""
        if self.inbound is None or packet_id not in self.inbound:
            return False
        self.inbound.remove(packet_id)
        if self.inbound_before is not None:
            self.inbound_before.discard(packet_id)
        if self.is_remembered:
            self.hub.promises.journal.inbound(self.client_id, &self.named, packet_id, True)
        return True

    # ---- after a restart -----------------------------------------------------------------------------

    def restore_sent(self, int packet_id, Message message, Target target not None, int qos, bint retain,
                     unsigned long long sequence, Delivery delivery=None):
        """Put back a delivery under its packet id; one whose message is None was received by the client."""
        cdef int stage = AWAITS_PUBCOMP if message is None else AWAITS_PUBACK if qos == 1 else AWAITS_PUBREC
        self.inflight.restore(packet_id, message, target, stage, retain, sequence, delivery)
        self.last_sequence = max(self.last_sequence, sequence)

    def restore_numbers(self, unsigned long long identity, unsigned long long last_sequence, int last_packet_id):
        """Go on counting where the session was, so that no number is given out twice."""
        self.identity = identity
        self.last_sequence = max(self.last_sequence, last_sequence)
        self.inflight.last_packet_id = last_packet_id

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

    def shared_deliveries(self, Receiver group not None):
        """What is under way of a shared group, in order (for tests)."""
        return [delivery_of(self.inflight.find(packet_id)) for packet_id, _, target, _, _, _ in self.in_flight()
                if target.group is group]

    def under_way(self, unsigned int packet_id):
        """What was sent under an id and isn't finished: (qos, message or None once received); or None."""
        cdef Slot* slot = self.inflight.find(packet_id)
        if slot == NULL:
            return None
        return 1 if slot.stage == AWAITS_PUBACK else 2, <object>slot.message

    # ---- rights --------------------------------------------------------------------------------------

    def forget(self, may_read):
        """Drop what waits and `may_read(topic)` denies; (group, delivery) of what belongs to shared groups.

        What is under way to a client that is here has reached it; for one that is away it waits, too. What
        waits on disk is asked about when it is read.
        """
        cdef Slot* slot
        movable = []
        if self.queue is not None:
            self.forget_waiting(self.queue.head, may_read)
            if self.queue.tail is not None:
                self.forget_waiting(self.queue.tail, may_read)
            self.trim_queue()
        for packet_id in self.inflight.in_order() if self.outlet is None else ():
            slot = self.inflight.find(packet_id)
            if slot.stage == AWAITS_PUBCOMP or may_read((<Message>slot.message).topic):
                continue
            sequence, target = slot.sequence, <Target>slot.target
            if target.group is not None:
                movable.append((target.group, delivery_of(slot)))
            else:
                self.hub.drop_message(DROP_NOT_AUTHORIZED, <object>slot.message, self.client_id)
            self.inflight.remove(slot)
            self.settle(sequence)
        return movable

    cdef int forget_waiting(self, Ring ring, object may_read) except -1:
        cdef Message message
        cdef Target target
        cdef Waiting waiting
        cdef Py_ssize_t _step
        for _step in range(ring.count):
            waiting = ring.at(0)[0]
            message = <Message>waiting.message
            target = <Target>waiting.target
            self.queue.take_first(ring)
            if may_read(message.topic):
                self.queue.add_to(ring, message, target, waiting.qos, waiting.retain, waiting.sequence)
                continue
            self.queue_bytes -= message.cost()
            self.settle(waiting.sequence)
            self.hub.drop_message(DROP_NOT_AUTHORIZED, message, self.client_id)
        return 0

    # ---- the end -------------------------------------------------------------------------------------

    def abandon(self):
        """End the session: what it has is dropped, but for what its shared groups know of and decide on."""
        cdef Slot* slot
        for packet_id in self.inflight.in_order():
            slot = self.inflight.find(packet_id)
            if slot.stage != AWAITS_PUBCOMP and (<Target>slot.target).group is None:
                self.hub.drop_message(DROP_SESSION_ENDED, <object>slot.message, self.client_id)
            self.inflight.remove(slot)
        self.give_up_queue(DROP_SESSION_ENDED)
        if self.member is not None:
            self.member.forget_all()

    def let_go(self):
        """Another node has the session with all that belongs to it: forget it here. Nothing is dropped."""
        cdef Slot* slot
        cdef Receiver group
        cdef Delivery delivery
        for packet_id in self.inflight.in_order():
            slot = self.inflight.find(packet_id)
            group, delivery = (<Target>slot.target).group, delivery_of(slot)
            if group is not None and delivery is not None:    # as far as its group is concerned it is done with
                self.agenda.tell_of_delivery(COMPLETED if slot.stage == AWAITS_PUBCOMP else ACKNOWLEDGED, group,
                                             delivery, 0)
            self.inflight.remove(slot)
        self.empty_queue()
        if self.agenda is not None:
            self.agenda.work_off()

    cdef int withdraw(self, Delivery delivery) except -1:
        """Forget a delivery that a shared group gives to another member. The client is away."""
        cdef Slot* slot = self.inflight.find(delivery.packet_id)
        if slot != NULL and delivery_of(slot) is delivery:
            self.settle(slot.sequence)
            self.inflight.remove(slot)
        return 0

    @property
    def groups(self):
        """The shared groups that know it as a member."""
        return list(self.member.groups) if self.member is not None else []

    @property
    def is_connected(self):
        return self.outlet is not None

    def check(self):
        """Assert the session's invariants (for tests)."""
        QueuedReceiver.check(self)
        assert 0 <= self.outstanding <= self.inflight.count
        ids = self.inflight.in_order()
        assert len(set(ids)) == len(ids) == self.inflight.count
        assert self.outlet is not None or (self.resend is None and self.replay is None)
        assert all([waiting.target.group is None for waiting in self.queue or ()])
