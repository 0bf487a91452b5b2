"""A shared group in the running broker: the pure SharedGroup, its sessions, and what a store has to know of it.

Events come from the router (a message), from sessions by way of the agenda (they come, go, acknowledge) and from
the control plane; each is told to `core`, and `carry_out` does what it answers. A member is only given what it can
send at once, so nothing of a group ever waits in a session.

What a store is told. A group is lasting while the session of a member is; only then is it there again after
a crash. Of a lasting group every message of QoS 1 or 2 is on record in exactly one place from its
acknowledgement to the publisher on: under the group (GROUP_QUEUED to GROUP_TAKEN) while it waits, and while a
session has it that a crash would end, since that gives it back; or under the session that has it, if that
lasts; or in a page (see `pages`). A QoS 2 delivery that has begun dies with its session [MQTT-4.8.2-5], so it is
never the group's.

Cost over the core's own: a few calls a message.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.math cimport INFINITY

from braidmq.broker.counters cimport (
    DROP_AWAY, DROP_EXPIRED, DROP_GROUP_GONE, DROP_NOT_AUTHORIZED, DROP_QUEUE_FULL, DROP_SESSION_ENDED, Drop,
)
from braidmq.broker.hub cimport Hub
from braidmq.messages.message cimport Message
from braidmq.broker.incoming cimport uint16
from braidmq.broker.outlet cimport Outlet
from braidmq.broker.sharing.policies.base cimport Policy
from braidmq.broker.sharing.agenda cimport (
    ACKNOWLEDGED, COMPLETED, MEMBER_CAME, MEMBER_WENT, RECEIVED, Agenda, Happening, SharedReceiver,
)
from braidmq.broker.sharing.effects cimport DropMessage, DropPage, KeepMessage, WithdrawMessage
from braidmq.broker.sharing.far_group cimport take_waiting
from braidmq.broker.sharing.group cimport SharedGroup
from braidmq.broker.sharing.member cimport Delivery, Member, Place
from braidmq.broker.sharing.pages cimport GroupPages
from braidmq.broker.sharing.queue cimport Entry
from braidmq.broker.receiver cimport Outcome, Run, Target
from braidmq.broker.session cimport Session
from braidmq.wire.scan cimport read_varint

from braidmq.broker.sharing import effects as reasons
from braidmq.store.records import GROUP_ENDED, GROUP_PAGED, GROUP_QUEUED, GROUP_TAKEN

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

    cpdef bint send(self, Delivery delivery, object outcome):
        cdef Target target = <Target>delivery.place.target
        if delivery.qos == 0:
            self.session.deliver(<Message>delivery.entry.message, target, <Outcome>outcome)
            return True
        self.open_promises -= 1
        self.open_promises_bytes -= delivery.entry.size_bytes
        return self.session.send_shared(<Message>delivery.entry.message, target, delivery)

    cpdef void withdraw(self, Delivery delivery):
        self.session.withdraw(delivery)

    cdef bint under_pressure(self) noexcept:
        cdef Outlet outlet = self.session.outlet
        return outlet is None or outlet.backlog_bytes > 0

    cdef bint is_lasting(self) noexcept:
        return self.session.is_remembered

    cpdef long long take_token(self):
        self.session.last_sequence += 1
        return <long long>self.session.last_sequence


cdef class GroupReceiver(SharedReceiver):
    def __init__(self, str name not None, bytes filter not None, Hub hub not None, SharedGroup core not None,
                 Agenda agenda not None, registry):
        self.name = name
        self.filter = filter
        self.hub = hub
        self.core = core
        self.agenda = agenda
        self.registry = registry
        self.lasting = set()
        self.near = set()
        self.wakes_at_s = INFINITY
        if hub.pager is not None:
            self.pages = GroupPages(self, hub, hub.pager.pages)

    @property
    def has_members(self):
        """Whether somebody subscribes to it, connected or not."""
        return self.core.subscribed_count > 0

    reports_to = None    # here; see GroupProxy

    @property
    def subscribed_count(self):
        """How many sessions of this broker subscribe to it."""
        return len(self.near)

    def join_cluster(self, long long first):
        """Other nodes may have members; messages have numbers from `first` on."""
        self.is_clustered = True
        self.core.number_from(first)

    def restored_deliveries(self, Member member not None):
        """What the member has had since before a restart: any node may have given it."""
        return [delivery for delivery in self.core.deliveries(member) if (<Delivery>delivery).entry.sequence < 0]

    def wait_for_owner(self, dict waiting not None, list pages not None):
        """After a restart nobody here is in the group: what waited in it is for the node that has it."""
        self.core.stand_aside(True)
        self.is_lasting = True
        self.restore_waiting(waiting, pages)

    def hand_over(self):
        """Another node has the group from now on; its members of this broker have left."""
        self.core.stand_aside(True)
        if self.core.queue.count:
            self.pass_on()
        if self.core.is_gone:
            self.registry.gone(self)

    def take_over(self):
        """This node has the group again, which it had not finished with."""
        self.core.stand_aside(False)

    # ---- messages ------------------------------------------------------------------------------------

    cdef int deliver(self, Message message, Target target, Outcome outcome) except -1:
        self.agenda.work_off()
        return self.carry_out(
            self.core.published(message, self.hub.now, message.qos, message.publisher, message.topic, message.cost(),
                                message.expires_at_s if message.expires_at_s else INFINITY),
            message, outcome)

    cdef int forward(self, Run run, Target target, Outcome outcome) except -1:
        cdef const unsigned char* frame = run.frames.start
        cdef const unsigned char* body
        cdef unsigned int body_bytes = 0
        cdef Target chosen
        cdef bytes topic = None
        cdef bint needs_topics = self.needs_topics()
        self.agenda.work_off()
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
        return <Target>(<Place>self.core.places[member]).target

    cdef bint needs_topics(self):
        """Whether `choose_qos0` has to know the topic."""
        return self.core.policy.is_ordered or self.core.readers.may_read is not None

    cdef bint is_full(self, Py_ssize_t cost) noexcept:
        """Whether the next message may have to be refused."""
        return self.core.refuses and self.core.queue.count > 0 and (
            self.core.queue.count >= self.core.queue.messages_max
            or self.core.queue.size_bytes + cost > self.core.queue.limit_bytes()
            or not self.core.queue.has_memory())

    cdef bint is_nearly_full(self) noexcept:
        """Whether other nodes had better send nothing more here. Told again when there is a tenth more room."""
        cdef double share = 0.8 if self.is_told_full else 0.9
        return self.core.refuses and (
            self.core.queue.count >= share * self.core.queue.messages_max
            or self.core.queue.size_bytes >= share * self.core.queue.limit_bytes())

    cdef int tell_fill(self) except -1:
        self.is_told_full = self.core.queue.count > 0 and self.is_nearly_full()
        self.registry.fill_changed(self, self.is_told_full)
        return 0

    def woken(self):
        """The timer's time has come."""
        self.wakes_at_s = INFINITY
        self.agenda.work_off()
        self.carry_out(self.core.woken(self.hub.now))

    def sweep(self):
        """Drop what has expired while it waited."""
        if self.core.queue.count:
            self.carry_out(self.core.swept(self.hub.now))

    # ---- what members tell, by way of the agenda -----------------------------------------------------

    cdef int member_changed(self, Happening what, Member member) except -1:
        if what == MEMBER_CAME:
            self.count_lasting(member)
            self.carry_out(self.core.reconnected(member, self.hub.now))
        elif what == MEMBER_WENT:
            self.carry_out(self.core.disconnected(member, self.hub.now))
        elif self.core.queue.count:
            self.carry_out(self.core.pumped(self.hub.now))
        return self.tidy(member)

    cdef int delivery_changed(self, Happening what, Delivery delivery, unsigned int reason) except -1:
        cdef list effects
        if what == ACKNOWLEDGED:
            if not delivery.is_over:    # else it waits here again
                self.note_taken(delivery.entry)
            effects = self.core.acknowledged(delivery, self.hub.now, reason)
        elif what == RECEIVED:
            effects = self.core.received(delivery, self.hub.now)
        elif what == COMPLETED:
            effects = self.core.completed(delivery, self.hub.now)
        else:
            effects = self.core.refused(delivery, self.hub.now)
        if effects:
            self.carry_out(effects)
        if self.is_clustered and delivery.entry.sequence < 0:
            self.registry.answered_restored(self, delivery, <int>what, reason)
        return self.tidy(delivery.member)

    # ---- what the control plane tells ----------------------------------------------------------------

    def join(self, Target target not None):
        """A session subscribes, or changes its subscription."""
        cdef Session session = target.receiver
        cdef Member member
        self.agenda.work_off()    # before it enters: who is not in the core is forgotten by what is worked off
        member = self.enter(session)
        effects = self.core.subscribed(member, self.hub.now, target.qos, session.outlet is not None, target)
        self.count_lasting(member)
        self.near.add(member)
        self.carry_out(effects)
        self.registry.near_changed(self)

    def enter(self, Session session not None):
        """The session as a member that knows this group."""
        if session.member is None:
            session.member = SessionMember(session)
            session.agenda = self.agenda
        session.member.groups[self] = None
        return session.member

    def leave(self, Session session not None):
        """It unsubscribes; what was begun with it is finished."""
        cdef Member member = session.member
        self.agenda.work_off()
        self.goes(member)
        effects = self.core.unsubscribed(member, self.hub.now)
        self.count_lasting(member)
        self.carry_out(effects)
        self.tidy(member)

    cdef int goes(self, Member member) except -1:
        """Before it leaves: if it is the last one here, another node that has members gets what waits."""
        self.near.discard(member)
        self.registry.near_changed(self)
        return 0

    def ended(self, Session session not None):
        """The session is over."""
        cdef Member member = session.member
        self.agenda.work_off()
        self.goes(member)
        if self.is_clustered:
            for delivery in self.restored_deliveries(member):
                self.registry.answered_restored(self, delivery, <int>ACKNOWLEDGED, 0)
        effects = self.core.ended(member, self.hub.now)
        self.count_lasting(member)
        self.carry_out(effects)
        self.tidy(member)

    def reported(self, Session session not None, report):
        """A status report came. Only one group of the session is told, the others get `pumped`."""
        self.carry_out(self.core.reported(session.member, report, self.hub.now))

    def pumped(self):
        """Something about the members has changed."""
        if self.core.queue.count:
            self.carry_out(self.core.pumped(self.hub.now))

    def configure(self, Policy policy, settings):
        """Go on with another policy (None: the same) and with these settings."""
        self.carry_out(self.core.settings_changed(settings, self.hub.now))
        if policy is not None:
            self.carry_out(self.core.policy_changed(policy, self.hub.now))

    def rights_changed(self):
        self.carry_out(self.core.rights_changed(self.hub.now))

    def revoke(self, Delivery delivery not None):
        """Its session has forgotten a delivery that it may no longer read."""
        self.carry_out(self.core.revoked(delivery, self.hub.now))
        self.tidy(delivery.member)

    def restore_waiting(self, dict waiting not None, list pages not None):
        """Put back what waited, by its sequence, and on disk. Nothing is noted."""
        cdef Message message
        for page in pages:
            self.pages.restore(page)
        for sequence, message in sorted(waiting.items()):
            self.core.waited(message, sequence, message.qos, message.publisher, message.topic, message.cost(),
                             message.expires_at_s or INFINITY)
        self.see_to_memory()

    def take_in(self, Message message not None):
        """Give the group a message that is not being published."""
        self.deliver(message, None, None)

    def restore_delivery(self, Target target not None, Message message, unsigned long long sequence, int qos):
        """Put back what a session has under way; its message is None when the client has received it."""
        cdef Message kept = message if message is not None else Message(b"", b"")
        return self.core.restored(self.enter(target.receiver), kept, sequence, self.hub.now, qos, kept.publisher,
                                  kept.topic, kept.cost(), kept.expires_at_s or INFINITY, message is None, target)

    def restored(self, Session session not None):
        """All that was kept of a member is back, and it is away."""
        self.count_lasting(session.member)
        self.member_changed(MEMBER_WENT, session.member)

    cdef int tidy(self, Member member) except -1:
        """Forget the member if nothing is left to do with it, and the group if nobody is."""
        if member in self.core.places:
            return 0
        member.groups.pop(self, None)
        if self.core.is_gone:
            self.hub.pageable.pop(self, None)
            self.registry.gone(self)
        return 0

    # ---- what the core answers -----------------------------------------------------------------------

    cdef int carry_out(self, list effects, Message published=None, Outcome outcome=None) except -1:
        """Do it; `outcome` is that of the message that was just published, if one was."""
        cdef Py_ssize_t index = 0
        cdef object effect
        while index < len(effects):    # a message that can't be sent adds to them
            effect = effects[index]
            index += 1
            if type(effect) is Delivery:
                self.send(<Delivery>effect, effects,
                          outcome if (<Delivery>effect).entry.message is published else None)
            elif type(effect) is KeepMessage:
                self.keep((<KeepMessage>effect).entry)
            elif type(effect) is DropMessage:
                self.drop(<DropMessage>effect, published, outcome)
            elif type(effect) is DropPage:
                self.drop_page(<DropPage>effect)
            else:
                (<WithdrawMessage?>effect).delivery.member.withdraw((<WithdrawMessage>effect).delivery)
        if self.is_waiting or self.core.queue.count:
            self.note_whether_waiting()
            if self.core.is_aside and self.core.queue.count:
                self.pass_on()
        return 0

    cdef int pass_on(self) except -1:
        """Another node has the group: what waits here is its own."""
        if not self.registry.knows_owner(self):
            return 0
        for entry in take_waiting(self.core):
            self.note_taken(<Entry>entry)
            self.registry.pass_on(self, (<Entry>entry).message)
        if self.core.queue.pages:
            self.pages.fetch()
        elif self.core.is_gone:
            self.registry.gone(self)
        return self.note_whether_waiting()

    cdef int note_whether_waiting(self) except -1:
        """Something waits here, or did."""
        self.is_waiting = self.core.queue.count > 0
        if not self.is_waiting:
            self.agenda.waiting.pop(self, None)
            return self.tell_fill() if self.is_told_full else 0
        self.agenda.waiting[self] = None
        if self.core.wake_at_s < self.wakes_at_s:
            self.wakes_at_s = self.core.wake_at_s
            self.registry.wake(self, self.wakes_at_s)
        if self.is_clustered and self.is_nearly_full() != self.is_told_full:
            self.tell_fill()
        return self.see_to_memory() if self.core.queue.behind_count else 0

    cdef int see_to_memory(self) except -1:
        """Let what waits behind the lanes go to disk, if need be, and come back when somebody may get it."""
        if self.core.queue.tail:
            self.hub.pageable[self] = None
        if len(self.core.policy) and self.core.queue.wants_page():
            self.pages.fetch()
        return 0

    def page_out(self):
        """Memory is short: put what waits behind the lanes on disk."""
        self.pages.page_out()

    def unpaged(self, list entries not None):
        """A page was read: what it held is in memory again."""
        self.agenda.work_off()
        if self.is_lasting:
            for entry in entries:
                if (<Entry>entry).qos:
                    self.note_waiting(<Entry>entry)
        self.carry_out(self.core.unpaged(entries, self.hub.now))

    cdef int send(self, Delivery delivery, list effects, Outcome outcome) except -1:
        """Let the member send it; what the core says to a message that can't be sent goes to `effects`."""
        if self.hub.watching.message_audience is not None:
            self.hub.watching.message_audience.selected(delivery.entry.message, delivery.member.name, self.name)
        if not delivery.member.send(delivery, outcome):
            effects += self.core.refused(delivery, self.hub.now)
        if self.is_lasting:
            self.note_sent(delivery)
        return 0

    def keep(self, Entry entry not None):
        """It waits here."""
        if self.is_lasting and entry.qos:
            self.note_waiting(entry)
        if self.hub.watching.message_audience is not None:
            why = "no member is free" if len(self.core.policy) else "no member is connected"
            self.hub.watching.message_audience.queued(entry.message, None, self.name, why)

    cdef int drop(self, DropMessage effect, Message published, Outcome outcome) except -1:
        counted = COUNTED.get(effect.reason)
        if counted is not None:
            self.hub.drop_message(<Drop><int>counted, effect.entry.message, None, self.name)
        self.note_taken(effect.entry)
        if (self.core.refuses and effect.reason is GROUP_FULL and effect.entry.message is published
                and outcome is not None):
            outcome.is_refused = True
        return 0

    cdef int drop_page(self, DropPage effect) except -1:
        self.hub.counters.drop(<Drop><int>COUNTED[effect.reason], effect.page.count)
        self.pages.give_up(effect.page)
        return 0

    # ---- for the store -------------------------------------------------------------------------------

    cdef int note_waiting(self, Entry entry) except -1:
        if not entry.is_noted:
            entry.is_noted = True
            self.hub.promises.journal.append((GROUP_QUEUED, self.name, self.filter, entry.sequence, entry.message))
        return 0

    cdef int note_taken(self, Entry entry) except -1:
        if entry.is_noted:
            entry.is_noted = False
            self.hub.promises.journal.append((GROUP_TAKEN, self.name, self.filter, entry.sequence))
        return 0

    cdef int note_sent(self, Delivery delivery) except -1:
        """It has left the group; but for the store it is still there if a crash would bring it back."""
        if delivery.qos == 1 and not delivery.member.is_lasting() and not delivery.is_over:
            return self.note_waiting(delivery.entry)
        return self.note_taken(delivery.entry)

    cdef int count_lasting(self, Member member) except -1:
        """Begin or end to tell the store what waits here, if the first or the last lasting member makes it so."""
        cdef Place place = self.core.places.get(member)
        if place is not None and place.is_subscribed and member.makes_lasting():
            self.lasting.add(member)
        else:
            self.lasting.discard(member)
        if self.lasting and not self.is_lasting:
            self.is_lasting = True
            if self.pages is not None:
                self.pages.note_all()
            for entry in self.entrusted():
                self.note_waiting(<Entry>entry)
        elif self.is_lasting and not self.lasting and not self.core.is_aside:
            self.is_lasting = False
            self.hub.promises.journal.append((GROUP_ENDED, self.name, self.filter))
            for entry in self.entrusted():
                (<Entry>entry).is_noted = False
        return 0

    def lasts_no_longer(self, Session session not None):
        """The session ends with its connection from now on: what it has would be the group's again."""
        cdef Delivery delivery
        self.agenda.work_off()
        self.count_lasting(session.member)
        if self.is_lasting:
            for delivery in self.core.deliveries(session.member):
                if delivery.qos == 1:
                    self.note_waiting(delivery.entry)

    def entrusted(self):
        """What a crash would leave waiting in the group but for its pages, in order of publication."""
        cdef Place place
        cdef Delivery delivery
        entries = [entry for entry in self.core.queue if (<Entry>entry).qos]
        for place in self.core.places.values():
            if not place.member.is_lasting():
                entries += [delivery.entry for delivery in place.deliveries.values() if delivery.qos == 1]
        return sorted(entries, key=lambda entry: entry.sequence)

    def records(self):
        """What rebuilds the waiting messages of a lasting group, whatever the store had of it before."""
        head = (GROUP_ENDED, self.name, self.filter)
        on_disk = [(GROUP_PAGED, self.name, self.filter, *page.details()) for page in self.core.queue.pages]
        in_memory = [(GROUP_QUEUED, self.name, self.filter, entry.sequence, entry.message)
                     for entry in self.entrusted() if (<Entry>entry).is_noted]
        return [head] + on_disk + in_memory

    def check(self):
        """Assert what must hold between any two events (for tests)."""
        cdef Session session
        cdef Place place
        self.core.check()
        for member, place in self.core.places.items():
            if not isinstance(member, SessionMember):
                continue    # its node has its session
            session = (<SessionMember>member).session
            assert session.member is member
            assert self in member.groups
            assert (member in self.near) == place.is_subscribed
            assert (session.outlet is not None) == place.is_online
            assert place.target.receiver is session
            open_here = session.shared_deliveries(self)
            assert open_here == list(place.deliveries.values()), (open_here, place.deliveries)
        assert (self in self.agenda.waiting) == (self.core.queue.count > 0)
        assert self.core.is_aside or self.is_lasting == bool(self.lasting)
        if self.pages is not None:
            self.pages.check()
