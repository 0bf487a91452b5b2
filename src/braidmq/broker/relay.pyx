"""A receiver that hands on what it gets as messages, one by one: for experiments with ways through a cluster.

It stands in the fan-out where peers would, if messages go from node to node instead of straight to those that want
them. That makes an object of every message, which nothing on the usual way does.
"""

from braidmq.broker.receiver cimport Outcome, Receiver, Run, Target
from braidmq.messages.message cimport Message
from braidmq.wire.scan cimport read_varint


cdef class Relay(Receiver):
    """`send` is called with every message."""

    cdef object send

    def __init__(self, send):
        self.send = send

    cdef int deliver(self, Message message, Target target, Outcome outcome) except -1:
        self.send(message)
        return 0

    cdef int forward(self, Run run, Target target, Outcome outcome) except -1:
        cdef const unsigned char* frame = run.frames.start
        cdef const unsigned char* body
        cdef unsigned int body_bytes = 0
        while frame < run.frames.end:
            body = frame + 1 + read_varint(frame + 1, run.frames.end - frame - 1, &body_bytes)
            self.send(run.message(body, body_bytes))
            frame = body + body_bytes
        return 0
