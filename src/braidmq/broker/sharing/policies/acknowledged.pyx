"""Policies that choose by acknowledgements: least_inflight and adaptive.

least_inflight: the fewest unacknowledged messages, ties to the one chosen longest ago. It needs no
declaration: acks sent after the work tell who has work left, and acks sent on receipt tell nothing, which
leaves round robin (if all members are equally far).

adaptive binds late. For each member the time E to completion of one more message is estimated from its
acks; a member takes only as many messages as keep it busy over the round trip (its window), and when none
is worth waiting for less than three times as long as the best, the answer is None: the message stays in the
group, where it can still go to whoever turns out to be first. Windows open with the group's queue, so a
wrong estimate can't starve a member. What is known of a member decides how E is made:
    acks when processed (declared)    service time from acks, window
    status reports                    virtual finish time as in status2; acks are not looked at. QoS 0 too
    neither                           (in flight + 1) times the mean of the others; no window
    nothing known of anybody          least_inflight, of messages older than a round trip: of clients that
                                      acknowledge on receipt it makes no difference how far they are
Beside members of the first kind, one that tells nothing gets no more than its share in a round robin, unless
it had nothing for long: if it acknowledges on receipt it always looks idle, and would get nearly everything.

Cost: O(members), about 10 ns each.
"""

from libc.math cimport INFINITY, ceil, fabs

from braidmq.broker.sharing.policies.base cimport Policy, Seat
from braidmq.broker.sharing.member cimport Member

cdef double SLACK_LEAST_S = 0.001
cdef double SLACK_SHARE = 0.1
cdef double SERVICE_LEAST_S = 0.001    # a shorter one counts as not known
cdef double RECEIPT_GRACE_S = 0.001    # acknowledging on receipt takes a round trip and so much
cdef double REACH = 3.0                # a member that takes this many times longer than the best is not used


cdef Member least_inflight(list seats, double grace_s, double now):
    """Messages in flight count from the moment on when an ack could be there that is sent on receipt."""
    cdef Seat seat, best = None
    cdef Member member
    cdef Py_ssize_t count, least = 0
    for seat in seats:
        member = seat.member
        count = 0 if now - member.head_sent_s < member.rtt_min_s + grace_s else member.inflight
        if best is None or count < least:
            best, least = seat, count
    return None if best is None else best.member


cdef class LeastInflightPolicy(Policy):
    def __init__(self):
        self.name = "least_inflight"

    cpdef Member choose(self, double now, object publisher, object topic, int qos=0, Py_ssize_t pending=1):
        return least_inflight(self.free_seats(qos), -INFINITY, now)


cdef double acked_completion(Member member, double now, double service_s) noexcept:
    cdef double rtt_s = member.rtt_min_s, start_s
    if member.inflight == 0:
        return rtt_s / 2 + service_s
    if member.head_sent_s < member.last_ack_s:
        start_s = member.last_ack_s - rtt_s / 2
    else:
        start_s = member.head_sent_s + rtt_s / 2
    # Overdue work is expected to take as long again as it is late.
    return fabs(start_s + service_s - now) + member.inflight * service_s + rtt_s / 2


