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
Times are seconds on the caller's monotonic clock. Cost: a few ns each, in whatever order acknowledgements come.

A member sends for itself: a group asks it by `has_room`, gives it a `Delivery` by `send`, and may take it back by
`withdraw`. SessionMember (receiver.pyx) does this for a session of this broker; here is what all members share.
"""

cimport cython

from libc.math cimport exp, pow

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


cdef class Place:
    """What one member is in one group, and what the group has given it."""

    def __cinit__(self):
        self.deliveries = {}


@cython.freelist(64)
cdef class Delivery:
    """A message with a member. In the effects of a group it means: send it."""

    def __init__(self, Member member not None):
        """A delivery outside of groups."""
        self.member = member
        self.token = member.take_token()

    @property
    def message(self):
        return self.entry.message

    def __repr__(self):
        return f"<Delivery {self.token} of {self.entry!r} to {self.member.name!r}>"


cdef class Member:
    def __init__(self, str name, double now, *, object owner=None, double weight=1.0, double capacity=0.0,
                 Py_ssize_t receive_max=65535, bint acks_when_processed=False, bint has_event_status=False,
                 double rtt_s=0.0, double rtt_min_s=0.0):
        self.name = name
        self.owner = owner
        self.groups = {}
        self.weight = weight
        self.capacity = capacity
        self.receive_max = receive_max
        self.acks_when_processed = acks_when_processed
        self.has_event_status = has_event_status
        self.rtt_s = rtt_s
        self.rtt_min_s = rtt_min_s
        self.connected(now)

    def __repr__(self):
        return f"<Member {self.name!r} in flight {self.inflight}>"

    cpdef void connected(self, double now):
        """A connection began: nothing is known of it. What was unacknowledged counts as sent again now."""
        cdef Delivery delivery = self.oldest
        self.is_pressed = False
        self.last_sent_s = self.last_ack_s = self.last_status_s = self.busy_until_s = self.head_sent_s = now
        self.has_status = False
        self.reported_queue = self.history_count = self.history_next = 0
        self.mean_processing_s = 0.0
        self.reported_service_s = self.acked_service_s = UNKNOWN
        self.backlog_before = self.processed_before = 0
        self.sent_total = self.sent_since_status = self.inflight
        while delivery is not None:
            delivery.sent_s = now
            delivery = delivery.newer

    cdef bint has_room(self) noexcept:
        return self.inflight + self.releasing < self.receive_max

    cpdef bint send(self, Delivery delivery, object outcome):
        """Send it. False: it can't be sent. `outcome` is the caller's, of the publication that it comes from."""
        raise NotImplementedError

    cpdef void withdraw(self, Delivery delivery):
        """Forget a delivery that another member gets."""
        raise NotImplementedError

    cdef void promised(self, Py_ssize_t size_bytes) noexcept:
        pass    # what was sent is counted at once here, whenever the caller does it

    cdef bint is_lasting(self) noexcept:
        return False

    cdef bint makes_lasting(self) noexcept:
        return self.is_lasting()

    cdef bint under_pressure(self) noexcept:
        return self.is_pressed

    cpdef long long take_token(self):
        """A number for the next delivery, unique in this session. A broker that numbers deliveries itself
        overrides it."""
        self.last_token += 1
        return self.last_token

    cdef long long token_for(self, Entry entry):
        """The number of a delivery of this entry; unique among those of the member in the entry's group."""
        return self.take_token()

    cpdef void sent(self, double now, Delivery delivery=None, double mean_s=0.0):
        """A PUBLISH went out; without a delivery no acknowledgement will come (QoS 0)."""
        self.busy_until_s = max(self.busy_until_s, now) + self.finish_service(now, mean_s)
        self.last_sent_s = now
        self.sent_total += 1
        self.sent_since_status += 1
        if delivery is not None:
            delivery.sent_s = now
            self.begin(delivery)

    cdef Delivery plain_delivery(self, long long token):
        """A delivery of a subscription outside of groups, to be told to `sent`."""
        cdef Delivery delivery = Delivery.__new__(Delivery)
        delivery.member = self
        delivery.token = token
        return delivery

    cdef void sent_many(self, double now, long long count):
        """So many PUBLISH packets of QoS 0 went out together, of subscriptions outside of groups."""
        self.busy_until_s = max(self.busy_until_s, now) + count * self.finish_service(now, 0.0)
        self.last_sent_s = now
        self.sent_total += count
        self.sent_since_status += count

    cpdef bint acked(self, double now, Delivery delivery):
        """PUBACK, or a PUBREC that ends the delivery. False: it is not in flight."""
        if not delivery.is_open:
            return False
        self.learn_from_ack(now, delivery.sent_s)
        self.end(delivery)
        return True

    cdef void begin(self, Delivery delivery):
        """It is the youngest in flight."""
        delivery.is_open = True
        delivery.older = self.newest
        if self.newest is None:
            self.oldest = delivery
            self.head_sent_s = delivery.sent_s
        else:
            self.newest.newer = delivery
        self.newest = delivery
        self.last_token = max(self.last_token, delivery.token)
        self.inflight += 1

    cdef void end(self, Delivery delivery):
        """It is in flight no longer."""
        cdef Delivery older = delivery.older, newer = delivery.newer
        delivery.is_open = False
        delivery.older = delivery.newer = None
        if older is None:
            self.oldest = newer
        else:
            older.newer = newer
        if newer is None:
            self.newest = older
        else:
            newer.older = older
        self.inflight -= 1
        if self.oldest is not None:
            self.head_sent_s = self.oldest.sent_s

    cpdef bint received(self, double now, Delivery delivery):
        """PUBREC: the work is done, but the client's Receive Maximum counts it until PUBCOMP."""
        if not self.acked(now, delivery):
            return False
        self.releasing += 1
        return True

    cpdef void completed(self):
        """PUBCOMP, or the end of a delivery that waited for it."""
        self.releasing -= 1

    cpdef bint withdrawn(self, Delivery delivery):
        """The message is no longer this member's, and nothing is learned from it."""
        if not delivery.is_open:
            return False
        self.end(delivery)
        return True

    def forget_all(self):
        """The session is over: what it had in flight is let go."""
        while self.oldest is not None:
            self.end(self.oldest)

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
