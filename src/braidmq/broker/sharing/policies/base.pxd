from braidmq.broker.sharing.member cimport Delivery, Member


cdef class Seat:
    # One member's place in one group.
    cdef readonly Member member
    cdef readonly int qos               # the most that its subscription grants
    cdef readonly Py_ssize_t number     # order of joining
    cdef readonly Py_ssize_t chosen     # messages it got from this group
    cdef bint is_barred                 # it may not have the message that is being chosen for
    cdef double weight                  # weighted: its share; capacity: messages a second
    cdef double turn                    # weighted: virtual time up to which it has been served
    cdef double used                    # capacity: messages that it is thought to be busy with,
    cdef double used_at_s               # at this time
    cdef unsigned long long name_hash   # hash_*: the member's half of the rendezvous
    cdef Py_ssize_t choice              # adaptive: number of the choice that fell on it last
    cdef double service_s               # of the choice under way: estimated service time,
    cdef double expected_s              # and what members are compared by


cdef class Policy:
    cdef readonly str name
    cdef readonly bint is_ordered       # messages of one key go to one member, in order
    cdef readonly list rotation         # seats, the one chosen longest ago first
    cdef dict seats                     # Member -> Seat
    cdef Py_ssize_t last_number
    cdef object barred                  # frozenset of Members whose seats are barred at present, or None

    cpdef void join(self, Member member, double now, int qos=*)
    cpdef void leave(self, Member member, double now)
    cpdef void take_over(self, Policy old, double now)
    cpdef void sent(self, Member member, double now, Delivery delivery=*)
    cpdef bint acked(self, Member member, double now, Delivery delivery)
    cpdef void status(self, Member member, double now, object report)
    cpdef Member choose(self, double now, object publisher, object topic, int qos=*, Py_ssize_t pending=*)
    cpdef double eligible_at(self, double now)
    cpdef Member overflow(self, double now, int qos)
    cpdef object key(self, object publisher, object topic)
    cpdef Member owner(self, object publisher, object topic)
    cpdef double expected_wait(self, Member member, double now)
    cpdef void bar(self, object barred)

    cdef double mean_service(self)
    cdef Seat seat_of(self, Member member)
    cdef list free_seats(self, int qos)
    cdef void seated(self, Seat seat, double now)
    cdef void unseated(self, Seat seat, double now)
    cdef void chose(self, Seat seat, double now)


cdef bint has_room(Seat seat, int qos) noexcept
