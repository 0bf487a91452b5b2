"""Policies that don't look at what members do: random, round robin, weighted, sticky, capacity.

* random: uniform over the members with room.
* round_robin: the one chosen longest ago. Thesis: the oldest t_s.
* weighted: start-time fair queueing over virtual time; a member of weight 3 gets three times the messages of
  one of weight 1, evenly spread. One that was away or without room doesn't catch up on what it missed.
* sticky: each publisher's messages stay with one member until it goes; new publishers go to the member with
  the fewest. A join moves nobody (the hash policies need no table, but move a share). The table is bounded;
  a publisher that fell out of it is bound anew, and what it published before may then be overtaken.
* capacity: the scheme of Matić et al. (TELFOR 2020), [21] of the thesis, for the members of one broker.
  Member i has a capacity t_i, known beforehand, in messages a second, and is chosen with probability
  t_i / sum of t. A message takes one from t_i, and time gives it back at the rate of the full capacity.
  When all is used up, the full capacities decide.

Cost: a list of the candidates for random, weighted and capacity; round_robin and sticky O(1) as a rule.
"""

from collections import OrderedDict

from libc.math cimport INFINITY

from braidmq.broker.sharing.policies.base cimport Policy, Seat, has_room
from braidmq.broker.sharing.member cimport Member


cdef class RandomPolicy(Policy):
    cdef object rng

    def __init__(self, rng):
        self.name = "random"
        self.rng = rng

    cpdef Member choose(self, double now, object publisher, object topic, int qos=0, Py_ssize_t pending=1):
        cdef list free = self.free_seats(qos)
        cdef Py_ssize_t count = len(free)
        if count == 0:
            return None
        return (<Seat>free[<Py_ssize_t>(<double>self.rng.random() * count)]).member


cdef class RoundRobinPolicy(Policy):
    def __init__(self):
        self.name = "round_robin"

    cpdef Member choose(self, double now, object publisher, object topic, int qos=0, Py_ssize_t pending=1):
        cdef Seat seat, pressed = None
        for seat in self.rotation:
            if has_room(seat, qos):
                if not seat.member.under_pressure():
                    return seat.member
                if pressed is None:
                    pressed = seat
        return None if pressed is None else pressed.member


cdef class WeightedPolicy(Policy):
    cdef dict weights      # client id -> weight, in place of what the member declared
    cdef double served     # virtual time: start of the service of the latest message

    def __init__(self, dict weights=None):
        self.name = "weighted"
        self.weights = weights or {}

    cdef double start(self, Seat seat) noexcept:
        # A seat that could be chosen all along is never more than one message behind; others must not catch up.
        return max(seat.turn, self.served - 1.0 / seat.weight)

    cpdef Member choose(self, double now, object publisher, object topic, int qos=0, Py_ssize_t pending=1):
        cdef Seat seat, best = None
        cdef double turn, best_turn = 0.0
        for seat in self.free_seats(qos):
            turn = self.start(seat) + 1.0 / seat.weight
            if best is None or turn < best_turn:
                best, best_turn = seat, turn
        return None if best is None else best.member

    cdef void seated(self, Seat seat, double now):
        seat.weight = self.weights.get(seat.member.name, seat.member.weight)
        if not 0.0 < seat.weight < INFINITY:    # as a client may have declared it
            seat.weight = 1.0
        seat.turn = self.served

    cdef void chose(self, Seat seat, double now):
        seat.turn = self.start(seat)
        self.served = max(seat.turn, self.served)
        seat.turn += 1.0 / seat.weight


cdef class StickyPolicy(Policy):
    cdef object bound               # OrderedDict: key -> Member, the key used longest ago first
    cdef dict bound_count           # Member -> keys
    cdef Py_ssize_t publishers_max
    cdef bint is_one_for_all

    def __init__(self, Py_ssize_t publishers_max=10_000, bint one_for_all=False):
        self.name = "sticky"
        self.is_ordered = True
        self.publishers_max = publishers_max
        self.is_one_for_all = one_for_all
        self.bound = OrderedDict()
        self.bound_count = {}

    cpdef object key(self, object publisher, object topic):
        return None if self.is_one_for_all else publisher

    cpdef Member owner(self, object publisher, object topic):
        cdef object key = self.key(publisher, topic)
        cdef Member member = self.bound.get(key)
        if self.barred is not None:
            return member if member is not None and member not in self.barred else self.first_reader()
        if member is not None:
            self.bound.move_to_end(key)
            return member
        return self.bind(key) if self.rotation else None

    cdef Member first_reader(self):
        """For what the publisher's own member may not read: always the same one, which binds nobody."""
        cdef Seat seat, first = None
        for seat in self.rotation:
            if not seat.is_barred and (first is None or seat.number < first.number):
                first = seat
        return None if first is None else first.member

    cdef Member bind(self, object key):
        cdef Seat seat, best = None
        for seat in self.rotation:
            if best is None or self.bound_count[seat.member] < self.bound_count[best.member]:
                best = seat
        if len(self.bound) >= self.publishers_max:
            self.bound_count[self.bound.popitem(last=False)[1]] -= 1
        self.bound[key] = best.member
        self.bound_count[best.member] += 1
        return best.member

    cpdef Member choose(self, double now, object publisher, object topic, int qos=0, Py_ssize_t pending=1):
        cdef Member member = self.owner(publisher, topic)
        if member is None or not has_room(self.seat_of(member), qos):
            return None
        return member

    cdef void seated(self, Seat seat, double now):
        self.bound_count[seat.member] = 0

    cdef void unseated(self, Seat seat, double now):
        del self.bound_count[seat.member]
        for key in [key for key, member in self.bound.items() if member is seat.member]:
            del self.bound[key]


cdef inline double used(Seat seat, double now) noexcept:
    return max(seat.used - seat.weight * (now - seat.used_at_s), 0.0)


cdef class CapacityPolicy(Policy):
    cdef object rng
    cdef dict capacities      # client id -> messages a second, in place of what the member declared
    cdef double default_capacity

    def __init__(self, rng, dict capacities=None, double default_capacity=100.0):
        self.name = "capacity"
        self.rng = rng
        self.capacities = capacities or {}
        self.default_capacity = default_capacity

    cdef double left(self, Seat seat, double now) noexcept:
        return max(seat.weight - used(seat, now), 0.0)

    cpdef Member choose(self, double now, object publisher, object topic, int qos=0, Py_ssize_t pending=1):
        cdef list free = self.free_seats(qos)
        cdef Seat seat
        cdef double total = 0.0, point
        cdef bint is_used_up
        if not free:
            return None
        for seat in free:
            total += self.left(seat, now)
        is_used_up = total <= 0.0
        if is_used_up:
            for seat in free:
                total += seat.weight
        point = <double>self.rng.random() * total
        for seat in free:
            point -= seat.weight if is_used_up else self.left(seat, now)
            if point < 0.0:
                return seat.member
        return seat.member

    cdef void seated(self, Seat seat, double now):
        seat.weight = self.capacities.get(seat.member.name, seat.member.capacity)
        if not 0.0 < seat.weight < INFINITY:    # not known, or nonsense that a client declared
            seat.weight = self.default_capacity
        seat.used_at_s = now

    cdef void chose(self, Seat seat, double now):
        # No more than twice the capacity is remembered: an overload must not be paid for long after it.
        seat.used = min(used(seat, now) + 1.0, 2.0 * seat.weight)
        seat.used_at_s = now
