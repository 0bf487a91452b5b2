"""What is known about one member of shared groups: the measurements that policies choose by.

One Member belongs to one session, however many groups the session is in, because what is measured (its
queue, its speed, its unacknowledged messages) is the client's and not the group's. So every PUBLISH sent to
a session that is in a group is reported here once, also those of its ordinary subscriptions: by
`Policy.sent` if a group chose it, by `Member.sent` otherwise.

All three ways of estimating run all the time, whatever policy is in use: a policy can be exchanged without
starting to learn anew, and the state of a member can be shown under every policy. They are
* the thesis's score: reported queue and processing time, messages sent since the report (`score`);
* the virtual finish time of `status2`: when the work that was given to it will be done (`busy_until_s`);
* the service time seen in acknowledgements, for clients that acknowledge when they have processed.

`mean_s` is what the group that asks assumes of a member whose own speed is not known; 0 = not known either.
Times are seconds on the caller's monotonic clock. Cost: a few ns each, but an acknowledgement out of order looks
at all that was sent before it.
"""

from libc.math cimport exp, pow
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

cdef double UNKNOWN = -1.0
cdef double FADE_S = 3.0              # time constant with which bad news about an idle member is forgotten
cdef double SERVICE_LEAST_S = 0.001   # below it an acknowledgement tells nothing about work
cdef double ACK_GAIN = 0.2
cdef double ACK_OUTLIER = 4.0         # a single ack counts as at most so many times the average


cdef inline double faded(double service_s, double mean_s, double idle_s) noexcept:
    """Bad news is forgotten with time, so that a member that was slow once is tried again."""
    if mean_s <= 0 or service_s <= mean_s:
        return service_s
    return mean_s + (service_s - mean_s) * exp(-idle_s / FADE_S)


