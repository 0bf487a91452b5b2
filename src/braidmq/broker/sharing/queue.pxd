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


cdef class GroupPage:
    # Some hundred messages that wait on disk, in order.
    cdef readonly long long first        # sequence
    cdef readonly long long last
    cdef readonly Py_ssize_t cost        # of the messages, as counted against the group's bound
    cdef readonly Py_ssize_t count
    cdef public object file              # where they are, in the words of the store
    cdef public object offset
    cdef public object size


cdef class GroupQueue:
    cdef readonly Py_ssize_t messages_max
    cdef readonly Py_ssize_t bytes_max
    cdef readonly Py_ssize_t memory_bytes_max    # of the lanes; what is pageable waits behind them
    cdef public bint is_pageable         # the caller can put what waits behind the lanes on disk
    cdef readonly Py_ssize_t count       # of all that waits
    cdef readonly Py_ssize_t size_bytes
    cdef Py_ssize_t expiring_count       # of those in memory, that do expire
    cdef readonly Py_ssize_t behind_count        # of it, not in the lanes
    cdef readonly Py_ssize_t behind_bytes
    cdef Py_ssize_t paged_bytes          # of those behind, on disk
    cdef readonly object pages           # deque of GroupPage
    cdef readonly object tail            # deque of Entry: what waits behind the pages, in memory
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
    cdef bint goes_behind(self, Entry entry) noexcept
    cpdef void add_behind(self, Entry entry)
    cdef Entry take_first_behind(self)
    cdef Entry take_last_behind(self)
    cdef Entry counted_out_behind(self, Entry entry)
    cdef bint may_follow(self)
    cpdef GroupPage remove_page(self)
    cdef void count_page(self, GroupPage page, int sign)
    cdef bint is_short(self) noexcept
    cdef bint has_memory(self) noexcept

    cdef inline Py_ssize_t in_lanes_bytes(self) noexcept:
        return self.size_bytes - self.behind_bytes

    cdef inline Py_ssize_t tail_bytes(self) noexcept:
        return self.behind_bytes - self.paged_bytes

    cdef inline Py_ssize_t limit_bytes(self) noexcept:
        return self.bytes_max if self.is_pageable else min(self.bytes_max, self.memory_bytes_max)
