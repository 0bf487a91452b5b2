"""What sessions have to tell shared groups: noted while a session is at work, and worked off when it is done.

So a session never calls a group, which would call a session: an acknowledgement is noted here, `work_off` tells the
group of it, and the group has its members send what they are given. Whoever lets something happen to sessions
works it off before it returns; whoever asks a group for something works it off first, so a group has always heard
of all that happened before.

Room is offered once for all acknowledgements of a read, and only to groups in which something waits. Cost: O(1) an
event; offering room O(the fewer of a member's groups and of all groups with something waiting).
"""

from braidmq.broker.receiver cimport Receiver
from braidmq.broker.sharing.member cimport Delivery, Member


cdef class SharedReceiver(Receiver):
    """A receiver that gives each message to one of its members, as those know it."""

    cdef int member_changed(self, Happening what, Member member) except -1:
        raise NotImplementedError

    cdef int delivery_changed(self, Happening what, Delivery delivery, unsigned int reason) except -1:
        raise NotImplementedError


cdef class Agenda:
    def __init__(self):
        self.events = []
        self.with_room = {}
        self.waiting = {}

    cdef int tell_of_member(self, Happening what, Member member) except -1:
        """Something has happened that concerns all groups of the member."""
        for group in member.groups:
            self.events.append((group, <int>what, member, 0))
        return 0

    cdef int tell_of_delivery(self, Happening what, Receiver group, Delivery delivery, unsigned int reason) except -1:
        self.events.append((group, <int>what, delivery, reason))
        return 0

    def settle(self):
        """As `work_off`, for the control plane."""
        self.work_off()

    cdef int work_off_all(self) except -1:
        self.is_at_work = True
        try:
            while self.events or self.with_room:
                self.work_off_events()
                if self.with_room:
                    member = next(iter(self.with_room))
                    del self.with_room[member]
                    self.offer_room(<Member>member)
        finally:
            self.is_at_work = False
        return 0

    cdef int work_off_events(self) except -1:
        cdef int what
        cdef unsigned int reason
        while self.events:
            events, self.events = self.events, []
            for group, what, subject, reason in events:
                if what <= MEMBER_HAS_ROOM:
                    (<SharedReceiver?>group).member_changed(<Happening>what, <Member?>subject)
                else:
                    (<SharedReceiver?>group).delivery_changed(<Happening>what, <Delivery?>subject, reason)
        return 0

    cdef int offer_room(self, Member member) except -1:
        """Let groups in which something waits give the member some of it, as long as it takes more."""
        cdef dict few = self.waiting if len(self.waiting) < len(member.groups) else member.groups
        cdef dict others = member.groups if few is self.waiting else self.waiting
        for group in list(few):
            if not member.has_room():
                break
            if group in others:
                (<SharedReceiver?>group).member_changed(MEMBER_HAS_ROOM, member)
        return 0
