from libc.stdint cimport uint32_t

from braidmq.topics.graph cimport Level
from braidmq.topics.pathmap cimport PathMap


cdef struct Reached:                        # a node that matches the topic's levels up to here
    uint32_t node
    uint32_t parent                         # until its label is confirmed: the node it should hang from
    uint32_t hash                           # of its edge to the topic's next level


cdef class FilterTrie(PathMap):
    cdef Reached* frontier                  # scratch of match: the nodes that match the topic so far,
    cdef Reached* next_frontier             # and those that match one level more
    cdef Py_ssize_t frontier_capacity
    cdef uint32_t* slots                    # scratch of match: the slots of the values that match
    cdef Py_ssize_t slot_count
    cdef Py_ssize_t slots_capacity

    cdef int match_into(self, const unsigned char* topic, Py_ssize_t length, list result) except -1
    cdef Py_ssize_t step(self, Py_ssize_t count, const Level* before, const Level* level,
                         bint wildcards) except -1
    cdef void fetch_ahead(self, Py_ssize_t count, const Level* level) noexcept
    cdef int take_ends(self, Py_ssize_t count, const Level* before) except -1
    cdef int append_values(self, list result) except -1
    cdef int reserve(self, Py_ssize_t count) except -1
