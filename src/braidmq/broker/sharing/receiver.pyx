"""A shared group in the running broker: the pure SharedGroup, its sessions, and what a store has to know of it.

Events come from the router (a message), from sessions (they come, go, acknowledge) and from the control plane;
each is told to `core`, and `carry_out` does what it answers. A session is only given what it can take at once,
so nothing of a group ever waits in a session.

What a store is told. A group is lasting while the session of a member is; only then is it there again after
a crash. Of a lasting group every message of QoS 1 or 2 is on record in exactly one place from its
acknowledgement to the publisher on: under the group (GROUP_QUEUED to GROUP_TAKEN) while it waits, and while a
session has it that a crash would end, since that gives it back; or under the session that has it, if that
lasts. A QoS 2 delivery that has begun dies with its session [MQTT-4.8.2-5], so it is never the group's.

Cost over the core's own: one dictionary lookup a message.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.math cimport INFINITY

from braidmq.broker.hub cimport (
    DROP_AWAY, DROP_EXPIRED, DROP_GROUP_GONE, DROP_NOT_AUTHORIZED, DROP_QUEUE_FULL, DROP_SESSION_ENDED, Drop, Hub,
)
from braidmq.messages.message cimport Message
from braidmq.broker.incoming cimport uint16
from braidmq.broker.outlet cimport Outlet
from braidmq.broker.sharing.policies.base cimport Policy
from braidmq.broker.sharing.effects cimport DropMessage, KeepMessage, SendMessage, WithdrawMessage
from braidmq.broker.sharing.group cimport Delivery, Place, SharedGroup
from braidmq.broker.sharing.member cimport Member
from braidmq.broker.sharing.queue cimport Entry
from braidmq.broker.receiver cimport Outcome, Run, Target
from braidmq.broker.session cimport Session, Sharing
from braidmq.wire.scan cimport read_varint

from braidmq.broker.sharing import effects as reasons
from braidmq.store.records import GROUP_ENDED, GROUP_QUEUED, GROUP_TAKEN

cdef enum:
    PACKET_IDS_MAX = 65535

cdef str GROUP_FULL = reasons.DROP_QUEUE_FULL

# How the hub counts what a group gives up; the others were counted where they happened.
cdef dict COUNTED = {
    reasons.DROP_EXPIRED: <int>DROP_EXPIRED,
    reasons.DROP_QUEUE_FULL: <int>DROP_QUEUE_FULL,
    reasons.DROP_NOBODY_ONLINE: <int>DROP_AWAY,
    reasons.DROP_SESSION_ENDED: <int>DROP_SESSION_ENDED,
    reasons.DROP_GROUP_GONE: <int>DROP_GROUP_GONE,
    reasons.DROP_NO_READER: <int>DROP_NOT_AUTHORIZED,
}


cdef class SessionMember(Member):
    """A session as a member of groups. Its deliveries have the session's own numbers as tokens."""

    def __init__(self, Session session not None):
        self.session = session
        Member.__init__(self, session.client_id, session.hub.now)
        if session.declared is not None:
            self.adopt(session.declared)

    def adopt(self, declared):
        """Take over what the client declared in its CONNECT."""
        self.acks_when_processed = declared.acks_when_processed
        self.has_event_status = declared.reports_events
        self.weight = declared.weight
        self.capacity = declared.capacity

    cdef bint has_room(self) noexcept:
        cdef Session session = self.session
        return session.can_take() and (self.open_promises == 0 or (
            session.outstanding + self.open_promises < session.window
            and session.inflight.count + self.open_promises < PACKET_IDS_MAX
            and session.outlet.waiting_bytes() + self.open_promises_bytes < self.session.hub.output_bytes_max))

    cdef void promised(self, Py_ssize_t size_bytes) noexcept:
        self.open_promises += 1
        self.open_promises_bytes += size_bytes

    cdef bint under_pressure(self) noexcept:
        cdef Outlet outlet = self.session.outlet
        return outlet is None or outlet.backlog_bytes > 0

    cpdef long long take_token(self):
        self.session.last_sequence += 1
        return <long long>self.session.last_sequence


