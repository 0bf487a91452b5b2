from braidmq.broker.hub cimport Hub
from braidmq.broker.lane cimport Lane
from braidmq.broker.outlet cimport DirectWriter
from braidmq.wire.buffer cimport ByteBuffer

cdef extern from *:
    """
    #include <time.h>
    static double braid_monotonic_s(void) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
    }
    """
    double monotonic_s "braid_monotonic_s"() noexcept nogil


cdef class Turn:
    cdef readonly object broker
    cdef Hub hub
    cdef readonly object loop
    cdef object wake_up                # the loop's handle for the broker's next timer
    cdef double wake_up_at_s
    cdef bint is_scheduled
    cdef readonly int open_links       # connections whose transport isn't closed yet


cdef class Link(DirectWriter):
    cdef Turn turn
    cdef object open_lane              # (link, peer, now) -> the Lane of a new connection
    cdef Lane connection
    cdef int descriptor                # of a plain TCP socket; -1 when only the transport may write
    cdef bint is_blocked               # the kernel takes no more for now
    cdef bint is_closing

    cdef int flush(self) except -1
    cdef int write_out(self, ByteBuffer out) except -1
    cdef Py_ssize_t send_some(self, const unsigned char* data, Py_ssize_t size) except -1


cdef class TransportLink(Link):
    cdef object transport

    cdef int hand_over(self, ByteBuffer out) except -1
