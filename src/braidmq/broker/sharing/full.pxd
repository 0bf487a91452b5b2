from braidmq.broker.hub cimport Hub
from braidmq.broker.receiver cimport Receiver


cdef class FullGroup(Receiver):
    cdef Hub hub
