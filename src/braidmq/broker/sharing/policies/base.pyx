"""Policy: how a shared group picks the member that gets a message. The one interface of all policies.

    join / leave      a member can be chosen from now on / no longer. Only members that are online are in here
    choose            who gets this message? None: nobody now, let it wait in the group. Changes nothing
    sent              this member was given a message (the answer of choose, as a rule)
    acked, status     its acknowledgement, its status report
    eligible_at       after None: when time alone might change the answer (infinity: only an event can)
    bar               these members may not have what is chosen for next, because they may not read it

What is measured belongs to the Member, what is the group's belongs to its Seat here, so a run-time change
of policy loses nothing: `take_over` seats the same members in the new policy.

Two rules hold under every policy: a member whose Receive Maximum is used up gets nothing that needs an
acknowledgement, and one whose socket is pressed gets nothing while another has room (but keys that are
bound to one member wait for it).

`rotation` is kept in the order of choice, so "the first of the best in rotation" is "the one chosen longest
ago of the best", also for messages of one instant. Cost: `sent` moves one pointer in a list of the members.
"""

from libc.math cimport INFINITY


cdef bint has_room(Seat seat, int qos) noexcept:
    return not seat.is_barred and (qos == 0 or seat.qos == 0 or seat.member.has_room())


cdef class Policy:
    def __cinit__(self):
        self.rotation = []
        self.seats = {}

    def __len__(self):
        return len(self.rotation)

    def __contains__(self, Member member):
        return member in self.seats

    @property
    def members(self):
        """The members in order of joining."""
        return [seat.member for seat in sorted(self.rotation, key=lambda seat: seat.number)]

    def share(self, Member member):
        """How many messages it was given by this policy."""
        return self.seat_of(member).chosen

    cpdef void join(self, Member member, double now, int qos=2):
        """Seats the member behind the others; a member that is seated already keeps its place."""
        cdef Seat seat = self.seats.get(member)
        if seat is not None:
            seat.qos = qos
            return
        seat = Seat.__new__(Seat)
        seat.member = member
        seat.qos = qos
        self.last_number += 1
        seat.number = self.last_number
        self.seats[member] = seat
        self.rotation.append(seat)
        self.seated(seat, now)

    cpdef void leave(self, Member member, double now):
        cdef Seat seat = self.seats.pop(member, None)
        if seat is not None:
            self.rotation.remove(seat)
            self.unseated(seat, now)

    cpdef void take_over(self, Policy old, double now):
        """Seats the members of the policy that was in use until now, in its rotation."""
        cdef Seat seat
        for seat in old.rotation:
            self.join(seat.member, now, seat.qos)

    cpdef void sent(self, Member member, double now, Delivery delivery=None):
        cdef Seat seat = self.seat_of(member)
        cdef list rotation = self.rotation
        member.sent(now, delivery, self.mean_service())
        seat.chosen += 1
        if rotation[len(rotation) - 1] is not seat:
            rotation.remove(seat)
            rotation.append(seat)
        self.chose(seat, now)

    cpdef bint acked(self, Member member, double now, Delivery delivery):
        return member.acked(now, delivery)

    cpdef void status(self, Member member, double now, object report):
        """`report`: a braidmq.wire.status.StatusReport."""
        member.report(now, report.queue, report.processing_s, report.processed, self.mean_service())

    cpdef Member choose(self, double now, object publisher, object topic, int qos=0, Py_ssize_t pending=1):
        """`pending`: messages that wait in the group, this one included."""
        raise NotImplementedError

    cpdef double eligible_at(self, double now):
        return INFINITY

    cpdef Member overflow(self, double now, int qos):
        """Where a message may go that finds the group's queue full; None: nowhere."""
        return None

    cpdef object key(self, object publisher, object topic):
        """Ordered policies: messages with the same key keep their order."""
        return None

    cpdef Member owner(self, object publisher, object topic):
        """Ordered policies: the member of this key, whether it has room or not."""
        return None

    cpdef void bar(self, object barred):
        """`barred`: a frozenset of members, or None. It stays so until it is told otherwise."""
        cdef Seat seat
        if barred is self.barred:
            return
        self.barred = barred
        for seat in self.rotation:
            seat.is_barred = barred is not None and seat.member in barred

    cpdef double expected_wait(self, Member member, double now):
        """How long a message given to it now would wait there, by what is known of it. For operators."""
        cdef double mean_s = self.mean_service()
        if member.has_status:
            return max(member.busy_until_s - now, 0.0)
        return member.inflight * max(member.ack_service(now, mean_s), 0.0)

    cdef double mean_service(self):
        """What to assume of a member whose speed is not known; 0 = nothing is known of any."""
        return 0.0

    cdef Seat seat_of(self, Member member):
        cdef Seat seat = self.seats.get(member)
        if seat is None:
            raise KeyError(f"{member!r} is not seated here")
        return seat

    cdef list free_seats(self, int qos):
        """The seats that may be given the message, in rotation."""
        cdef list free = [], pressed = None
        cdef Seat seat
        for seat in self.rotation:
            if not has_room(seat, qos):
                continue
            if not seat.member.under_pressure():
                free.append(seat)
            elif pressed is None:
                pressed = [seat]
            else:
                pressed.append(seat)
        return pressed if pressed is not None and not free else free

    # What a policy keeps per seat.
    cdef void seated(self, Seat seat, double now):
        pass

    cdef void unseated(self, Seat seat, double now):
        pass

    cdef void chose(self, Seat seat, double now):
        pass


cdef class Seat:
    def __repr__(self):
        return f"<Seat {self.number} of {self.member!r}>"
