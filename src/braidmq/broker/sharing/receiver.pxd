from braidmq.broker.hub cimport Hub
from braidmq.messages.message cimport Message
from braidmq.broker.sharing.agenda cimport Agenda, SharedReceiver
from braidmq.broker.sharing.effects cimport DropMessage, DropPage
from braidmq.broker.sharing.group cimport SharedGroup
from braidmq.broker.sharing.member cimport Delivery, Member, Place
from braidmq.broker.sharing.pages cimport GroupPages
from braidmq.broker.sharing.queue cimport Entry
from braidmq.broker.receiver cimport Outcome, Target
from braidmq.broker.session cimport Session


cdef class SessionMember(Member):
    cdef readonly Session session
    cdef int open_promises               # chosen for, and not yet sent: a group decides on several at a time
    cdef Py_ssize_t open_promises_bytes


cdef class GroupReceiver(SharedReceiver):
    cdef readonly str name
    cdef readonly bytes filter               # without `$share/group/`
    cdef readonly SharedGroup core
    cdef readonly bint is_lasting            # a member's session outlives its connection: what waits is noted
    cdef Hub hub
    cdef Agenda agenda
    cdef object registry                     # the GroupRegistry that this is in
    cdef readonly GroupPages pages           # what of it is on disk; None if the store has no pages
    cdef set lasting                         # members that subscribe and outlast a crash
    cdef readonly set near                   # members that subscribe and are sessions of this broker
    cdef bint is_clustered                   # other nodes may have members, and want to know when it is nearly full
    cdef bint is_told_full
    cdef bint is_waiting                     # something waits, so the agenda knows it
    cdef double wakes_at_s                   # when the timer that is set fires; infinity = none is

    cdef Target choose_qos0(self, str publisher, bytes topic)
    cdef bint needs_topics(self)
    cdef int carry_out(self, list effects, Message published=*, Outcome outcome=*) except -1
    cdef int send(self, Delivery delivery, list effects, Outcome outcome) except -1
    cdef int drop(self, DropMessage effect, Message published, Outcome outcome) except -1
    cdef int note_sent(self, Delivery delivery) except -1
    cdef int note_waiting(self, Entry entry) except -1
    cdef int note_taken(self, Entry entry) except -1
    cdef int count_lasting(self, Member member) except -1
    cdef int tidy(self, Member member) except -1
    cdef int pass_on(self) except -1
    cdef int goes(self, Member member) except -1
    cdef bint is_nearly_full(self) noexcept
    cdef int tell_fill(self) except -1
    cdef int note_whether_waiting(self) except -1
    cdef int see_to_memory(self) except -1
    cdef int drop_page(self, DropPage effect) except -1
