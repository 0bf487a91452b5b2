from braidmq.broker.sharing.queue cimport Entry

cdef enum:
    HISTORY_MAX = 5    # reported averages that the thesis's t_p is the mean of


cdef class Member


cdef class Place:
    # One member in one group.
    cdef readonly Member member
    cdef readonly object target             # the caller's: what the subscription asks for
    cdef readonly int qos
    cdef readonly bint is_online
    cdef readonly bint is_subscribed        # False: it only finishes what was begun with it
    cdef readonly dict deliveries           # token -> Delivery, in order of sending


cdef class Delivery:
    # A message under way to a member, from its sending to its last acknowledgement. The only record of it: its
    # place, the member and the session's packet id refer to this object.
    cdef readonly Member member
    cdef readonly Place place               # None: it is of an ordinary subscription, and only measured
    cdef readonly Entry entry               # None: the same
    cdef readonly int qos
    cdef readonly long long token           # its number in the session; 0 for QoS 0
    cdef readonly double sent_s
    cdef readonly bint is_received          # PUBREC came
    cdef readonly bint is_over              # acknowledged for good, or taken back
    cdef bint is_open                       # in its member's list: neither PUBACK nor PUBREC came
    cdef unsigned int packet_id             # the session's
    cdef Delivery older                     # in its member's list
    cdef Delivery newer


cdef class Member:
    # Facts: what the client declared or the broker was configured with.
    cdef public object owner                # whatever the caller wants back from a choice
    cdef readonly dict groups               # the caller's: the groups that know it, as keys
    cdef readonly str name                  # the client id
    cdef public double weight               # share in the weighted policy
    cdef public double capacity             # messages a second in the capacity policy; 0 = not known
    cdef public Py_ssize_t receive_max      # QoS 1/2 messages it takes at a time
    cdef public bint acks_when_processed    # declared `ack-mode`=`processed`: its acks measure its work
    cdef public bint has_event_status       # reports at once when its queue changes much
    cdef public double rtt_s                # smoothed round trip; 0 = not known
    cdef public double rtt_min_s            # shortest round trip seen; 0 = not trusted
    cdef public bint is_pressed             # what under_pressure answers, unless a subclass knows better

    # Traffic of the present connection.
    cdef readonly double last_sent_s        # t_s: time of the last message sent to it, or of its connection
    cdef readonly double last_ack_s         # la
    cdef readonly double head_sent_s        # when the oldest unacknowledged message was sent
    cdef readonly Py_ssize_t sent_total
    cdef readonly Py_ssize_t inflight       # sent, neither PUBACK nor PUBREC came
    cdef readonly Py_ssize_t releasing      # between PUBREC and PUBCOMP: they take room, but no work
    cdef long long last_token
    cdef Delivery oldest                    # of those in flight, in order of sending
    cdef Delivery newest

    # From status reports, as the thesis keeps them.
    cdef readonly bint has_status
    cdef readonly double last_status_s      # t_r: time of the last report, or of the connection
    cdef readonly Py_ssize_t reported_queue    # m_q
    cdef readonly Py_ssize_t sent_since_status    # m_s
    cdef readonly double mean_processing_s  # t_p
    cdef double[HISTORY_MAX] history        # h, as a ring
    cdef int history_count
    cdef int history_next

    # From status reports, for the virtual finish time.
    cdef readonly double busy_until_s       # w
    cdef readonly double reported_service_s    # v; below 0 = not known
    cdef Py_ssize_t backlog_before
    cdef Py_ssize_t processed_before

    # From acknowledgements.
    cdef readonly double acked_service_s    # s; below 0 = not known

    cpdef void connected(self, double now)
    cpdef long long take_token(self)
    cdef long long token_for(self, Entry entry)
    cpdef bint send(self, Delivery delivery, object outcome)
    cpdef void withdraw(self, Delivery delivery)
    cpdef void sent(self, double now, Delivery delivery=*, double mean_s=*)
    cdef void sent_many(self, double now, long long count)
    cpdef bint acked(self, double now, Delivery delivery)
    cpdef bint received(self, double now, Delivery delivery)
    cpdef void completed(self)
    cpdef bint withdrawn(self, Delivery delivery)
    cpdef void report(self, double now, Py_ssize_t queue, double processing_s, Py_ssize_t processed=*,
                      double mean_s=*)
    cdef Delivery plain_delivery(self, long long token)
    cdef void begin(self, Delivery delivery)
    cdef void end(self, Delivery delivery)
    cdef double score(self, double now, double group_mean_s) noexcept
    cdef double finish_service(self, double now, double mean_s) noexcept
    cdef double ack_service(self, double now, double mean_s) noexcept
    cdef void learn_from_ack(self, double now, double sent_s) noexcept
    cdef void learn_from_report(self, double now, Py_ssize_t backlog, double processing_s,
                                Py_ssize_t processed) noexcept
    cdef bint has_room(self) noexcept          # for one more message that needs an acknowledgement
    cdef void promised(self, Py_ssize_t size_bytes) noexcept    # one is about to be sent to it
    cdef bint is_lasting(self) noexcept        # what it has is still its own after a crash of this broker
    cdef bint makes_lasting(self) noexcept     # its session outlives its connection, so what waits for it is kept
    cdef bint under_pressure(self) noexcept    # its socket has bytes that the kernel didn't take
