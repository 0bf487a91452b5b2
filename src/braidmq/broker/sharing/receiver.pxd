from braidmq.broker.hub cimport Hub
from braidmq.messages.message cimport Message
from braidmq.broker.outlet cimport Outlet
from braidmq.broker.sharing.effects cimport DropMessage
from braidmq.broker.sharing.group cimport SharedGroup
from braidmq.broker.sharing.member cimport Member
from braidmq.broker.sharing.queue cimport Entry
from braidmq.broker.session cimport Outcome, Session, Sharing, Target


cdef class SessionMember(Member):
    cdef readonly Session session
    cdef int open_promises               # chosen for, and not yet sent: the core decides on several at a time
    cdef Py_ssize_t open_promises_bytes


cdef class Group(Sharing):
    cdef readonly str name
    cdef readonly bytes filter               # without `$share/group/`
    cdef readonly SharedGroup core
    cdef readonly bint is_lasting            # a member's session outlives its connection: what waits is noted
    cdef Hub hub
    cdef object keeper                       # the SharedGroups that this is one of
    cdef dict targets                        # Member -> Target of its subscription
    cdef Outlet full_outlet                  # of the member whose output the last message has filled
    cdef double wakes_at_s                   # when the timer that is set fires; infinity = none is

    cdef Outcome deliver(self, Message message) except *
    cdef Target choose_qos0(self, str publisher, bytes topic)
    cdef bint needs_topics(self)
    cdef bint is_full(self, Py_ssize_t cost) noexcept
    cdef Outcome carry_out(self, list effects, Message published) except *
    cdef Outcome send(self, Entry entry, SessionMember member, int qos, long long token, list effects) except *
    cdef int note_sent(self, Entry entry, Session session, int qos) except -1
    cdef int note_waiting(self, Entry entry) except -1
    cdef int note_taken(self, Entry entry) except -1
    cdef Outcome drop(self, DropMessage effect, Message published) except *
    cdef int withdraw(self, list withdrawals) except -1
    cdef int tidy(self, Session session) except -1
