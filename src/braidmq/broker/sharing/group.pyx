"""SharedGroup: one `$share` group of one broker. Events in, effects out; no I/O and no clock.

Every message is in one place at a time: it waits in the group (`queue`), or it is with one member, or it is
done with. It waits when no member is online, or none that the policy would give it to has room; then it
goes to whoever is free first. What is left unacknowledged when a session ends goes back to its place in the
order, in front of what came later.

The caller's contract. Each call returns the effects to carry out, in order (see effects.pyx):

    when                                                  call
    a PUBLISH matches the group's filter                  published
    SUBSCRIBE (again: the new QoS)                        subscribed; online=False for a restored session
    UNSUBSCRIBE                                           unsubscribed
    the connection is gone, the session lives on          disconnected; at a takeover too, before reconnected
    the session has a connection again                    Member.connected once, then reconnected in each group
                                                          (the session sends again what it has in flight)
    the session ends (also one that UNSUBSCRIBEd)         ended
    PUBACK                                                acknowledged
    PUBREC, PUBCOMP                                       received, completed
    a Delivery that can't be sent (too large)             refused
    a status report came                                  reported in one group, pumped in its others
    `wake_at_s` has come                                  woken
    now and then, if messages expire                      swept
    another policy was configured                         policy_changed
    after a restart                                       subscribed(online=False) for each session, then
                                                          waited for what waited, restored for each delivery,
                                                          disconnected for each session
    rights to read have changed                           rights_changed; revoked for a delivery that its member
                                                          may not read and, being away, has not
    other settings were configured                        settings_changed
    a page was read (see `queue`; what is on disk is      unpaged, after queue.remove_page
    the caller's: it sets queue.is_pageable)
    the member's node is dead                             disconnected, is_lost=True
    another node has the group                            stand_aside; see `far_group` for this and what else
                                                          happens to a group with members on several nodes

A `Delivery` among the effects is to be sent; the acknowledgements of it are told with the same object. A PUBLISH
that goes to a member outside of its groups is told to `Member.sent`, its acknowledgement to `Member.acked`.

A fast lane for QoS 0: while `has_fast_lane` holds, `member = choose(now, publisher, topic, 0, 1)` and, if it
is not None, `policy.sent(member, now)` do what `published` would do for a message of QoS 0 that has not expired.

Rights: with `readers.ask`, a member never gets what it may not read; such messages wait in lanes of their own,
so that they hold nobody up, and are dropped when nobody is left who may read them.

Fences of MQTT: a QoS 2 delivery stays with its member, and dies with its session [MQTT-4.8.2-4]
[MQTT-4.8.2-5]; a negative PUBACK or PUBREC ends the delivery, nobody else gets it [MQTT-4.8.2-6];
UNSUBSCRIBE lets what was begun be finished [MQTT-3.10.4-3].

Order: what waits is sent in order of publication. Ordered policies (hash_*, sticky) keep the order of each
key over the whole group, for QoS 1 and 2: when a key moves to another member, its messages wait until the
old one has acknowledged those it has. To keep that over a lost connection, they take back QoS 1 messages at
once and not at the session's end (`requeue`). QoS 0 has no acknowledgement to wait for.

What waits behind the lanes, in memory or on disk, is in order of publication and goes to nobody before it gets
to a lane: a member that takes nothing may hold up others when the lanes are full of its keys.

Cost: QoS 1 through an idle group about 1 us and its acknowledgement 0.6 us on top of the policy. Membership
changes are O(messages waiting) under an ordered policy, which has to sort them anew.
"""

import msgspec
from libc.math cimport INFINITY

from braidmq.broker.hub cimport Hub
from braidmq.broker.sharing.policies.base cimport Policy
from braidmq.broker.sharing.effects cimport drop_message, drop_page, keep_message, withdraw_message
from braidmq.broker.sharing.holders cimport KeyHolders
from braidmq.broker.sharing.member cimport Delivery, Member, Place
from braidmq.broker.sharing.queue cimport Entry, GroupPage, GroupQueue
from braidmq.broker.sharing.readers cimport Readers

