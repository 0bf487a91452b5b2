from braidmq.broker.incoming cimport Incoming
from braidmq.messages.message cimport Message
from braidmq.broker.outlet cimport Outlet
from braidmq.broker.publishing cimport Publishing
from braidmq.broker.receiver cimport Frames, Outcome
from braidmq.broker.router cimport Fanout, Router
from braidmq.broker.session cimport Session
from braidmq.wire.buffer cimport ByteBuffer


cdef class Answer:
    cdef Lane lane                       # to whom it is given
    cdef unsigned char first             # PUBACK or PUBREC
    cdef unsigned int packet_id
    cdef int reason
    cdef Py_ssize_t open                 # nodes that are waited for


cdef class Lane(Outlet):
    cdef public Session session          # None until CONNECT is accepted
    cdef Publishing publishing           # where its messages go
    cdef readonly Router router
    cdef public bint is_open             # CONNECT is accepted: PUBLISH and acknowledgements may come
    cdef public bint is_parked           # input waits: it is kept and not looked at
    cdef readonly bint awaits_answers    # parked until answers that are held back have left
    cdef public bint is_throttled        # nothing is read until the client has read its answers
    cdef public bint is_finished         # no input is looked at any more
    cdef public bint takes_fast_lane     # False makes every PUBLISH take the general way (for tests)
    cdef public double received_at_s     # when the client was last heard of
    cdef public Py_ssize_t input_bytes_max     # the largest packet accepted in this state
    cdef public bytes status_topic       # where the client reports its status by PUBLISH; None: it doesn't
    cdef public dict rights              # topic -> may publish there; None when everybody may
    cdef Py_ssize_t rights_bytes         # of the topics in it
    cdef ByteBuffer partial              # the beginning of a frame whose rest has yet to come
    cdef Py_ssize_t partial_frame_bytes  # how long that frame will be; 0 if its length is not yet known
    cdef dict inbound_aliases            # alias -> topic, as told by the client; None until the first
    cdef Frames run                      # plain frames in the read buffer that all go to run_fanout
    cdef Fanout run_fanout               # None while there are none
    cdef const unsigned char* run_topic  # of the last of them
    cdef Py_ssize_t run_topic_bytes
    cdef double works_until_s            # by the stopwatch; then the others have their turn
    cdef int work_left                   # until the stopwatch is looked at again, in units of hardly anything
    cdef bint feeds_many                 # the last run went to many subscribers
    cdef Outlet filled                   # somebody whose output this connection has filled in this read

    cdef inline bint awaits_room(self) noexcept:
        # Somebody has to be told when the output has drained.
        return (self.congested or self.is_throttled or not self.has_room()
                or (self.session is not None and self.session.is_behind()))

    cpdef object receive_buffer(self)
    cdef unsigned char* receive_space(self, Py_ssize_t* size) except NULL
    cpdef int received(self, Py_ssize_t count, double now) except -1
    cdef Py_ssize_t parse(self, const unsigned char* data, Py_ssize_t size) except -1
    cdef int begin_work(self) except -1
    cdef int look_at_stopwatch(self) except -1
    cdef int dispatch(self, const unsigned char* frame, Py_ssize_t header_bytes, Py_ssize_t frame_bytes) except -1
    cdef bint extend_run(self, const unsigned char* frame, Py_ssize_t header_bytes, Py_ssize_t frame_bytes) except -1
    cdef int end_run(self) except -1
    cdef bint acknowledged(self, unsigned char first, const unsigned char* body, Py_ssize_t body_bytes) except -1
    cdef int publish_general(self, unsigned char first, const unsigned char* body, Py_ssize_t body_bytes) except -1
    cdef Message read_message(self, Incoming* incoming, bint* is_accepted)
    cdef int refuse_topic(self, Message message, unsigned int packet_id) except -1
    cdef int take_qos0(self, Message message) except -1
    cdef int take_qos1(self, Message message, unsigned int packet_id) except -1
    cdef int take_qos2(self, Message message, unsigned int packet_id) except -1
    cdef Outcome distribute(self, Message message)
    cdef int answer_when_taken(self, unsigned char first, unsigned int packet_id, Outcome outcome) except -1
    cdef int await_peers(self, unsigned char first, unsigned int packet_id, Outcome outcome) except -1
    cdef int give_awaited(self, Answer answer) except -1
    cdef bint repeats_awaited(self, unsigned int packet_id) except -1
    cdef int hold_answer(self, unsigned char first) except -1
    cdef int go_on_answered(self) except -1
    cdef int answer(self, unsigned char first, unsigned int packet_id, unsigned int reason) except -1
    cdef bytes resolve_topic(self, Incoming* incoming, unsigned int alias, bint* is_accepted)
    cdef bint may_publish_to(self, Message message) except -1
    cdef Py_ssize_t take_in(self, const unsigned char* data, Py_ssize_t size) except -1
    cdef int pong(self) except -1
    cdef bint settled(self, unsigned char first, unsigned int packet_id, unsigned int reason) except -1
    cdef bint check_topic(self, bytes topic) except -1
    cdef int begin_answer(self) except -1
