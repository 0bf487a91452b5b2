"""Members of groups of this node that are clients of other nodes.

The group knows no difference: a `RemoteMember` has room while less is in flight to it than its node says, and sends
by telling its node. What happens to it there comes as events (`far_events`), in order and each once, and is told
to the group as if it had happened here. A delivery is known by the number of its message in the group, so that it
is the same one after a restart of this node.

What a store has of it. QoS 1 stays on record here, as waiting, until the member has acknowledged: its node may die.
QoS 2 is on record in the stream to its node from the same turn on, and then there.

Cost: O(1) an event, on top of the group's own; a roll O(members of the node).
"""

from braidmq.broker.hub cimport Hub
from braidmq.broker.receiver cimport Outcome, Receiver, Run, Target
from braidmq.broker.sharing.agenda cimport ACKNOWLEDGED, COMPLETED, RECEIVED, UNSENDABLE, Happening
from braidmq.broker.sharing.far_group cimport answered, resumed, returned
from braidmq.broker.sharing.member cimport Delivery, Member, Place
from braidmq.broker.sharing.queue cimport Entry
from braidmq.broker.sharing.receiver cimport GroupReceiver
from braidmq.messages.message cimport Message
from braidmq.wire.scan cimport read_varint

from braidmq.broker.sharing import far_events
from braidmq.broker.sharing.far_events import Give, Withdraw

cdef enum:
    UNREADABLE_MAX = 4096    # topics; then they are found out anew

cdef double US = 1e-6
cdef tuple HAPPENINGS = (<int>ACKNOWLEDGED, <int>RECEIVED, <int>COMPLETED, <int>UNSENDABLE)    # by stage
STAGES = {what: stage for stage, what in enumerate(HAPPENINGS)}


cdef class RemoteMember(Member):
    """A client of another node as a member."""

    def __init__(self, str name not None, double now, node, boot, placement):
        self.node = node
        self.boot = boot
        self.placement = placement
        self.numbers = {}
        self.unreadable = set()
        Member.__init__(self, name, now, receive_max=0)

    def adopt(self, event):
        """Take over what its node says of it."""
        self.receive_max = event.room
        self.lasts = event.lasts
        self.boot = event.boot
        self.acks_when_processed = event.acks_when_processed
        self.has_event_status = event.reports_events
        self.weight = event.weight
        self.capacity = event.capacity

    cpdef bint send(self, Delivery delivery, object outcome):
        cdef FarSeat seat = (<Target>delivery.place.target).receiver
        self.placement.give(self.node, Give(seat.number, self.name, delivery.token, delivery.qos),
                            delivery.entry.message)
        return True

    cpdef void withdraw(self, Delivery delivery):
        cdef FarSeat seat = (<Target>delivery.place.target).receiver
        self.placement.give(self.node, Withdraw(seat.number, self.name, delivery.token), None)

    cdef bint makes_lasting(self) noexcept:
        return self.lasts

    cdef long long token_for(self, Entry entry):
        return entry.sequence

    def took(self, Delivery delivery not None, double now, double after_s):
        """It has answered so long after it was sent the message: the link is no work of the member's."""
        delivery.sent_s = now - after_s

    def may_read(self, bytes topic not None):
        """Its node decides, and has not said no so far."""
        return topic not in self.unreadable

    def bar(self, bytes topic not None):
        if len(self.unreadable) >= UNREADABLE_MAX:
            self.unreadable.clear()
        self.unreadable.add(topic)


cdef class FarSeat(Receiver):
    """Where the fast lane of QoS 0 finds a far member."""

    def __init__(self, RemoteMember member not None, number, placement):
        self.member = member
        self.number = number
        self.placement = placement

    cdef int deliver(self, Message message, Target target, Outcome outcome) except -1:
        self.placement.give(self.member.node, Give(self.number, self.member.name, 0, 0), message)
        return 0

    cdef int forward(self, Run run, Target target, Outcome outcome) except -1:
        cdef const unsigned char* frame = run.frames.start
        cdef unsigned int body_bytes = 0
        while frame < run.frames.end:
            frame += 1 + read_varint(frame + 1, run.frames.end - frame - 1, &body_bytes)
            self.deliver(run.message(frame, body_bytes), target, outcome)
            frame += body_bytes
        return 0