from braidmq.broker.sharing.effects import (
    DROP_EXPIRED, DROP_GROUP_GONE, DROP_NO_READER, DROP_NOBODY_ONLINE, DROP_NOT_SENDABLE, DROP_QUEUE_FULL,
    DROP_REJECTED, DROP_SESSION_ENDED,
)
from braidmq.broker.sharing.settings import GroupSettings

cdef int REFUSAL_LEAST = 0x80
cdef long long RESTORED_MAX = 1 << 32    # more deliveries than any restart finds under way


cdef class SharedGroup:
    def __init__(self, Policy policy, object settings=None, Hub hub=None):
        """`hub`: to which the memory of what waits is charged, in a broker."""
        self.policy = policy
        self.settings = settings or GroupSettings()
        self.queue = GroupQueue(self.settings, hub)
        self.keeps_qos0 = self.settings.keep_qos0
        self.refuses = self.settings.overflow == "refuse"
        self.readers = Readers()
        self.places = {}
        self.holders = KeyHolders()
        self.wake_at_s = INFINITY

    @property
    def has_fast_lane(self):
        return self.queue.count == 0 and len(self.holders) == 0

    @property
    def is_gone(self):
        """Nobody subscribes to it and nothing is under way: it can be forgotten."""
        return not self.places and not (self.is_aside and self.queue.count)

    @property
    def members(self):
        """Those that subscribe, online or not."""
        return [member for member, place in self.places.items() if (<Place>place).is_subscribed]

    def place(self, Member member):
        return self.places.get(member)

    def has_reader(self, topic):
        """Whether somebody who subscribes, online or not, may read the topic."""
        cdef Place place
        barred = None if self.readers.may_read is None else self.readers.barred(topic, self.places)
        for member, place in self.places.items():
            if place.is_subscribed and (barred is None or member not in barred):
                return True
        return False

    def deliveries(self, Member member):
        """What it has to acknowledge, in order of sending."""
        cdef Place place = self.places.get(member)
        return [] if place is None else list(place.deliveries.values())

    # -- messages --------------------------------------------------------------------------------------------

    cpdef list published(self, object message, double now, int qos, object publisher, object topic,
                         Py_ssize_t size_bytes, double expires_at_s=INFINITY):
        cdef list effects = []
        cdef Entry entry = self.new_entry(message, qos, publisher, topic, size_bytes, expires_at_s)
        cdef Member member = self.taker(entry, now)
        if member is None:
            self.enqueue(entry, now, effects)
        else:
            effects.append(self.give(entry, member, now))
        return effects

    cdef Entry new_entry(self, object message, int qos, object publisher, object topic, Py_ssize_t size_bytes,
                         double expires_at_s):
        cdef Entry entry = Entry.__new__(Entry)
        self.last_sequence += 1
        entry.message = message
        entry.publisher = publisher
        entry.topic = topic
        entry.qos = qos
        entry.size_bytes = size_bytes
        entry.expires_at_s = expires_at_s
        entry.sequence = self.last_sequence
        return entry

    cdef Member taker(self, Entry entry, double now):
        """Who gets the new entry at once; None: it has to be queued."""
        entry.is_tried = self.queue.count == 0 and not self.policy.is_ordered and entry.expires_at_s > now
        if not entry.is_tried:
            return None
        return self.choose(now, entry.publisher, entry.topic, entry.qos, 1)

    cpdef Member choose(self, double now, object publisher, object topic, int qos, Py_ssize_t pending):
        """As Policy.choose, among those who may read the topic."""
        if self.readers.may_read is not None:
            self.policy.bar(self.readers.barred(topic, self.places))
        return self.policy.choose(now, publisher, topic, qos, pending)

    cdef void enqueue(self, Entry entry, double now, list effects):
        cdef object lane
        if entry.expires_at_s <= now:
            effects.append(drop_message(entry, DROP_EXPIRED))
            return
        if entry.qos == 0 and not self.keeps_qos0 and len(self.policy.rotation) == 0:
            effects.append(drop_message(entry, DROP_NOBODY_ONLINE))
            return
        if self.queue.goes_behind(entry):
            self.enqueue_behind(entry, now, effects)
            return
        lane = self.lane_of(entry)
        self.queue.add(lane, entry)
        if entry.is_tried:
            self.wake_for(entry, now)
        else:
            self.pump_lane(lane, now, effects)
        if self.queue.is_over():
            self.overflowed(now, effects)
            self.pump(now, effects)    # what was behind a dropped message may be sendable
        if self.queue.last(lane) is not entry:
            return
        if self.queue.count == 1 or self.may_wait():
            effects.append(keep_message(entry))
        else:
            self.queue.take_last(lane)
            effects.append(drop_message(entry, DROP_QUEUE_FULL))

    cdef void enqueue_behind(self, Entry entry, double now, list effects):
        cdef bint is_over
        self.queue.add_behind(entry)
        is_over = self.queue.is_over()
        self.overflowed(now, effects)
        if self.queue.tail and self.queue.tail[len(self.queue.tail) - 1] is entry:
            if self.may_wait():
                effects.append(keep_message(entry))
            else:
                self.queue.take_newest()
                effects.append(drop_message(entry, DROP_QUEUE_FULL))
        if is_over:
            self.pump(now, effects)    # what was behind a dropped message may be sendable
        else:
            self.refill(now, effects)

    cdef bint may_wait(self):
        """Whether there is room for what came last, behind what was promised before."""
        return self.queue.has_memory() and not (self.refuses and self.queue.is_over())

    cdef void refill(self, double now, list effects):
        """Lets what waits behind the lanes follow as far as they have room."""
        while self.queue.may_follow():
            self.follow(self.queue.take_first_behind(), now, effects)

    cdef void follow(self, Entry entry, double now, list effects):
        """What waited behind the lanes gets to its own."""
        if entry.expires_at_s <= now:
            effects.append(drop_message(entry, DROP_EXPIRED))
        elif self.readers.may_read is not None and not self.has_reader(entry.topic):
            effects.append(drop_message(entry, DROP_NO_READER))
        else:
            lane = self.lane_of(entry)
            self.queue.add(lane, entry)
            self.pump_lane(lane, now, effects)

    def unpaged(self, list entries not None, double now):
        """What the page held that was the first one."""
        effects = []
        for entry in entries:
            self.follow(<Entry>entry, now, effects)
        self.refill(now, effects)
        return effects

    cdef void overflowed(self, double now, list effects):
        """Gives up what is too much; but who refuses what comes gives up nothing that was promised."""
        cdef Entry entry
        cdef Member member
        while self.queue.is_over() and not self.refuses:
            if self.settings.overflow == "drop_new":
                if self.queue.pages and not self.queue.tail:
                    return    # the newest are on disk: it takes no more until there are fewer
                entry = self.queue.take_newest()
            elif self.queue.pages and self.queue.count == self.queue.behind_count:
                effects.append(drop_page(self.queue.remove_page(), DROP_QUEUE_FULL))
                continue
            else:
                entry = self.queue.take_oldest()
                if self.settings.overflow == "push":
                    if self.readers.may_read is not None:
                        self.policy.bar(self.readers.barred(entry.topic, self.places))
                    member = self.policy.overflow(now, entry.qos)
                    if member is not None:
                        effects.append(self.give(entry, member, now))
                        continue
            effects.append(drop_message(entry, DROP_QUEUE_FULL))

    cdef Delivery give(self, Entry entry, Member member, double now):
        """The member has the entry from now on."""
        cdef Place place = self.places[member]
        cdef Delivery delivery = Delivery.__new__(Delivery)
        delivery.member = member
        delivery.place = place
        delivery.entry = entry
        delivery.qos = min(entry.qos, place.qos)
        if not delivery.qos:
            self.policy.sent(member, now)
            return delivery
        delivery.token = member.token_for(entry)
        member.promised(entry.size_bytes)
        place.deliveries[delivery.token] = delivery
        if self.policy.is_ordered:
            self.holders.add(self.policy.key(entry.publisher, entry.topic), member)
        self.policy.sent(member, now, delivery)
        return delivery

    cdef void pump(self, double now, list effects):
        """Sends what can be sent of what waits."""
        self.wake_at_s = INFINITY
        for lane in self.queue.lanes():
            self.pump_lane(lane, now, effects)
        self.refill(now, effects)

    cdef void pump_lane(self, object lane, double now, list effects):
        cdef Entry entry
        cdef Member member
        if isinstance(lane, DrainingKey):
            return
        while True:
            entry = self.queue.first(lane)
            if entry is None:
                return
            if entry.expires_at_s <= now:
                self.queue.take(lane)
                effects.append(drop_message(entry, DROP_EXPIRED))
                continue
            member = self.choose(now, entry.publisher, entry.topic, entry.qos, self.queue.count)
            if member is None:
                self.wake_for(entry, now)
                return
            self.queue.take(lane)
            effects.append(self.give(entry, member, now))

    cdef void wake_for(self, Entry entry, double now):
        """Nobody takes the first of a lane now: when might time alone change that?"""
        # What is behind the first may be sendable when that one has expired.
        self.wake_at_s = min(self.wake_at_s, self.policy.eligible_at(now), entry.expires_at_s)

    def pumped(self, double now):
        """Something about the members changed elsewhere, such as a status report that another group took."""
        effects = []
        self.pump(now, effects)
        return effects

    def woken(self, double now):
        return self.pumped(now)

    def swept(self, double now):
        """Drops what has expired while it waited, to free its memory."""
        effects = [drop_message(entry, DROP_EXPIRED) for entry in self.queue.take_expired(now)]
        if effects:
            self.pump(now, effects)    # what was behind a dropped message may be sendable
        return effects

    # -- acknowledgements ------------------------------------------------------------------------------------

    cpdef list acknowledged(self, Delivery delivery, double now, int reason=0):
        """PUBACK, or a negative PUBREC. One that is over is ignored: it was withdrawn."""
        cdef list effects = []
        if delivery.is_over or delivery.is_received:
            return effects
        self.finish(delivery)
        self.policy.acked(delivery.member, now, delivery)
        if reason >= REFUSAL_LEAST:
            effects.append(drop_message(delivery.entry, DROP_REJECTED))
        self.settled(delivery, now, effects)
        self.forget_if_done(delivery.place)
        return effects

    cpdef list received(self, Delivery delivery, double now, int reason=0):
        """PUBREC."""
        cdef list effects = []
        if reason >= REFUSAL_LEAST:
            return self.acknowledged(delivery, now, reason)
        if delivery.is_over or delivery.is_received:
            return effects
        delivery.is_received = True
        delivery.member.received(now, delivery)
        self.settled(delivery, now, effects)
        return effects

    cpdef list completed(self, Delivery delivery, double now):
        """PUBCOMP."""
        cdef list effects = []
        if delivery.is_over or not delivery.is_received:
            return effects
        self.finish(delivery)
        delivery.member.completed()
        self.forget_if_done(delivery.place)
        self.made_room(delivery.member, now, effects)
        return effects

    def refused(self, Delivery delivery not None, double now):
        """The PUBLISH of this delivery can't be written, such as one larger than the client takes."""
        effects = []
        if delivery.is_over:
            return effects
        self.finish(delivery)
        effects.append(drop_message(delivery.entry, DROP_NOT_SENDABLE))
        delivery.member.withdrawn(delivery)
        self.settled(delivery, now, effects)
        self.forget_if_done(delivery.place)
        return effects

    cdef void finish(self, Delivery delivery):
        """Nothing more is heard of it."""
        delivery.is_over = True
        del delivery.place.deliveries[delivery.token]

    cdef void settled(self, Delivery delivery, double now, list effects):
        """The member is done with the entry: its key may move, and there is room for another message."""
        if self.policy.is_ordered:
            key = self.policy.key(delivery.entry.publisher, delivery.entry.topic)
            if self.holders.remove(key, delivery.member):
                for lane in self.sort_lane(DrainingKey(key)):
                    self.pump_lane(lane, now, effects)
        self.made_room(delivery.member, now, effects)

    cdef void made_room(self, Member member, double now, list effects):
        if self.queue.count == 0:
            return
        if self.policy.is_ordered:
            self.pump_lane(member, now, effects)    # nobody else got room
            self.refill(now, effects)
        else:
            self.pump(now, effects)

    def reported(self, Member member, object report, double now):
        effects = []
        self.policy.status(member, now, report)
        if self.queue.count:
            self.pump(now, effects)
        return effects

    # -- members ---------------------------------------------------------------------------------------------

    cdef Place enter(self, Member member):
        """The member's place, a new one if it has none."""
        cdef Place place = self.places.get(member)
        if place is None:
            place = self.places[member] = Place.__new__(Place)
            place.member = member
        return place

    cdef void set_subscribed(self, Place place, bint subscribed):
        self.subscribed_count += subscribed - place.is_subscribed
        place.is_subscribed = subscribed

    def subscribed(self, Member member not None, double now, int qos=2, bint online=True, object target=None):
        """`target` is the caller's, for what is sent to this member."""
        cdef Place place = self.enter(member)
        cdef bint is_new = not place.is_subscribed or place.qos != qos or place.is_online != online
        self.set_subscribed(place, True)
        place.target = target
        if not is_new:
            return []
        place.qos = qos
        if not online:
            self.readers.forget()
            return []
        place.is_online = True
        self.policy.join(member, now, qos)
        return self.members_changed(now)

    def reconnected(self, Member member, double now):
        cdef Place place = self.places.get(member)
        if place is None:
            return []
        place.is_online = True
        if place.is_subscribed:
            self.policy.join(member, now, place.qos)
        self.hold_all(place)
        return self.members_changed(now)

    def disconnected(self, Member member, double now, bint is_lost=False):
        """`is_lost`: nobody knows whether it comes back, so others get its QoS 1 messages in any case."""
        cdef Place place = self.places.get(member)
        if place is None:
            return []
        place.is_online = False
        self.policy.leave(member, now)
        effects = []
        if is_lost or (place.is_subscribed and self.requeues_at_disconnect()):
            effects += [withdraw_message(delivery) for delivery in self.take_back(place, effects)]
        self.holders.remove_member(member)    # its keys don't wait: nobody can tell when it comes back
        self.forget_if_done(place)
        return effects + self.members_changed(now)

    def unsubscribed(self, Member member, double now):
        cdef Place place = self.places.get(member)
        if place is None:
            return []
        self.set_subscribed(place, False)
        self.policy.leave(member, now)
        self.forget_if_done(place)
        return self.members_changed(now)

    def ended(self, Member member, double now):
        """The session is gone, with every delivery that was begun. QoS 1 goes to others; QoS 2 must not."""
        cdef Place place = self.places.get(member)
        cdef Delivery delivery
        if place is None:
            return []
        self.policy.leave(member, now)
        self.set_subscribed(place, False)
        effects = []
        self.take_back(place, effects)
        for delivery in list(place.deliveries.values()):
            self.finish(delivery)
            if delivery.is_received:
                member.completed()
            else:
                member.withdrawn(delivery)
                effects.append(drop_message(delivery.entry, DROP_SESSION_ENDED))
        self.holders.remove_member(member)
        del self.places[member]
        return effects + self.members_changed(now)

    def restored(self, Member member not None, object message, long long token, double now, int qos, object publisher,
                 object topic, Py_ssize_t size_bytes, double expires_at_s=INFINITY, bint is_received=False,
                 object target=None):
        """A delivery that was under way when the broker stopped; the session has it again."""
        cdef Delivery delivery = Delivery.__new__(Delivery)
        cdef Place place = self.enter(member)
        if self.restored_sequence == 0:    # the first: all of them are older than whatever waits
            self.restored_sequence = self.oldest_sequence() - RESTORED_MAX
        self.restored_sequence += 1
        if place.target is None:    # it has unsubscribed since
            place.target = target
        delivery.member = member
        delivery.place = place
        delivery.entry = Entry(message, publisher, topic, qos, size_bytes, expires_at_s, self.restored_sequence)
        delivery.qos = qos
        delivery.token = token
        place.deliveries[token] = delivery
        member.sent(now, delivery)
        if is_received:
            delivery.is_received = True
            member.received(now, delivery)
        return delivery

    cdef long long oldest_sequence(self):
        return min([0] + [entry.sequence for entry in self.queue] + [page.first for page in self.queue.pages])

    def waited(self, object message, long long sequence, int qos, object publisher, object topic,
               Py_ssize_t size_bytes, double expires_at_s=INFINITY):
        """What waited in the group when the broker stopped; in order of its sequence, behind all `waited_on_disk`."""
        cdef Entry entry = Entry(message, publisher, topic, qos, size_bytes, expires_at_s, sequence)
        entry.is_noted = True
        self.last_sequence = max(self.last_sequence, sequence)
        if sequence > (<GroupPage>self.queue.pages[0]).first if self.queue.pages else self.queue.goes_behind(entry):
            self.queue.add_behind(entry)
        else:
            self.queue.add(None, entry)

    def waited_on_disk(self, GroupPage page not None):
        """As `waited`, for what a page holds; in order."""
        self.last_sequence = max(self.last_sequence, page.last)
        self.queue.add_page(page)

    def revoked(self, Delivery delivery not None, double now):
        """Its member may not read this message any more, and has not: QoS 1 goes to another."""
        effects = []
        if delivery.is_over:
            return effects
        self.finish(delivery)
        delivery.member.withdrawn(delivery)
        if delivery.qos == 1:
            effects.append(keep_message(delivery.entry))
            self.queue.put_back(self.lane_of(delivery.entry), [delivery.entry])
        else:
            effects.append(drop_message(delivery.entry, DROP_NO_READER))
        self.settled(delivery, now, effects)
        self.forget_if_done(delivery.place)
        return effects + self.members_changed(now)

    def number_from(self, long long first):
        """New messages have numbers from `first` on: none that any node may still know from an earlier life."""
        self.last_sequence = max(self.last_sequence, first)

    def stand_aside(self, bint is_aside):
        """Another node has the group: here it only finishes what was begun."""
        self.is_aside = is_aside

    def rights_changed(self, double now):
        self.readers.forget()
        self.policy.bar(None)
        return self.members_changed(now)

    def settings_changed(self, object settings, double now):
        cdef list effects = []
        self.settings = settings
        self.keeps_qos0 = settings.keep_qos0
        self.refuses = settings.overflow == "refuse"
        self.queue.configure(settings)
        self.overflowed(now, effects)
        self.pump(now, effects)
        return effects

    def policy_changed(self, Policy policy, double now):
        """Goes on with `policy`, a new one. Messages that are with members stay there."""
        cdef Place place
        policy.take_over(self.policy, now)
        self.policy = policy
        self.holders.clear()
        for place in self.places.values():
            if place.is_online:
                self.hold_all(place)
        return self.members_changed(now)

    def members_changed(self, double now):
        cdef list effects = []
        self.readers.forget()
        if self.subscribed_count == 0 and not self.is_aside:
            self.give_up_all(effects)
        elif self.readers.may_read is not None and self.queue.count:
            self.drop_unreadable(effects)
        for lane in self.queue.lanes():
            self.sort_lane(lane)
        self.pump(now, effects)
        return effects

    cdef void give_up_all(self, list effects):
        effects += [drop_message(entry, DROP_GROUP_GONE) for entry in self.queue.take_all()]
        while self.queue.pages:
            effects.append(drop_page(self.queue.remove_page(), DROP_GROUP_GONE))
        while self.queue.tail:
            effects.append(drop_message(self.queue.take_first_behind(), DROP_GROUP_GONE))

    cdef void drop_unreadable(self, list effects):
        """Of the lanes; what is behind them is asked about when it gets there."""
        cdef Entry entry
        readable = []
        for entry in self.queue.take_all():
            if self.has_reader(entry.topic):
                readable.append(entry)
            else:
                effects.append(drop_message(entry, DROP_NO_READER))
        self.queue.put_back(None, readable)

    def requeues_at_disconnect(self):
        if self.settings.requeue == "auto":
            return self.policy.is_ordered
        return self.settings.requeue == "disconnect"

    cdef list take_back(self, Place place, list effects):
        """Its unacknowledged QoS 1 messages wait in the group again; their deliveries are returned."""
        cdef Delivery delivery
        cdef list taken = [delivery for delivery in place.deliveries.values() if delivery.qos == 1]
        for delivery in taken:
            self.finish(delivery)
            place.member.withdrawn(delivery)
            effects.append(keep_message(delivery.entry))
        self.queue.put_back(None, [(<Delivery>delivery).entry for delivery in taken])
        return taken

    cdef void forget_if_done(self, Place place):
        if not place.is_subscribed and not place.deliveries:
            self.places.pop(place.member, None)

    # -- order of keys ---------------------------------------------------------------------------------------

    cdef object lane_of(self, Entry entry):
        cdef Member member
        cdef object barred = None
        if self.readers.may_read is not None:
            barred = self.readers.barred(entry.topic, self.places)
            self.policy.bar(barred)
        if not self.policy.is_ordered:
            return barred
        member = self.policy.owner(entry.publisher, entry.topic)
        if member is None:
            return None
        key = self.policy.key(entry.publisher, entry.topic)
        return DrainingKey(key) if self.holders.is_held_by_another(key, member) else member

    cdef dict sort_lane(self, object lane):
        """Puts what waits in `lane` where it belongs by now; returns the lanes that got some of it."""
        cdef dict moved = {}
        cdef Entry entry
        while self.queue.first(lane) is not None:
            entry = self.queue.take(lane)
            moved.setdefault(self.lane_of(entry), []).append(entry)
        for target, entries in moved.items():
            self.queue.put_back(target, entries)
        return moved

    cdef void hold_all(self, Place place):
        cdef Delivery delivery
        if self.policy.is_ordered:
            for delivery in place.deliveries.values():
                if not delivery.is_received:
                    self.holders.add(self.policy.key(delivery.entry.publisher, delivery.entry.topic), place.member)

    # -- proof -----------------------------------------------------------------------------------------------

    def check(self):
        """Asserts what must hold between any two events."""
        cdef Place place
        self.queue.check()
        seated = set(self.policy.members)
        assert seated == {member for member, place in self.places.items()
                          if place.is_online and place.is_subscribed}
        assert all(place.is_subscribed or place.deliveries for place in self.places.values())
        assert self.subscribed_count == len(self.members)
        for member, place in self.places.items():
            assert place.member is member
            assert not any(delivery.is_over for delivery in place.deliveries.values())
        waiting = [entry.sequence for entry in self.queue]
        with_members = [delivery.entry.sequence for place in self.places.values()
                        for delivery in place.deliveries.values()]
        everywhere = waiting + with_members
        assert len(set(everywhere)) == len(everywhere), "a message is in two places"


class DrainingKey(msgspec.Struct, frozen=True):
    """The lane of a key whose old member has yet to acknowledge."""

    key: object
