from braidmq.broker.backlog cimport Backlog
from braidmq.broker.counters cimport Drop
from braidmq.broker.hub cimport Hub
from braidmq.broker.outlet cimport Outlet
from braidmq.broker.receiver cimport Receiver, Target
from braidmq.messages.message cimport Message
from braidmq.store.encoding cimport Named


cdef class QueuedReceiver(Receiver):
    cdef readonly Hub hub
    cdef readonly str client_id              # under which the store knows it
    cdef readonly Outlet outlet              # None while nobody is there
    cdef readonly Backlog queue              # what waits, or None
    cdef readonly Py_ssize_t queue_bytes
    cdef readonly unsigned long long last_sequence    # the number of the newest delivery
    cdef unsigned long long settled_up_to    # what a page has up to there needs no delivery; 0 for a session
    cdef Named named                         # its name's number in the store's present file
    cdef readonly bint is_remembered         # outlives its connection, so its changes are journalled

    cdef int wait(self, Message message, Target target, int qos, bint retain, unsigned long long sequence) except -1
    cdef int take_first(self) except -1
    cdef int trim_queue(self) except -1
    cdef int give_up_queue(self, Drop reason) except -1
    cdef Py_ssize_t empty_queue(self) except -1
    cdef bint pages_all(self) noexcept
    cdef int note_pageable(self) except -1
    cdef int note_queued(self, Message message, Target target, int qos, bint retain,
                         unsigned long long sequence) except -1
    cdef int settle(self, unsigned long long sequence) except -1
    cdef int pump_more(self) except -1
