from braidmq.broker.hub cimport Hub
from braidmq.messages.message cimport Message
from braidmq.broker.sharing.effects cimport DropMessage
from braidmq.broker.sharing.group cimport SharedGroup
from braidmq.broker.sharing.member cimport Member
from braidmq.broker.sharing.queue cimport Entry
from braidmq.broker.receiver cimport Outcome, Target
from braidmq.broker.session cimport Session, Sharing


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
    cdef double wakes_at_s                   # when the timer that is set fires; infinity = none is

    cdef Target choose_qos0(self, str publisher, bytes topic)
    cdef bint needs_topics(self)
    cdef int carry_out(self, list effects, Message published, Outcome outcome) except -1
    cdef int send(self, Entry entry, SessionMember member, int qos, long long token, list effects,
                  Outcome outcome) except -1
    cdef int note_sent(self, Entry entry, Session session, int qos) except -1
    cdef int note_waiting(self, Entry entry) except -1
    cdef int note_taken(self, Entry entry) except -1
    cdef int drop(self, DropMessage effect, Message published, Outcome outcome) except -1
    cdef int withdraw(self, list withdrawals) except -1
    cdef int tidy(self, Session session) except -1