cdef class Member:
    def __init__(self, str name, double now, *, object owner=None, double weight=1.0, double capacity=0.0,
                 Py_ssize_t receive_max=65535, bint acks_when_processed=False, bint has_event_status=False,
                 double rtt_s=0.0, double rtt_min_s=0.0):
        self.name = name
        self.owner = owner
        self.weight = weight
        self.capacity = capacity
        self.receive_max = receive_max
        self.acks_when_processed = acks_when_processed
        self.has_event_status = has_event_status
        self.rtt_s = rtt_s
        self.rtt_min_s = rtt_min_s
        self.connected(now)

    def __dealloc__(self):
        free(self.flights)

    def __repr__(self):
        return f"<Member {self.name!r} in flight {self.inflight}>"

    cpdef void connected(self, double now):
        """A connection began: nothing is known of it. What was unacknowledged counts as sent again now."""
        cdef Py_ssize_t index
        self.is_pressed = False
        self.last_sent_s = self.last_ack_s = self.last_status_s = self.busy_until_s = self.head_sent_s = now
        self.has_status = False
        self.reported_queue = self.history_count = self.history_next = 0
        self.mean_processing_s = 0.0
        self.reported_service_s = self.acked_service_s = UNKNOWN
        self.backlog_before = self.processed_before = 0
        self.sent_total = self.sent_since_status = self.inflight
        for index in range(self.flight_count):
            self.flights[(self.flight_begin + index) & (self.flight_capacity - 1)].sent_s = now

    cdef bint has_room(self) noexcept:
        return self.inflight + self.releasing < self.receive_max

    cdef void promised(self, Py_ssize_t size_bytes) noexcept:
        pass    # what was sent is counted at once here, whenever the caller does it

    cdef bint under_pressure(self) noexcept:
        return self.is_pressed

    cpdef long long take_token(self):
        """A number for the next delivery, unique in this session. A broker that numbers deliveries itself
        overrides it."""
        self.last_token += 1
        return self.last_token

    cpdef void sent(self, double now, long long token=0, double mean_s=0.0):
        """A PUBLISH went out. `token` names it until its acknowledgement; 0 = none will come (QoS 0)."""
        self.busy_until_s = max(self.busy_until_s, now) + self.finish_service(now, mean_s)
        self.last_sent_s = now
        self.sent_total += 1
        self.sent_since_status += 1
        if token:
            if self.inflight == 0:
                self.head_sent_s = now
            self.add_flight(now, token)
            self.last_token = max(self.last_token, token)

    cdef void sent_many(self, double now, long long count):
        """So many PUBLISH packets of QoS 0 went out together, of subscriptions outside of groups."""
        self.busy_until_s = max(self.busy_until_s, now) + count * self.finish_service(now, 0.0)
        self.last_sent_s = now
        self.sent_total += count
        self.sent_since_status += count

    cpdef bint acked(self, double now, long long token):
        """PUBACK, or a PUBREC that ends the delivery. False: this token is not in flight."""
        cdef Flight* flight = self.flight(token)
        if flight == NULL:
            return False
        self.learn_from_ack(now, flight.sent_s)
        self.end_flight(flight)
        return True

    cdef int add_flight(self, double now, long long token) except -1:
        cdef Flight* larger
        cdef Py_ssize_t capacity
        cdef Flight* slot
        if self.flight_count == self.flight_capacity:
            capacity = max(8, 2 * self.flight_capacity)
            larger = <Flight*>realloc(self.flights, capacity * sizeof(Flight))
            if larger == NULL:
                raise MemoryError
            if self.flight_begin:    # those that had wrapped around go on behind the former end
                memcpy(larger + self.flight_capacity, larger, self.flight_begin * sizeof(Flight))
            self.flights = larger
            self.flight_capacity = capacity
        slot = &self.flights[(self.flight_begin + self.flight_count) & (self.flight_capacity - 1)]
        slot.token = token
        slot.sent_s = now
        slot.is_open = True
        self.flight_count += 1
        self.inflight += 1
        return 0

    cdef Flight* flight(self, long long token) noexcept:
        """What is under way under that token, or NULL. Mostly it is the oldest."""
        cdef Py_ssize_t index
        cdef Flight* slot
        for index in range(self.flight_count):
            slot = &self.flights[(self.flight_begin + index) & (self.flight_capacity - 1)]
            if slot.token == token and slot.is_open:
                return slot
        return NULL

    cdef void end_flight(self, Flight* flight) noexcept:
        flight.is_open = False
        self.inflight -= 1
        while self.flight_count and not self.flights[self.flight_begin].is_open:
            self.flight_begin = (self.flight_begin + 1) & (self.flight_capacity - 1)
            self.flight_count -= 1
        if self.inflight:
            self.head_sent_s = self.flights[self.flight_begin].sent_s

    cpdef bint received(self, double now, long long token):
        """PUBREC: the work is done, but the client's Receive Maximum counts it until PUBCOMP."""
        if not self.acked(now, token):
            return False
        self.releasing += 1
        return True

    cpdef void completed(self):
        """PUBCOMP, or the end of a delivery that waited for it."""
        self.releasing -= 1

    cpdef bint withdrawn(self, long long token):
        """The message is no longer this member's, and nothing is learned from it."""
        cdef Flight* flight = self.flight(token)
        if flight == NULL:
            return False
        self.end_flight(flight)
        return True

    cpdef void report(self, double now, Py_ssize_t queue, double processing_s, Py_ssize_t processed=-1,
                      double mean_s=0.0):
        """A status: messages waiting, mean processing time since the last report (0 = none was processed),
        and if the client counts them the messages processed since CONNECT."""
        cdef Py_ssize_t backlog
        cdef int i
        if processed >= 0:
            backlog = max(self.sent_total - processed, 0)
        else:
            backlog = queue + 1 if queue or processing_s > 0 else 0    # one more is in work, most likely
        self.learn_from_report(now, backlog, processing_s, processed)

        self.history[self.history_next] = processing_s
        self.history_next = (self.history_next + 1) % HISTORY_MAX
        self.history_count = min(self.history_count + 1, HISTORY_MAX)
        self.mean_processing_s = 0.0
        for i in range(self.history_count):
            self.mean_processing_s += self.history[i] / self.history_count
        self.reported_queue = queue
        self.sent_since_status = 0
        self.last_status_s = now
        self.has_status = True
        self.busy_until_s = now + max(0.0, backlog - 0.5) * self.finish_service(now, mean_s)

    cdef void learn_from_report(self, double now, Py_ssize_t backlog, double processing_s,
                                Py_ssize_t processed) noexcept:
        cdef Py_ssize_t count = processed - self.processed_before if processed >= 0 else 1
        cdef bint made_progress = processing_s > 0 or (processed >= 0 and count > 0)
        cdef double gain
        if processing_s > 0:
            gain = min(0.7, 1.0 - pow(0.9, max(count, 1)))
            if self.reported_service_s < 0:
                self.reported_service_s = processing_s
            else:
                self.reported_service_s += gain * (processing_s - self.reported_service_s)
        elif backlog > 0 and self.backlog_before > 0 and not made_progress:
            # It had work and did none of it for a whole interval: it is at least that slow.
            self.reported_service_s = max(self.reported_service_s, now - self.last_status_s)
        self.backlog_before = backlog
        if processed >= 0:
            self.processed_before = processed

    cdef void learn_from_ack(self, double now, double sent_s) noexcept:
        cdef double service_s = now - sent_s - self.rtt_min_s
        cdef double since_last_s = now - self.last_ack_s
        if sent_s < self.last_ack_s:    # it waited behind the one acknowledged before, or came just after it
            service_s = min(since_last_s, max(service_s, since_last_s - self.rtt_min_s))
        service_s = max(service_s, 0.0)
        if self.acked_service_s < 0:
            self.acked_service_s = service_s
        else:
            # Cut, so that one long pause doesn't keep a good member out for minutes.
            service_s = min(service_s, ACK_OUTLIER * max(self.acked_service_s, SERVICE_LEAST_S))
            self.acked_service_s += ACK_GAIN * (service_s - self.acked_service_s)
        self.last_ack_s = now

    cdef double score(self, double now, double group_mean_s) noexcept:
        """The thesis's score, exactly: time since it was chosen, less the work it is thought to have left."""
        cdef double processing_s = self.mean_processing_s if self.mean_processing_s > 0 else group_mean_s
        cdef double left_s = ((self.reported_queue + self.sent_since_status) * processing_s
                              - (now - self.last_status_s))
        return (now - self.last_sent_s) - max(left_s, 0.0)

    def thesis_score(self, double now, double group_mean_s):
        """`score` for operators and tests."""
        return self.score(now, group_mean_s)

    cdef double finish_service(self, double now, double mean_s) noexcept:
        """Service time by its reports; `mean_s` if it has reported none."""
        if self.reported_service_s < 0:
            return mean_s
        if self.busy_until_s < now:
            return faded(self.reported_service_s, mean_s, now - self.last_sent_s)
        return self.reported_service_s

    cdef double ack_service(self, double now, double mean_s) noexcept:
        """Service time by its acknowledgements; `mean_s` if there was none."""
        if self.acked_service_s < 0:
            return mean_s
        if self.inflight == 0:
            return faded(self.acked_service_s, mean_s, now - max(self.last_ack_s, self.last_sent_s))
        return self.acked_service_s
