"""GroupProxy: a shared group that another node has, where this node has members of it.

It stands where a GroupReceiver would, so sessions know no difference; but messages of the topic go to the owner, and
what happens to members is told to it. What the owner gives to a member is sent by its session at once, or sent back:
nothing of a group waits here.

The owner may change. A delivery belongs to who gave it (`giver`), who is told what becomes of it. What a session
brought along from another node has none: its group counts it as done, so what is left of QoS 1 when the session ends is
passed on to the owner as it would be published.
"""

from braidmq.broker.counters cimport DROP_SESSION_ENDED
from braidmq.broker.hub cimport Hub
from braidmq.broker.receiver cimport Outcome, Run, Target
from braidmq.broker.session cimport Session
from braidmq.broker.sharing.agenda cimport (
    ACKNOWLEDGED, COMPLETED, MEMBER_CAME, MEMBER_WENT, RECEIVED, Agenda, Happening, SharedReceiver,
)
from braidmq.broker.sharing.member cimport Delivery, Member
from braidmq.broker.sharing.receiver cimport SessionMember
from braidmq.messages.message cimport Message

from braidmq.broker.sharing import far_events
from braidmq.broker.sharing.far_events import Ended, Joined, Kept, Left, Returned, Room, Settled, Went
from braidmq.broker.sharing.status_reports import NOTHING_DECLARED

cdef enum:
    NOT_AUTHORIZED = 0x87

cdef double US_PER_S = 1e6


cdef class GivenDelivery(Delivery):
    """A message that the group's owner has given to a session of this node."""


