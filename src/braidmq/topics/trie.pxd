from libc.stdint cimport uint8_t, uint32_t, uint64_t

from braidmq.topics.graph cimport Graph, Level


cdef class FilterTrie:
    cdef Graph graph
    cdef list values                        # slot -> value, in a list so that the garbage collector sees them
    cdef list free_slots                    # slots to use again; slot 0 means "no value" and is never used
    cdef uint64_t changes                   # counts added and removed filters, so that an iterator notices
    cdef uint32_t* frontier                 # scratch of match: the nodes that match the topic so far,
    cdef uint32_t* next_frontier            # those that match one level more,
    cdef uint32_t* hashes                   # and the hashes of the edges being looked up
    cdef Py_ssize_t frontier_capacity

    cdef int match_into(self, const unsigned char* topic, Py_ssize_t length, list result) except -1
    cdef Py_ssize_t advance(self, Py_ssize_t count, const Level* level, bint wildcards, list result) except -1
    cdef int append_ends(self, Py_ssize_t count, list result) except -1
    cdef int append_value(self, uint32_t slot, list result) except -1
    cdef int reserve_frontier(self, Py_ssize_t count) except -1

    cdef uint32_t* find_slot(self, bytes filter, uint32_t* owner) except? NULL
    cdef uint32_t* make_slot(self, bytes filter, uint32_t* owner) except NULL
    cdef uint32_t make_child(self, uint32_t node, const uint8_t* data, Py_ssize_t length) except 0
    cdef uint32_t take_slot(self, object value) except 0
    cdef bytes path_of(self, uint32_t node, bint with_rest)