cdef class AdaptivePolicy(Policy):
    cdef int window
    cdef bint trusts_all      # every member of the group acknowledges when processed, by configuration
    cdef Py_ssize_t choices   # made so far
    cdef bint has_declared    # some member's acknowledgements are known to measure its work
    cdef double waking_s      # how long the last None lasts if nothing happens

    def __init__(self, int window=2, bint trust_all=False):
        self.name = "adaptive"
        self.window = window
        self.trusts_all = trust_all
        self.waking_s = INFINITY

    cdef inline bint is_declared(self, Member member) noexcept:
        return self.trusts_all or member.acks_when_processed

    cdef double known_service(self, Member member) noexcept:
        """What its own signals say of its service time; below 0 = nothing."""
        if self.is_declared(member):
            return member.acked_service_s
        return member.reported_service_s

    cdef double mean_service(self):
        cdef Seat seat
        cdef double total = 0.0, service_s
        cdef Py_ssize_t known = 0
        self.has_declared = False
        for seat in self.rotation:
            self.has_declared |= self.is_declared(seat.member)
            service_s = self.known_service(seat.member)
            if service_s >= 0:
                total += service_s
                known += 1
        return total / known if known else 0.0

    cdef inline bint counts_acks(self, Seat seat, int qos) noexcept:
        return self.is_declared(seat.member) and qos > 0 and seat.qos > 0

    cdef void estimate(self, Seat seat, int qos, double now, double mean_s) noexcept:
        """E: how long until one more message given to it now would be done."""
        cdef Member member = seat.member
        cdef bint by_acks = self.counts_acks(seat, qos)
        cdef double service_s
        if by_acks:
            service_s = member.ack_service(now, mean_s)
        else:
            service_s = member.finish_service(now, mean_s)
        seat.service_s = service_s
        if service_s < SERVICE_LEAST_S:
            seat.expected_s = member.inflight * SERVICE_LEAST_S
        elif by_acks:
            seat.expected_s = acked_completion(member, now, service_s)
        elif member.has_status:
            seat.expected_s = member.rtt_s / 2 + max(member.busy_until_s - now, 0.0) + service_s
        else:
            seat.expected_s = member.rtt_min_s / 2 + (member.inflight + 1) * service_s

    cdef double closed_for(self, Seat seat, double now, double mean_s) noexcept:
        """How long a member that tells nothing has to wait for its turn; 0: it is open."""
        if not self.has_declared or self.is_declared(seat.member) or seat.member.has_status:
            return 0.0
        if self.choices - seat.choice >= len(self.rotation) - 1:    # its turn in a round robin
            return 0.0
        return max(seat.member.last_sent_s + REACH * mean_s - now, 0.0)    # or it is idle, most likely

    cdef bint is_open(self, Seat seat, int qos, Py_ssize_t pending) noexcept:
        """Whether its window takes one more."""
        cdef double rtt_s = seat.member.rtt_min_s
        cdef double window = self.window
        if seat.service_s < SERVICE_LEAST_S or not self.counts_acks(seat, qos):
            return True
        if rtt_s > seat.service_s / 4:
            window += ceil(rtt_s / seat.service_s)
        return seat.member.inflight < window + pending // len(self.rotation)

    cpdef Member choose(self, double now, object publisher, object topic, int qos=0, Py_ssize_t pending=1):
        cdef double best_s = INFINITY, limit_s, closed_s, mean_s = self.mean_service()
        cdef list free = self.free_seats(qos)
        cdef Seat seat
        self.waking_s = INFINITY
        if mean_s < SERVICE_LEAST_S:
            return least_inflight(free, RECEIPT_GRACE_S, now)
        limit_s = self.survey(now, qos, pending, mean_s)
        for seat in free:
            if not self.is_open(seat, qos, pending):
                seat.expected_s = INFINITY
                continue
            # The limit rises by at most REACH and E falls by at most 1 a second.
            closed_s = max(self.closed_for(seat, now, mean_s), (seat.expected_s - limit_s) / (REACH + 1.0))
            if closed_s > 0.0:
                self.waking_s = min(self.waking_s, closed_s)
                seat.expected_s = INFINITY
            best_s = min(best_s, seat.expected_s)
        if best_s == INFINITY:
            return None
        best_s += max(SLACK_LEAST_S, SLACK_SHARE * best_s)
        for seat in free:
            if seat.expected_s <= best_s:
                return seat.member

    cdef double survey(self, double now, int qos, Py_ssize_t pending, double mean_s):
        """Estimates every seat, and answers the E above which a member is not worth it."""
        cdef double least_s = INFINITY, rate = 0.0
        cdef Seat seat
        for seat in self.rotation:
            self.estimate(seat, qos, now, mean_s)
            if seat.is_barred:
                continue
            # Nobody waits for one whose turn it isn't, nor for one whose socket is full: for how long, time can't tell.
            if self.closed_for(seat, now, mean_s) <= 0.0 and not seat.member.under_pressure():
                least_s = min(least_s, seat.expected_s)
            rate += 1.0 / max(seat.service_s, SERVICE_LEAST_S)
        return REACH * (least_s + (pending - 1) / rate) if rate else INFINITY

    cdef void chose(self, Seat seat, double now):
        self.choices += 1
        seat.choice = self.choices

    cpdef double eligible_at(self, double now):
        return now + max(self.waking_s, SLACK_LEAST_S)

    cpdef Member overflow(self, double now, int qos):
        """The member with the smallest E that has room, whatever its window."""
        cdef Seat seat, best = None
        self.survey(now, qos, 1, self.mean_service())
        for seat in self.free_seats(qos):
            if best is None or seat.expected_s < best.expected_s:
                best = seat
        return None if best is None else best.member
