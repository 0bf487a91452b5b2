from braidmq.broker.receiver cimport Receiver
from braidmq.broker.sharing.member cimport Delivery, Member


cdef enum Happening:
    MEMBER_CAME         # it has a connection again
    MEMBER_WENT         # its connection is gone
    MEMBER_HAS_ROOM     # for what waits
    ACKNOWLEDGED        # PUBACK, or a negative PUBREC
    RECEIVED            # PUBREC
    COMPLETED           # PUBCOMP
    UNSENDABLE          # it was sent once, and can't be again


cdef class SharedReceiver(Receiver):
    cdef int member_changed(self, Happening what, Member member) except -1
    cdef int delivery_changed(self, Happening what, Delivery delivery, unsigned int reason) except -1


cdef class Agenda:
    cdef list events             # (receiver, what, member or delivery, reason), in the order in which they happened
    cdef dict with_room          # members that may have got room, in order
    cdef dict waiting            # SharedReceivers in which something waits
    cdef bint is_at_work

    cdef int tell_of_member(self, Happening what, Member member) except -1
    cdef int tell_of_delivery(self, Happening what, Receiver group, Delivery delivery, unsigned int reason) except -1
    cdef int work_off_all(self) except -1
    cdef int work_off_events(self) except -1
    cdef int offer_room(self, Member member) except -1

    cdef inline int work_off(self) except -1:
        # Tell the groups what has happened; what happens meanwhile is worked off as well.
        if not self.is_at_work and (self.events or self.with_room):
            return self.work_off_all()
        return 0

    cdef inline int tell_of_room(self, Member member) except -1:
        if self.waiting:
            self.with_room[member] = None
        return 0
