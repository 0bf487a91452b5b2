from braidmq.broker.backlog cimport Ring
from braidmq.broker.inflight cimport Inflight, Slot
from braidmq.messages.message cimport Message, numbered
from braidmq.broker.queued cimport QueuedReceiver
from braidmq.broker.receiver cimport Outcome, Run, Target
from braidmq.broker.sharing.agenda cimport Agenda
from braidmq.broker.sharing.member cimport Delivery, Member


cdef enum Overflow:
    # What a full session does with one more delivery; OVERFLOWS in session.pyx has the same order.
    DROP_NEWEST
    DROP_OLDEST
    REFUSE


cdef class Session(QueuedReceiver):
    cdef readonly Inflight inflight
    cdef Overflow on_overflow
    cdef object resend                       # deque of packet ids to send again on this connection, or None
    cdef object replay                       # filter -> (iterator, target): retained messages yet to be sent, or None
    cdef bint awaits_replay                  # until it is this session's turn to send some of them
    cdef readonly int window                 # QoS 1/2 messages that the client takes at a time
    cdef readonly int outstanding            # of them on their way on this connection
    cdef public unsigned long long identity          # tells it from the client id's earlier sessions; 0 until asked for
    cdef readonly set inbound                # QoS 2 packet ids from the client, between PUBLISH and PUBREL; or None
    cdef dict awaited                        # packet id of those -> Answer that waits for other nodes; or None
    cdef set inbound_before                  # those of them that were open when this connection began; or None

    # What it is in shared groups.
    cdef public Member member                # what is known of the client as a member; None: it is in no group
    cdef Agenda agenda                       # for what its groups have to know; None as long as it has no member

    # Held for the control plane.
    cdef public dict subscriptions           # filter -> Subscription
    cdef public str owner                    # the user who made the session, or None
    cdef public double expiry_s              # how long it outlives its connection; infinity = for ever
    cdef public double away_since_s          # when its connection went; 0 while it has one
    cdef public object will                  # the Will of the present connection, or one that is delayed
    cdef public object declared              # what the client said of itself as a member of groups, or None
    cdef public object standing              # what the nodes of a cluster have agreed on about it (Standing), or None
    cdef public object passage               # decides what it takes while it moves between nodes (Passage), or None
    cdef public object expiry_timer
    cdef public object will_timer

    cdef int hand_out(self, Message message, Target target, bint retain, Outcome outcome) except -1
    cdef int hand_out_qos0(self, Message message, Target target, bint retain, Outcome outcome) except -1
    cdef int forward_singly(self, Run run, Target target, Outcome outcome) except -1
    cdef int enqueue(self, Message message, Target target, int qos, bint retain, Outcome outcome) except -1
    cdef bint send(self, Message message, Target target, int qos, bint retain, unsigned long long sequence,
                   Delivery delivery=*) except -1
    cdef bint send_shared(self, Message message, Target target, Delivery delivery) except -1
    cdef inline bytes extras(self, Target target, unsigned long long sequence):
        # The properties that a PUBLISH of this delivery has beside the message's own.
        if self.outlet.numbers_deliveries:
            return numbered(target.identifiers, sequence)
        return target.identifiers
    cdef int send_again(self, unsigned int packet_id) except -1
    cdef int puback(self, unsigned int packet_id, unsigned int reason) except -1
    cdef int pubrec(self, unsigned int packet_id, unsigned int reason) except -1
    cdef int pubcomp(self, unsigned int packet_id) except -1
    cdef Py_ssize_t open_inbound(self) except -1
    cdef int finish(self, Slot* slot, unsigned int reason) except -1
    cdef bint may_replay(self) noexcept
    cdef int replay_some(self) except -1
    cdef int await_replay(self) except -1
    cdef inline bint is_behind(self) noexcept:
        # Something waits for room at the client.
        return self.queue is not None or self.resend is not None or self.replay is not None
    cdef inline int pump(self) except -1:
        if self.is_behind():
            return self.pump_more()
        return 0
    cdef bint lacks_room(self, Py_ssize_t cost) noexcept
    cdef bint make_room(self, Message message, Outcome outcome) except -1
    cdef int drop_oldest(self) except -1
    cdef bint may_send(self) noexcept
    cdef int send_waiting(self) except -1
    cdef int forget_waiting(self, Ring ring, object may_read) except -1
    cdef bint can_take(self) noexcept
    cdef int withdraw(self, Delivery delivery) except -1
