"""A shared group that another node has, and that can hardly take more: who publishes is told at once."""

from braidmq.broker.counters cimport DROP_QUEUE_FULL
from braidmq.broker.hub cimport Hub
from braidmq.broker.receiver cimport Outcome, Receiver, Run, Target
from braidmq.messages.message cimport Message


cdef class FullGroup(Receiver):
    def __init__(self, Hub hub not None):
        self.hub = hub

    cdef int deliver(self, Message message, Target target, Outcome outcome) except -1:
        if outcome is not None:
            outcome.is_refused = True
        return self.hub.drop_message(DROP_QUEUE_FULL, message, None)

    cdef int forward(self, Run run, Target target, Outcome outcome) except -1:
        self.hub.counters.drop(DROP_QUEUE_FULL, run.frames.count)
        return 0

    cdef bint is_full(self, Py_ssize_t cost) noexcept:
        return True