cdef class FarMembers:
    def __init__(self, Hub hub not None, registry, placement):
        self.hub = hub
        self.registry = registry
        self.placement = placement
        self.members = {}
        self.answered = {}
        self.stale = {}
        self.takers = {
            far_events.Joined: self.joined,
            far_events.Left: self.left,
            far_events.Ended: self.ended,
            far_events.Went: self.went,
            far_events.Room: self.got_room,
            far_events.Kept: self.kept,
            far_events.Settled: self.settled,
            far_events.Returned: self.returned,
            far_events.RollBegan: self.roll_began,
            far_events.RollEnded: self.roll_ended,
        }

    def __len__(self):
        return sum([len(by_node) for by_node in self.members.values()])

    cdef RemoteMember find(self, object node, str client):
        by_node = self.members.get(client)
        return None if by_node is None else by_node.get(node)

    def of_node(self, node):
        return [by_node[node] for by_node in list(self.members.values()) if node in by_node]

    def take(self, node, list events not None, Message message):
        """What a node tells of its members; `message` is what comes back with the only event."""
        self.hub.agenda.settle()
        for event in events:
            if type(event) is far_events.Returned:
                self.returned(node, event, message)
            else:
                self.takers[type(event)](node, event)
        self.note_answered()

    def note_answered(self):
        """Answers that stand for no delivery may be for what waits again since a restart."""
        late, self.answered = self.answered, {}
        for group, tokens in late.items():
            (<GroupReceiver>group).carry_out(answered((<GroupReceiver>group).core, tokens))

    # ---- they come and go ----------------------------------------------------------------------------

    def joined(self, node, event):
        cdef RemoteMember member = self.find(node, event.client)
        cdef GroupReceiver group
        if member is not None and not member.lasts and member.boot != event.boot:
            self.end(member)
            member = None
        is_nothing = member is None and event.qos < 0 and not event.open and not event.numbers
        group = None if is_nothing else self.registry.receiver_for(event.group)
        if group is None:
            return
        if member is None:
            member = RemoteMember(event.client, self.hub.now, node, event.boot, self.placement)
            self.members.setdefault(event.client, {})[node] = member
        self.stale.get(node, {}).pop(member, None)
        member.adopt(event)
        member.groups[group] = None
        if event.open:
            self.resume(group, member, event)
        self.welcome(group, member, event)
        group.count_lasting(member)
        group.tidy(member)
        self.forget_if_done(member)

    cdef int welcome(self, GroupReceiver group, RemoteMember member, object event) except -1:
        """Let the group know what the member asks for, and whether it is there."""
        cdef Place place = group.core.place(member)
        if event.is_online and not member.is_online:
            member.connected(self.hub.now)
        member.is_online = event.is_online
        if event.qos < 0:
            if place is not None and place.is_subscribed:
                group.carry_out(group.core.unsubscribed(member, self.hub.now))
            return 0
        if place is not None and place.is_online and not event.is_online:
            group.carry_out(group.core.disconnected(member, self.hub.now))
        is_here = place is not None and place.is_online
        target = Target(FarSeat(member, event.group, self.placement), event.qos)
        group.carry_out(group.core.subscribed(member, self.hub.now, event.qos, is_here, target))
        if event.is_online and not is_here:
            group.carry_out(group.core.reconnected(member, self.hub.now))
        group.pumped()    # it may have room again
        return 0

    cdef int resume(self, GroupReceiver group, RemoteMember member, object event) except -1:
        """What it has of this group, and what waits here again since a restart, is its own."""
        cdef Place place = group.core.enter(member)
        tokens = set(event.open).difference(place.deliveries)
        if tokens:
            place.qos = max(place.qos, event.qos, 1)
            place.target = Target(FarSeat(member, event.group, self.placement), place.qos)
            resumed(group.core, member, tokens, self.hub.now)
        group.core.forget_if_done(place)
        return 0

    def left(self, node, event):
        cdef RemoteMember member = self.find(node, event.client)
        cdef GroupReceiver group = self.registry.receiver_of(event.group)
        if member is None or group is None or group not in member.groups:
            return
        group.carry_out(group.core.unsubscribed(member, self.hub.now))
        group.count_lasting(member)
        group.tidy(member)
        self.forget_if_done(member)

    def ended(self, node, event):
        cdef RemoteMember member = self.find(node, event.client)
        if member is not None:
            self.end(member)

    cdef int end(self, RemoteMember member) except -1:
        """Its session is over."""
        cdef GroupReceiver group
        for group in list(member.groups):
            group.carry_out(group.core.ended(member, self.hub.now))
            group.count_lasting(member)
            group.tidy(member)
        return self.forget_if_done(member)

    cdef int forget_if_done(self, RemoteMember member) except -1:
        if not member.groups:
            by_node = self.members.get(member.name, {})
            if by_node.get(member.node) is member:
                del by_node[member.node]
            if not by_node:
                self.members.pop(member.name, None)
        return 0

    def went(self, node, event):
        cdef RemoteMember member = self.find(node, event.client)
        cdef GroupReceiver group = self.registry.receiver_of(event.group)
        if member is not None and group is not None and group in member.groups:
            member.is_online = False
            group.carry_out(group.core.disconnected(member, self.hub.now))
            group.tidy(member)

    def got_room(self, node, event):
        cdef RemoteMember member = self.find(node, event.client)
        if member is not None:
            member.receive_max = event.room
            for group in list(member.groups):
                group.pumped()

    def reported(self, node, str client not None, report):
        """A status report; only one group is told, the others look again."""
        cdef RemoteMember member = self.find(node, client)
        cdef GroupReceiver group
        self.hub.agenda.settle()
        for index, group in enumerate(list(member.groups) if member is not None else ()):
            if index:
                group.pumped()
            else:
                group.carry_out(group.core.reported(member, report, self.hub.now))

    # ---- their deliveries ----------------------------------------------------------------------------

    cdef Delivery delivery(self, GroupReceiver group, RemoteMember member, object event):
        cdef Place place = group.core.place(member)
        if place is None:
            return None
        return place.deliveries.get(event.token)

    def kept(self, node, event):
        cdef RemoteMember member = self.find(node, event.client)
        cdef GroupReceiver group = self.registry.receiver_of(event.group)
        if member is not None and group is not None:
            delivery = self.delivery(group, member, event)
            if delivery is not None:
                member.numbers[event.number] = delivery

    def settled(self, node, event):
        cdef RemoteMember member = self.find(node, event.client)
        cdef GroupReceiver group = self.registry.receiver_of(event.group)
        cdef Delivery delivery = None
        if group is None:
            return
        if member is not None:
            delivery = self.delivery(group, member, event) or member.numbers.get(event.number)
        if delivery is None or delivery.is_over:
            if event.token:
                self.answered.setdefault(group, set()).add(event.token)
            if delivery is not None:
                member.numbers.pop(event.number, None)
            return
        if not delivery.is_received and event.stage != far_events.UNSENDABLE:
            member.took(delivery, self.hub.now, event.after_us * US)
        group.delivery_changed(<Happening><int>HAPPENINGS[event.stage], delivery, event.reason)
        if delivery.is_over:
            member.numbers.pop(event.number, None)
        self.forget_if_done(member)

    def returned(self, node, event, Message message=None):
        cdef RemoteMember member = self.find(node, event.client)
        cdef GroupReceiver group = self.registry.receiver_of(event.group)
        cdef Delivery delivery = None
        if member is not None and group is not None:
            delivery = self.delivery(group, member, event)
        if delivery is None:
            if message is not None:    # it is nowhere else
                self.registry.deliver_to(event.group, message)
            return
        if event.why == far_events.MAY_NOT_READ:
            member.bar(delivery.entry.topic)
            group.core.readers.forget()
        elif event.why != far_events.WITHDRAWN:
            member.receive_max = 0    # until its node says more
        group.carry_out(returned(group.core, delivery, self.hub.now))
        group.tidy(member)
        self.forget_if_done(member)

    # ---- their nodes ---------------------------------------------------------------------------------

    def roll_began(self, node, event):
        self.stale[node] = dict.fromkeys(self.of_node(node))

    def roll_ended(self, node, event):
        for member in self.stale.pop(node, ()):
            self.end(<RemoteMember>member)

    def unlinked(self, node):
        """Nothing reaches them now: they are given nothing until their node calls the roll."""
        for member in self.of_node(node):
            member.receive_max = 0

    def died(self, node):
        """Others get what they have of QoS 1; they have to forget it when they are back."""
        cdef RemoteMember member
        cdef GroupReceiver group
        self.hub.agenda.settle()
        for member in self.of_node(node):
            member.is_online = False
            for group in list(member.groups):
                group.carry_out(group.core.disconnected(member, self.hub.now, True))
                group.tidy(member)
            self.forget_if_done(member)

    def forgotten(self, node):
        """They don't come back."""
        self.hub.agenda.settle()
        for member in self.of_node(node):
            self.end(<RemoteMember>member)

    def check(self):
        """Assert what must hold between any two events (for tests)."""
        for client, by_node in self.members.items():
            for node, member in by_node.items():
                assert (member.name, member.node) == (client, node)
                assert member.groups
                assert all([group.core.place(member) is not None for group in member.groups])