cdef class GroupProxy(SharedReceiver):
    def __init__(self, str name not None, bytes filter not None, number, Hub hub not None, Agenda agenda not None,
                 registry, placement):
        self.name = name
        self.filter = filter
        self.number = number
        self.hub = hub
        self.agenda = agenda
        self.registry = registry
        self.placement = placement
        self.targets = {}
        self.open = {}
        self.crowded = {}

    has_members = False    # here nobody gets a message of the topic: the owner decides

    @property
    def subscribed_count(self):
        return len(self.targets)

    @property
    def is_gone(self):
        return not self.targets and not self.open

    @property
    def reports_to(self):
        """Who is to be told of a member's status once, however many groups it has there."""
        return self if self.owner is None else self.owner

    # ---- the owner -----------------------------------------------------------------------------------

    def follow(self, owner):
        """That node has the group from now on."""
        former, self.owner = self.owner, owner
        if former == owner:
            return
        for client, target in self.targets.items():
            if former is not None:
                self.placement.tell(former, Left(self.number, client))
            self.placement.tell(owner, self.joined(owner, target))

    def let_go(self):
        """This node has the group from now on; here only what was begun is finished."""
        former, self.owner = self.owner, None
        for client, target in list(self.targets.items()):
            if former is not None:
                self.placement.tell(former, Left(self.number, client))
            del self.targets[client]
            self.tidy(target.receiver)

    def call_roll(self, node):
        """All that the node should know of members here."""
        for client in {**self.targets, **self.open}:
            target = self.targets.get(client)
            given = [delivery for delivery in self.open.get(client, ()) if delivery.giver == node]
            if target is not None and self.owner == node:
                self.placement.tell(node, self.joined(node, target))
            elif given:
                session = (<SessionMember>given[0].member).session
                self.placement.tell(node, self.says(node, session, -1))

    def joined(self, node, Target target not None):
        return self.says(node, target.receiver, target.qos)

    def says(self, node, Session session not None, int qos):
        """What the owner has to know of a member."""
        declared = session.declared or NOTHING_DECLARED
        is_online = session.outlet is not None
        here = self.open.get(session.client_id, ())
        return Joined(
            self.number, session.client_id, qos, session.window if is_online else 0, is_online,
            session.is_remembered, self.placement.boot, declared.acks_when_processed, declared.reports_events,
            declared.weight, declared.capacity,
            tuple([delivery.given_token for delivery in here if delivery.giver == node]))

    # ---- members -------------------------------------------------------------------------------------

    def join(self, Target target not None):
        """A session subscribes, or changes its subscription."""
        cdef Session session = target.receiver
        self.agenda.work_off()
        self.enter(session)
        self.targets[session.client_id] = target
        self.registry.near_changed(self)
        if self.owner is not None:
            self.placement.tell(self.owner, self.joined(self.owner, target))

    def enter(self, Session session not None):
        if session.member is None:
            session.member = SessionMember(session)
            session.agenda = self.agenda
        session.member.groups[self] = None
        return session.member

    def leave(self, Session session not None):
        """It unsubscribes; what was begun with it is finished."""
        self.agenda.work_off()
        if self.targets.pop(session.client_id, None) is not None and self.owner is not None:
            self.placement.tell(self.owner, Left(self.number, session.client_id))
        self.registry.near_changed(self)
        self.tidy(session)

    def ended(self, Session session not None):
        """The session is over: the owner gives what it had to others, or not."""
        cdef GivenDelivery delivery
        self.agenda.work_off()
        had = self.open.pop(session.client_id, {})
        concerned = {delivery.giver for delivery in had}
        if self.targets.pop(session.client_id, None) is not None:
            concerned.add(self.owner)
        for node in concerned - {None}:
            self.placement.tell(node, Ended(self.number, session.client_id))
        for delivery in had:
            self.give_up(delivery)
        self.registry.near_changed(self)
        self.tidy(session)

    cdef int give_up(self, GivenDelivery delivery) except -1:
        """Its session is over, which brought it along."""
        if delivery.brought is None or delivery.is_received:
            return 0
        if delivery.qos == 1:
            return self.deliver(delivery.brought, None, None)
        return self.hub.drop_message(DROP_SESSION_ENDED, delivery.brought, delivery.member.name, self.name)

    def lasts_no_longer(self, Session session not None):
        """The session ends with its connection from now on."""
        self.tell_again(session)

    cdef int tell_again(self, Session session) except -1:
        target = self.targets.get(session.client_id)
        if target is not None and self.owner is not None:
            self.placement.tell(self.owner, self.joined(self.owner, target))
        return 0

    def reported(self, Session session not None, report):
        if self.owner is not None and session.client_id in self.targets:
            self.placement.report(self.owner, session.client_id, report)

    def pumped(self):
        """The owner looks by itself."""

    cdef int member_changed(self, Happening what, Member member) except -1:
        cdef Session session = (<SessionMember?>member).session
        if what == MEMBER_CAME:
            self.crowded.pop(session.client_id, None)
            self.tell_again(session)
        elif what == MEMBER_WENT:
            self.crowded.pop(session.client_id, None)
            if session.client_id in self.targets and self.owner is not None:
                self.placement.tell(self.owner, Went(self.number, session.client_id))
        elif session.client_id in self.crowded:
            del self.crowded[session.client_id]
            if self.owner is not None:
                self.placement.tell(self.owner, Room(self.number, session.client_id, session.window))
        if not self.crowded:
            self.agenda.waiting.pop(self, None)
        return 0

    cdef int tidy(self, Session session) except -1:
        """Forget the member if nothing is left to do with it, and the group if nobody is."""
        if session.client_id in self.targets or session.client_id in self.open:
            return 0
        self.crowded.pop(session.client_id, None)
        if session.member is not None:
            session.member.groups.pop(self, None)
        if self.is_gone:
            self.agenda.waiting.pop(self, None)
            self.registry.gone(self)
        return 0

    # ---- messages ------------------------------------------------------------------------------------

    cdef int deliver(self, Message message, Target target, Outcome outcome) except -1:
        self.placement.pass_on(self.number, message, 0)
        return 0

    cdef int forward(self, Run run, Target target, Outcome outcome) except -1:
        raise AssertionError("a group of another node stands in no fan-out")

    def take_in(self, Message message not None):
        """A message that is not being published."""
        self.deliver(message, None, None)

    def given(self, giver, event, Message message not None):
        """The owner gives a member a message."""
        cdef Target target = self.targets.get(event.client)
        cdef Session session
        self.agenda.work_off()
        if target is None:
            return self.send_back(giver, event, message, far_events.GONE)
        session = target.receiver
        if not self.registry.may_read(session, message.topic):
            return self.send_back(giver, event, message, far_events.MAY_NOT_READ)
        if event.qos == 0:
            session.deliver(message, target, None)
            session.member.sent(self.hub.now)
            return 0
        if not session.can_take():
            self.crowded[event.client] = None
            self.agenda.waiting[self] = None
            return self.send_back(giver, event, message, far_events.NO_ROOM)
        return self.send(giver, event, target, message)

    cdef int send(self, object giver, object event, Target target, Message message) except -1:
        cdef Session session = target.receiver
        cdef GivenDelivery delivery = self.begin(
            session, giver, event.token, <unsigned long long>session.member.take_token(), event.qos)
        if not session.send_shared(message, target, delivery):
            session.member.withdrawn(delivery)
            self.finish(delivery)
            self.placement.tell(giver, Settled(self.number, event.client, event.token, 0, far_events.UNSENDABLE, 0, 0))
        elif session.is_remembered:
            self.placement.tell(giver, Kept(self.number, event.client, event.token, delivery.token))
        return 0

    cdef GivenDelivery begin(self, Session session, object giver, long long token, unsigned long long number, int qos):
        cdef GivenDelivery delivery = GivenDelivery.__new__(GivenDelivery)
        delivery.member = session.member
        delivery.giver = giver
        delivery.given_token = token
        delivery.token = <long long>number
        delivery.qos = qos
        self.open.setdefault(session.client_id, {})[delivery] = None
        session.member.sent(self.hub.now, delivery)
        return delivery

    cdef int send_back(self, object giver, object event, Message message, int why) except -1:
        """The owner has QoS 1 on record; QoS 2 is nowhere else. QoS 0 was promised to nobody."""
        if event.qos:
            self.registry.count_return()
            self.placement.tell(giver, Returned(self.number, event.client, event.token, why),
                                message if event.qos == 2 else None)
        return 0

    def withdrawn(self, giver, event):
        """Another member gets it. A client that is here has it already: what it answers is of no account."""
        cdef GivenDelivery delivery
        cdef Session session
        for delivery in list(self.open.get(event.client, ())):
            session = (<SessionMember>delivery.member).session
            if delivery.giver == giver and delivery.given_token == event.token and session.outlet is None:
                session.withdraw(delivery)
                delivery.member.withdrawn(delivery)
                self.finish(delivery)
                # By the roll the owner may have heard meanwhile that it is here, and count on it.
                self.placement.tell(giver, Returned(self.number, event.client, event.token, far_events.WITHDRAWN))
                self.tidy(session)

    cdef int delivery_changed(self, Happening what, Delivery delivery, unsigned int reason) except -1:
        cdef GivenDelivery given = <GivenDelivery?>delivery
        cdef Session session = (<SessionMember>given.member).session
        cdef double sent_s = given.sent_s
        if what == ACKNOWLEDGED:
            stage = far_events.ACKNOWLEDGED
            given.member.acked(self.hub.now, given)
        elif what == RECEIVED:
            stage = far_events.RECEIVED
            given.is_received = True
            given.member.received(self.hub.now, given)
        elif what == COMPLETED:
            stage = far_events.COMPLETED
            given.member.completed()
        else:
            stage = far_events.UNSENDABLE
            given.member.withdrawn(given)
        if given.giver is not None:
            after_us = int(max(0.0, self.hub.now - sent_s) * US_PER_S)
            self.placement.tell(given.giver, Settled(
                self.number, session.client_id, given.given_token, given.token, stage, reason, after_us))
        if what != RECEIVED:
            self.finish(given)
            self.tidy(session)
        return 0

    cdef int finish(self, GivenDelivery delivery) except -1:
        """Nothing more is heard of it."""
        client = delivery.member.name
        delivery.is_over = True
        here = self.open.get(client)
        if here is not None:
            here.pop(delivery, None)
            if not here:
                del self.open[client]
        return 0

    def revoke(self, Delivery delivery not None):
        """Its session has forgotten a delivery that it may no longer read: QoS 1 goes to another."""
        cdef GivenDelivery given = <GivenDelivery?>delivery
        cdef Session session = (<SessionMember>given.member).session
        given.member.withdrawn(given)
        if given.giver is None:
            self.give_up(given)
        elif given.qos == 1:
            self.placement.tell(given.giver, Returned(self.number, session.client_id, given.given_token,
                                                      far_events.MAY_NOT_READ))
        else:
            self.placement.tell(given.giver, Settled(self.number, session.client_id, given.given_token, given.token,
                                                     far_events.ACKNOWLEDGED, NOT_AUTHORIZED, 0))
        self.finish(given)
        self.tidy(session)

    # ---- a session that came from elsewhere ----------------------------------------------------------

    def restore_delivery(self, Target target not None, Message message, unsigned long long sequence, int qos):
        """What a session has under way; its message is None when the client has received it."""
        cdef Session session = target.receiver
        cdef GivenDelivery delivery
        self.enter(session)
        delivery = self.begin(session, None, 0, sequence, qos)
        delivery.brought = message
        if message is None:
            delivery.is_received = True
            session.member.received(self.hub.now, delivery)
        return delivery

    def restored(self, Session session not None):
        """All of it is back: now the owner can be told."""
        self.tell_again(session)

    def check(self):
        """Assert what must hold between any two events (for tests)."""
        for client, target in self.targets.items():
            assert (<Session>target.receiver).client_id == client
            assert self in (<Session>target.receiver).member.groups
        assert all(self.open.values())
