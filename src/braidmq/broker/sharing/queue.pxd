from braidmq.broker.hub cimport Hub
from braidmq.messages.message cimport Message


cdef class Entry:
    # One message in the group's care: waiting, or with a member and not yet acknowledged.
    cdef readonly object message
    cdef readonly object publisher
    cdef readonly object topic
    cdef readonly int qos                # as published
    cdef readonly Py_ssize_t size_bytes
    cdef readonly double expires_at_s    # infinity = never
    cdef readonly long long sequence     # order of publication in this group
    cdef bint is_tried                   # the policy was asked when it came, and found nobody
    cdef public bint is_noted            # the caller's: a store has it as waiting in the group


cdef class GroupQueue:
    cdef public Py_ssize_t messages_max
    cdef public Py_ssize_t bytes_max
    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t size_bytes
    cdef Hub hub                         # to which its memory is charged; None: to nobody
    cdef dict by_lane                    # lane -> deque of Entry, none of them empty

    cpdef void add(self, object lane, Entry entry)
    cpdef void put_back(self, object lane, list entries)
    cpdef Entry first(self, object lane)
    cpdef Entry take(self, object lane)
    cpdef Entry last(self, object lane)
    cdef Entry take_last(self, object lane)
    cpdef Entry take_oldest(self)
    cpdef Entry take_newest(self)
    cpdef bint is_over(self)
    cpdef list lanes(self)
    cdef object open_lane(self, object lane)
    cdef void close_lane(self, object lane)
    cdef void counted_in(self, Entry entry)
    cdef void counted_out(self, Entry entry)
    cdef bint has_memory(self) noexcept
