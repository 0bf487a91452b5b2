"""What happens to a SharedGroup only where its members are on several nodes. Effects are those of the group.

    when                                                  call
    a Delivery comes back that the client has not seen    returned
    something waits in a group that stands aside          take_waiting
    a restarted owner hears who has what                  resumed, answered
"""

from braidmq.broker.sharing.effects cimport drop_message, keep_message
from braidmq.broker.sharing.group cimport SharedGroup
from braidmq.broker.sharing.member cimport Delivery, Member, Place
from braidmq.broker.sharing.queue cimport Entry

from braidmq.broker.sharing.effects import DROP_ANSWERED


cdef list returned(SharedGroup group, Delivery delivery, double now):
    """Its member was not sent it: it waits again, whatever its QoS."""
    cdef list effects = []
    if delivery.is_over:
        return effects
    group.finish(delivery)
    delivery.member.withdrawn(delivery)
    effects.append(keep_message(delivery.entry))
    group.queue.put_back(group.lane_of(delivery.entry), [delivery.entry])
    group.settled(delivery, now, effects)
    group.forget_if_done(delivery.place)
    return effects


cdef list take_waiting(SharedGroup group):
    """All entries that wait in memory and before what is on disk, in order."""
    cdef list entries = group.queue.take_all()
    while group.queue.tail and not group.queue.pages:
        entries.append(group.queue.take_first_behind())
    return entries


cdef int resumed(SharedGroup group, Member member, set sequences, double now) except -1:
    """The member has had these since before a restart, after which they waited here again."""
    cdef Place place = group.places[member]
    cdef Entry entry
    cdef Delivery delivery
    for entry in group.queue.take_those(sequences):
        delivery = Delivery.__new__(Delivery)
        delivery.member = member
        delivery.place = place
        delivery.entry = entry
        delivery.qos = min(entry.qos, place.qos)
        delivery.token = member.token_for(entry)
        place.deliveries[delivery.token] = delivery
        member.sent(now, delivery)
        if place.is_online and group.policy.is_ordered:
            group.holders.add(group.policy.key(entry.publisher, entry.topic), member)
    return 0


cdef list answered(SharedGroup group, set sequences):
    """Those of these that wait again were answered by whom they were given to before a restart."""
    return [drop_message(entry, DROP_ANSWERED) for entry in group.queue.take_those(sequences)]
