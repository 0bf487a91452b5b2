from braidmq.broker.hub cimport Hub
from braidmq.broker.receiver cimport Receiver
from braidmq.broker.sharing.agenda cimport Happening
from braidmq.broker.sharing.member cimport Delivery, Member
from braidmq.broker.sharing.receiver cimport GroupReceiver
from braidmq.messages.message cimport Message


cdef class RemoteMember(Member):
    cdef readonly object node                # that its session is on
    cdef readonly object boot                # of that node, when the session was made
    cdef readonly bint lasts                 # its session outlives its connection
    cdef readonly bint is_online
    cdef readonly dict numbers               # number of a delivery in the session -> Delivery; of lasting sessions
    cdef object placement
    cdef set unreadable                      # topics that it may not read, as far as that has come up


cdef class FarSeat(Receiver):
    # A far member in one group.
    cdef RemoteMember member
    cdef readonly object number              # of the group
    cdef object placement


cdef class FarMembers:
    cdef Hub hub
    cdef object registry                     # the GroupRegistry
    cdef object placement
    cdef readonly dict members               # client id -> node -> RemoteMember
    cdef dict takers                         # type of an event -> who takes it
    cdef dict answered                       # GroupReceiver -> tokens of answers that stand for no delivery
    cdef dict stale                          # node -> members that its roll has not named yet

    cdef RemoteMember find(self, object node, str client)
    cdef int welcome(self, GroupReceiver group, RemoteMember member, object event) except -1
    cdef int resume(self, GroupReceiver group, RemoteMember member, object event) except -1
    cdef int end(self, RemoteMember member) except -1
    cdef int forget_if_done(self, RemoteMember member) except -1
    cdef Delivery delivery(self, GroupReceiver group, RemoteMember member, object event)
