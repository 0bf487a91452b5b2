from libc.stdint cimport uint8_t, uint32_t

from braidmq.topics.graph cimport Level
from braidmq.topics.pathmap cimport PathMap


cdef struct NodeList:
    uint32_t* nodes
    Py_ssize_t count
    Py_ssize_t capacity


cdef class TopicTree(PathMap):
    cdef int find_into(self, const unsigned char* filter, Py_ssize_t length, list result) except -1
    cdef int advance(self, const NodeList* reached, NodeList* further, const uint8_t* data,
                     Py_ssize_t length) except -1
    cdef int push_child(self, NodeList* found, uint32_t parent, const Level* level) except -1
    cdef int add_descendants(self, NodeList* reached) except -1
    cdef int append_values(self, NodeList* reached, list result) except -1
