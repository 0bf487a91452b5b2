from braidmq.broker.hub cimport Hub
from braidmq.broker.receiver cimport Outcome
from braidmq.broker.router cimport Router
from braidmq.messages.message cimport Message


cdef class Publishing:
    cdef Hub hub
    cdef readonly Router router
    cdef object retained                     # RetainedMessages
    cdef public object remote                # gives retained messages to other nodes; None: there are none

    cdef Outcome take(self, Message message, bint can_be_told)
    cpdef Outcome take_from_peer(self, Message message, bytes route, object stamp, unsigned long long origin)
    cdef bint keep(self, Message message) except -1
    cdef int tell_everybody(self, Message message, Outcome outcome) except -1