cdef class Group(Sharing):
    def __init__(self, str name not None, bytes filter not None, Hub hub not None, SharedGroup core not None, keeper):
        self.name = name
        self.filter = filter
        self.hub = hub
        self.core = core
        self.keeper = keeper
        self.targets = {}
        self.wakes_at_s = INFINITY

    @property
    def has_members(self):
        """Whether somebody subscribes to it, connected or not."""
        return bool(self.core.members)

    def target(self, Member member not None):
        """The subscription of one of `core.members`."""
        return self.targets[member]

    # ---- messages ------------------------------------------------------------------------------------

    cdef int deliver(self, Message message, Target target, Outcome outcome) except -1:
        cdef SharedGroup core = self.core
        cdef Entry entry = core.new_entry(
            message, message.qos, message.publisher, message.topic, message.cost(),
            message.expires_at_s if message.expires_at_s else INFINITY)
        cdef Member member = core.taker(entry, self.hub.now)
        cdef list effects = []
        cdef long long token
        cdef int qos = 0
        if member is None:
            core.enqueue(entry, self.hub.now, effects)
            return self.carry_out(effects, message, outcome)
        token = core.give(entry, member, self.hub.now, &qos)
        self.send(entry, <SessionMember>member, qos, token, effects, outcome)
        if effects:
            self.carry_out(effects, message, None)
        return 0

    cdef int forward(self, Run run, Target target, Outcome outcome) except -1:
        cdef const unsigned char* frame = run.frames.start
        cdef const unsigned char* body
        cdef unsigned int body_bytes = 0
        cdef Target chosen
        cdef bytes topic = None
        cdef bint needs_topics = self.needs_topics()
        while frame < run.frames.end:
            body = frame + 1 + read_varint(frame + 1, run.frames.end - frame - 1, &body_bytes)
            if needs_topics:
                topic = PyBytes_FromStringAndSize(<char*>body + 2, uint16(body))
            chosen = self.choose_qos0(run.publisher, topic)
            if chosen is not None:
                chosen.receiver.forward(run.part(frame, body + body_bytes), chosen, outcome)
            else:
                self.deliver(run.message(body, body_bytes), target, outcome)
            frame = body + body_bytes
        return 0

    cdef bint may_get(self, bytes topic, object may_read) except -1:
        return self.core.has_reader(topic)

    cdef Target choose_qos0(self, str publisher, bytes topic):
        """The fast lane of QoS 0: who gets the message; None: it must be `deliver`ed."""
        cdef Member member
        if self.core.queue.count or len(self.core.holders):
            return None
        member = self.core.choose(self.hub.now, publisher, topic, 0, 1)
        if member is None:
            return None
        self.core.policy.sent(member, self.hub.now)
        return <Target>self.targets[member]

    cdef bint needs_topics(self):
        """Whether `choose_qos0` has to know the topic."""
        return self.core.policy.is_ordered or self.core.readers.may_read is not None

    cdef bint is_full(self, Py_ssize_t cost) noexcept:
        """Whether the next message may have to be refused."""
        return self.core.queue.count > 0 and (
            self.core.queue.count >= self.core.queue.messages_max
            or self.core.queue.size_bytes + cost > self.core.queue.bytes_max)

    def woken(self):
        """The timer's time has come."""
        self.wakes_at_s = INFINITY
        self.carry_out(self.core.woken(self.hub.now), None, None)

    def sweep(self):
        """Drop what has expired while it waited."""
        if self.core.queue.count:
            self.carry_out(self.core.swept(self.hub.now), None, None)

    # ---- what sessions tell --------------------------------------------------------------------------

    cdef int member_came(self, Session session) except -1:
        self.carry_out(self.core.reconnected(session.member, self.hub.now), None, None)
        return 0

    cdef int member_went(self, Session session) except -1:
        self.carry_out(self.core.disconnected(session.member, self.hub.now), None, None)
        return self.tidy(session)

    cdef int member_has_room(self, Session session) except -1:
        if self.core.queue.count:
            self.carry_out(self.core.pumped(self.hub.now), None, None)
        return 0

    cdef int acknowledged(self, Session session, unsigned long long sequence, unsigned int reason) except -1:
        cdef Delivery delivery
        cdef list effects
        if self.is_lasting and not session.is_remembered:
            delivery = self.core.delivery(session.member, sequence)
            if delivery is not None:
                self.note_taken(delivery.entry)
        effects = self.core.acknowledged(session.member, sequence, self.hub.now, reason)
        if effects:
            self.carry_out(effects, None, None)
        return self.tidy(session)

    cdef int received(self, Session session, unsigned long long sequence) except -1:
        cdef list effects = self.core.received(session.member, sequence, self.hub.now)
        if effects:
            self.carry_out(effects, None, None)
        return 0

    cdef int completed(self, Session session, unsigned long long sequence) except -1:
        cdef list effects = self.core.completed(session.member, sequence, self.hub.now)
        if effects:
            self.carry_out(effects, None, None)
        return self.tidy(session)

    cdef int refused(self, Session session, unsigned long long sequence) except -1:
        self.carry_out(self.core.refused(session.member, sequence, self.hub.now), None, None)
        return self.tidy(session)

    # ---- what the control plane tells ----------------------------------------------------------------

    def join(self, Target target not None):
        """A session subscribes, or changes its subscription."""
        cdef Session session = target.receiver
        self.enter(target)
        effects = self.core.subscribed(session.member, self.hub.now, target.qos, session.outlet is not None)
        self.recount()
        self.carry_out(effects, None, None)

    def enter(self, Target target not None):
        cdef Session session = target.receiver
        if session.member is None:
            session.member = SessionMember(session)
        self.targets[session.member] = target
        if self not in session.groups:
            session.groups.append(self)

    def leave(self, Session session not None):
        """It unsubscribes; what was begun with it is finished."""
        effects = self.core.unsubscribed(session.member, self.hub.now)
        self.recount()
        self.carry_out(effects, None, None)
        self.tidy(session)

    def ended(self, Session session not None):
        """The session is over."""
        effects = self.core.ended(session.member, self.hub.now)
        self.recount()
        self.carry_out(effects, None, None)
        self.tidy(session)

    def reported(self, Session session not None, report):
        """A status report came. Only one group of the session is told, the others get `pumped`."""
        self.carry_out(self.core.reported(session.member, report, self.hub.now), None, None)

    def pumped(self):
        """Something about the members has changed."""
        if self.core.queue.count:
            self.carry_out(self.core.pumped(self.hub.now), None, None)

    def configure(self, Policy policy, settings):
        """Go on with another policy (None: the same) and with these settings."""
        self.carry_out(self.core.settings_changed(settings, self.hub.now), None, None)
        if policy is not None:
            self.carry_out(self.core.policy_changed(policy, self.hub.now), None, None)

    def rights_changed(self):
        self.carry_out(self.core.rights_changed(self.hub.now), None, None)

    def revoke(self, Session session not None, long long sequence):
        """The session has forgotten a delivery that it may no longer read."""
        self.carry_out(self.core.revoked(session.member, sequence, self.hub.now), None, None)
        self.tidy(session)

    def restore_waiting(self, Message message not None, long long sequence):
        """Put back what waited; in order of the sequences. Nothing is noted."""
        self.core.waited(message, sequence, message.qos, message.publisher, message.topic, message.cost(),
                         message.expires_at_s or INFINITY)

    def take_in(self, Message message not None):
        """Give the group a message that is not being published."""
        self.deliver(message, None, None)

    def restore_delivery(self, Target target not None, Message message, unsigned long long sequence, int qos):
        """Put back what a session has under way; its message is None when the client has received it."""
        cdef Session session = target.receiver
        cdef Message kept = message if message is not None else Message(b"", b"")
        if session.member is None or session.member not in self.targets:    # it has unsubscribed since
            self.enter(target)
        self.core.restored(session.member, kept, sequence, self.hub.now, qos, kept.publisher, kept.topic,
                           kept.cost(), kept.expires_at_s or INFINITY, message is None)

    def restored(self, Session session not None):
        """All that was kept of a member is back, and it is away."""
        self.member_went(session)

    cdef int tidy(self, Session session) except -1:
        """Forget the session if nothing is left to do with it, and the group if nobody is."""
        if session.member in self.core.places:
            return 0
        self.targets.pop(session.member, None)
        if self in session.groups:
            session.groups.remove(self)
        if self.core.is_gone:
            self.keeper.gone(self)
        return 0

    # ---- what the core answers -----------------------------------------------------------------------

    cdef int carry_out(self, list effects, Message published, Outcome outcome) except -1:
        """Do it; `outcome` is that of the message that was just published, if one was."""
        cdef Outcome told
        cdef Py_ssize_t index = 0
        cdef list withdrawals = None
        cdef object effect
        cdef SendMessage sending
        while index < len(effects):    # a message that can't be sent adds to them
            effect = effects[index]
            index += 1
            if type(effect) is SendMessage:
                sending = <SendMessage>effect
                told = outcome if sending.entry.message is published else None
                self.send(sending.entry, <SessionMember>sending.member, sending.qos, sending.token, effects, told)
            elif type(effect) is KeepMessage:
                if self.is_lasting and (<KeepMessage>effect).entry.qos:
                    self.note_waiting((<KeepMessage>effect).entry)
                if self.hub.message_audience is not None:
                    why = "no member is free" if len(self.core.policy) else "no member is connected"
                    self.hub.message_audience.queued((<KeepMessage>effect).entry.message, None, self.name, why)
            elif type(effect) is DropMessage:
                self.drop(<DropMessage>effect, published, outcome)
            else:
                if withdrawals is None:
                    withdrawals = []
                withdrawals.append(effect)
        if withdrawals is not None:
            self.withdraw(withdrawals)
        if self.core.queue.count and self.core.wake_at_s < self.wakes_at_s:
            self.wakes_at_s = self.core.wake_at_s
            self.keeper.wake(self, self.wakes_at_s)
        return 0

    cdef int send(self, Entry entry, SessionMember member, int qos, long long token, list effects,
                  Outcome outcome) except -1:
        """Let the member's session send it; what the core says to a message that can't be sent goes to `effects`."""
        cdef Session session = member.session
        cdef Target target = <Target>self.targets[member]
        cdef Message message = <Message>entry.message
        if self.hub.message_audience is not None:
            self.hub.message_audience.selected(message, session.client_id, self.name)
        if qos == 0:
            session.deliver(message, target, outcome)
        else:
            member.open_promises -= 1
            member.open_promises_bytes -= entry.size_bytes
            if not session.send_shared(message, target, qos, token):
                effects += self.core.refused(member, token, self.hub.now)
        if self.is_lasting:
            self.note_sent(entry, session, qos)
        return 0

    cdef int drop(self, DropMessage effect, Message published, Outcome outcome) except -1:
        counted = COUNTED.get(effect.reason)
        if counted is not None:
            self.hub.drop_message(<Drop><int>counted, effect.entry.message, None)
        self.note_taken(effect.entry)
        if effect.entry.message is published and effect.reason is GROUP_FULL and outcome is not None:
            outcome.is_refused = True
        return 0

    cdef int withdraw(self, list withdrawals) except -1:
        cdef WithdrawMessage effect
        by_session = {}
        for effect in withdrawals:
            by_session.setdefault((<SessionMember>effect.member).session, set()).add(effect.token)
        for session, sequences in by_session.items():
            (<Session>session).withdraw(sequences)
        return 0

    # ---- for the store -------------------------------------------------------------------------------

    cdef int note_waiting(self, Entry entry) except -1:
        if not entry.is_noted:
            entry.is_noted = True
            self.hub.journal.append((GROUP_QUEUED, self.name, self.filter, entry.sequence, entry.message))
        return 0

    cdef int note_taken(self, Entry entry) except -1:
        if entry.is_noted:
            entry.is_noted = False
            self.hub.journal.append((GROUP_TAKEN, self.name, self.filter, entry.sequence))
        return 0

    cdef int note_sent(self, Entry entry, Session session, int qos) except -1:
        """It has left the group; but for the store it is still there if a crash would bring it back."""
        if qos == 1 and not session.is_remembered:
            return self.note_waiting(entry)
        return self.note_taken(entry)

    def recount(self):
        """Begin or end to tell the store what waits here, if the first or the last lasting member makes it so."""
        is_lasting = self.hub.journal is not None and any(
            [(<SessionMember>member).session.is_remembered for member in self.core.members])
        if is_lasting and not self.is_lasting:
            self.is_lasting = True
            for entry in self.entrusted():
                self.note_waiting(<Entry>entry)
        elif self.is_lasting and not is_lasting:
            self.is_lasting = False
            self.hub.journal.append((GROUP_ENDED, self.name, self.filter))
            for entry in self.entrusted():
                (<Entry>entry).is_noted = False

    def lasts_no_longer(self, Session session not None):
        """The session ends with its connection from now on: what it has would be the group's again."""
        cdef Place place = self.core.places.get(session.member)
        cdef Delivery delivery
        self.recount()
        if self.is_lasting and place is not None:
            for delivery in place.deliveries.values():
                if delivery.qos == 1:
                    self.note_waiting(delivery.entry)

    def entrusted(self):
        """What a crash would leave waiting in the group, in order of publication."""
        cdef Place place
        cdef Delivery delivery
        entries = [entry for entry in self.core.queue if (<Entry>entry).qos]
        for member, place in self.core.places.items():
            if not (<SessionMember>member).session.is_remembered:
                entries += [delivery.entry for delivery in place.deliveries.values() if delivery.qos == 1]
        return sorted(entries, key=lambda entry: entry.sequence)

    def records(self):
        """What rebuilds the waiting messages of a lasting group, whatever the store had of it before."""
        head = (GROUP_ENDED, self.name, self.filter)
        return [head] + [(GROUP_QUEUED, self.name, self.filter, entry.sequence, entry.message)
                         for entry in self.entrusted() if (<Entry>entry).is_noted]

    def check(self):
        """Assert what must hold between any two events (for tests)."""
        cdef Session session
        self.core.check()
        for member, place in self.core.places.items():
            session = (<SessionMember>member).session
            assert session.member is member
            assert self in session.groups
            assert (session.outlet is not None) == (<Place>place).is_online
            open_here = {sequence for _, _, target, _, _, sequence in session.in_flight() if target.group is self}
            assert open_here == set((<Place>place).deliveries), (open_here, (<Place>place).deliveries)
        assert set(self.targets) == set(self.core.places)
