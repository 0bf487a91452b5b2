from libc.stdint cimport uint8_t, uint32_t, uint64_t

from braidmq.topics.graph cimport Graph, Level


cdef struct Reached:                        # a node that matches the topic's levels up to here
    uint32_t node
    uint32_t parent                         # until its label is confirmed: the node it should hang from
    uint32_t hash                           # of its edge to the topic's next level


cdef class FilterTrie:
    cdef Graph graph
    cdef list values                        # slot -> value, in a list so that the garbage collector sees them
    cdef list free_slots                    # slots to use again; slot 0 means "no value" and is never used
    cdef uint64_t changes                   # counts added and removed filters, so that an iterator notices
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

    cdef uint32_t* find_slot(self, bytes filter, uint32_t* owner) except? NULL
    cdef uint32_t* make_slot(self, bytes filter, uint32_t* owner) except NULL
    cdef uint32_t make_child(self, uint32_t node, const uint8_t* data, Py_ssize_t length) except 0
    cdef uint32_t take_slot(self, object value) except 0
    cdef bytes path_of(self, uint32_t node, bint with_rest)
