from libc.stdint cimport uint8_t, uint32_t, uint64_t

from braidmq.topics.graph cimport Graph


cdef class PathMap:
    cdef Graph graph
    cdef list values                        # slot -> value, in a list so that the garbage collector sees them
    cdef list free_slots                    # slots to use again; slot 0 means "no value" and is never used
    cdef uint64_t clears                    # counts how often all nodes were given back
    cdef uint64_t changes                   # counts added and removed paths, so that an iterator notices

    cdef size_t scratch_bytes(self) noexcept
    cdef uint32_t* find_slot(self, bytes path, uint32_t* owner) except? NULL
    cdef uint32_t* make_slot(self, bytes path, uint32_t* owner) except NULL
    cdef uint32_t make_child(self, uint32_t node, const uint8_t* data, Py_ssize_t length) except 0
    cdef uint32_t take_slot(self, object value) except 0
    cdef bytes path_of(self, uint32_t node, bint with_rest)
