from braidmq.broker.hub cimport Hub
from braidmq.broker.receiver cimport Target
from braidmq.broker.session cimport Session
from braidmq.broker.sharing.agenda cimport Agenda, SharedReceiver
from braidmq.broker.sharing.member cimport Delivery, Member
from braidmq.messages.message cimport Message


cdef class GivenDelivery(Delivery):
    cdef readonly object giver               # the node that gave it; None: its session brought it from another node,
    cdef Message brought                     # with this message
    cdef readonly long long given_token      # its token there


cdef class GroupProxy(SharedReceiver):
    cdef readonly str name
    cdef readonly bytes filter
    cdef readonly object number              # by which all nodes know the group
    cdef readonly object owner               # the node that has the group
    cdef Hub hub
    cdef Agenda agenda
    cdef object registry
    cdef object placement
    cdef readonly dict targets               # client id -> Target, of those who subscribe
    cdef readonly dict open                  # client id -> its GivenDeliveries, as keys
    cdef dict crowded                        # client ids of which something was sent back for want of room

    cdef int send(self, object giver, object event, Target target, Message message) except -1
    cdef int send_back(self, object giver, object event, Message message, int why) except -1
    cdef int finish(self, GivenDelivery delivery) except -1
    cdef GivenDelivery begin(self, Session session, object giver, long long token, unsigned long long number, int qos)
    cdef int tidy(self, Session session) except -1
    cdef int give_up(self, GivenDelivery delivery) except -1
    cdef int tell_again(self, Session session) except -1
