from braidmq.broker.hub cimport Hub
from braidmq.broker.receiver cimport Outcome
from braidmq.broker.router cimport Router
from braidmq.messages.message cimport Message


cdef class Publishing:
    cdef Hub hub
    cdef readonly Router router
    cdef object retained                     # RetainedMessages

    cdef Outcome take(self, Message message, bint can_be_told)
    cdef bint keep(self, Message message) except -1
