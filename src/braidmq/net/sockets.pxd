from braidmq.net.gathering cimport Gathering
from braidmq.net.stream cimport Link, Turn


cdef class Poller:
    cdef readonly Turn turn
    cdef readonly Gathering gathering
    cdef int descriptor                  # of the epoll; -1 once closed
    cdef set links                       # all that are registered: the kernel hands back bare pointers to them

    cdef int watch(self, SocketLink link, int operation) except -1


cdef class SocketLink(Link):
    cdef Poller poller
    cdef bint is_paused                  # nothing is read from it

    cdef int happened(self, unsigned int events) except -1
    cdef int read(self) except -1
    cdef int writable(self) except -1
    cdef int write_rest(self) except -1
    cdef int gone(self, error) except -1
