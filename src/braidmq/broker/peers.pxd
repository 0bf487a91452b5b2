from braidmq.broker.backlog cimport Ring
from braidmq.broker.peer_outlet cimport PeerOutlet
from braidmq.broker.queued cimport QueuedReceiver
from braidmq.broker.receiver cimport Frames, Outcome, Target
from braidmq.messages.message cimport Message


cdef class PeerTarget(Target):
    pass


cdef class Peer(QueuedReceiver):
    cdef readonly unsigned long long node
    cdef readonly bint keeps                 # it comes back with what it has acknowledged
    cdef readonly bint is_dead
    cdef PeerOutlet lane                     # the link; None while there is none
    cdef Ring sent                           # entries that were sent, and not acknowledged
    cdef readonly Py_ssize_t sent_bytes
    cdef readonly unsigned long long taken   # the number of its last entry that was taken here,
    cdef readonly unsigned long long kept    # of its last one that our store has kept: what it may be told
    cdef object awaited                      # deque of (number, Answer): who is told when it has that entry
    cdef double behind_since_s               # since when something has been unacknowledged, if something is
    cdef readonly long long forwarded_qos0   # messages and entries that were sent to it
    cdef readonly long long forwarded_entries
    cdef readonly long long received_qos0    # and that it has sent
    cdef readonly long long received_entries
    cdef readonly long long unwanted         # of both: for sessions here, of which none wants them
    cdef readonly long long refused          # entries for which somebody there had no room

    cdef bint lacks_room(self, Py_ssize_t cost) noexcept
    cdef bint may_send(self) noexcept
    cdef int put_in(self, Message message, Target target, Outcome outcome) except -1
    cdef int send(self, Message message, Target target, unsigned long long sequence) except -1
    cdef int tell_forwarded(self, Message message, Py_ssize_t size) except -1
    cdef int send_waiting(self) except -1
    cdef int settle_sent(self, unsigned long long position) except -1
    cdef int settle_waiting(self, unsigned long long position) except -1
    cdef int write(self, Target target, str publisher, Frames frames, Outcome outcome) except -1
    cdef int pass_on(self, Message message, Target target, Outcome outcome) except -1
