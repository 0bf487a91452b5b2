"""Policies that choose by status reports: status (the thesis) and status2 (virtual finish time).

status: the member with the highest score, ties to the one that joined first. `Member.score` is the formula;
a member that has reported no processing time counts with the group's mean, zeros included, as the thesis
has it.

status2 keeps for each member the time at which the work given to it will be done, and gives the message to
one that is done first. Two rules, by how fresh the reports are:
    completion    members that report at once when their queue changes: rtt/2 + wait + service; among those
                  within max(1 ms, 10 %) of the least, the one chosen longest ago
    wait          reports once a second are staler, so less greed: the wait alone, within max(1 ms, half the
                  mean service)
Both go round robin while nothing is known. A group with any member of the staler kind uses the wait rule.

Cost: O(members), a few ns each.
"""

from libc.math cimport INFINITY

from braidmq.broker.sharing.policies.base cimport Policy, Seat
from braidmq.broker.sharing.member cimport Member

cdef double SLACK_LEAST_S = 0.001


cdef class StatusPolicy(Policy):
    def __init__(self):
        self.name = "status"

    cdef double group_mean(self):
        cdef Seat seat
        cdef double total = 0.0
        for seat in self.rotation:
            total += seat.member.mean_processing_s
        return total / len(self.rotation)

    cpdef Member choose(self, double now, object publisher, object topic, int qos=0, Py_ssize_t pending=1):
        cdef list free = self.free_seats(qos)
        cdef Seat seat, best = None
        cdef double score, best_score = 0.0, mean_s
        if not free:
            return None
        mean_s = self.group_mean()
        for seat in free:
            score = seat.member.score(now, mean_s)
            if best is None or score > best_score or (score == best_score and seat.number < best.number):
                best, best_score = seat, score
        return best.member


cdef class Status2Policy(Policy):
    cdef int rule    # 0: by the members; 1: wait; 2: completion

    def __init__(self, str rule="auto"):
        self.name = "status2"
        self.rule = ("auto", "wait", "completion").index(rule)

    cdef double mean_service(self):
        cdef Seat seat
        cdef double total = 0.0
        cdef Py_ssize_t known = 0
        for seat in self.rotation:
            if seat.member.reported_service_s >= 0:
                total += seat.member.reported_service_s
                known += 1
        return total / known if known else 0.0

    cdef bint counts_completion(self):
        cdef Seat seat
        if self.rule == 0:
            for seat in self.rotation:
                if not seat.member.has_event_status:
                    return False
        return self.rule != 1

    cpdef Member choose(self, double now, object publisher, object topic, int qos=0, Py_ssize_t pending=1):
        cdef list free = self.free_seats(qos)
        cdef Seat seat
        cdef double mean_s, least_s = INFINITY
        cdef bint is_completion
        if not free:
            return None
        mean_s = self.mean_service()
        if mean_s <= 0.0:
            return (<Seat>free[0]).member
        is_completion = self.counts_completion()
        for seat in free:
            seat.expected_s = max(seat.member.busy_until_s - now, 0.0)
            if is_completion:
                seat.expected_s += seat.member.rtt_s / 2 + seat.member.finish_service(now, mean_s)
            least_s = min(least_s, seat.expected_s)
        least_s += max(SLACK_LEAST_S, 0.1 * least_s if is_completion else 0.5 * mean_s)
        for seat in free:
            if seat.expected_s <= least_s:
                return seat.member
