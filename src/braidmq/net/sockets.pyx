"""Plain TCP connections without transports of the event loop: from readiness to `recv` and `send` in C.

All sockets are in one epoll of our own, and the event loop watches that: to the loop a thousand busy connections
are one. A turn asks which sockets are ready, reads each of them into the core's buffer and then writes all that
has come together. `Gathering` decides whether it waits a moment first.

Linux only; elsewhere, and for TLS and WebSocket, connections have transports (`stream.Link`).
"""

from libc.errno cimport EAGAIN, EINTR, errno

from braidmq.net.gathering cimport Gathering
from braidmq.net.stream cimport Link, Turn, monotonic_s
from braidmq.wire.buffer cimport ByteBuffer

import os

cdef extern from "<sys/epoll.h>" nogil:
    enum:
        EPOLLIN
        EPOLLOUT
        EPOLLERR
        EPOLLHUP
        EPOLL_CTL_ADD
        EPOLL_CTL_DEL
        EPOLL_CTL_MOD
        EPOLL_CLOEXEC
    ctypedef union epoll_data_t:
        void* ptr
    struct epoll_event:
        unsigned int events
        epoll_data_t data
    int epoll_create1(int flags)
    int epoll_ctl(int epoll, int operation, int descriptor, epoll_event* event)
    int epoll_wait(int epoll, epoll_event* events, int events_max, int timeout_ms)

cdef extern from "<sys/socket.h>" nogil:
    ssize_t recv(int descriptor, void* data, size_t size, int flags)

cdef extern from "<unistd.h>" nogil:
    int c_close "close"(int descriptor)

cdef extern from *:
    """
    #include <time.h>
    #include <sys/prctl.h>
    static void braid_sleep_s(double s) {
        struct timespec span = {0, (long)(s * 1e9)};
        nanosleep(&span, 0);
    }
    /* The kernel may add this much to a sleep; its default is as long as the sleeps are here. */
    static void braid_sleep_exactly(void) { prctl(PR_SET_TIMERSLACK, 1000UL, 0, 0, 0); }
    """
    void sleep_s "braid_sleep_s"(double duration_s) noexcept nogil
    void sleep_exactly "braid_sleep_exactly"() noexcept nogil

cdef enum:
    EVENTS_MAX = 512    # of one turn; what is left is ready in the next one
    READS_MAX = 4       # of one socket in one turn, before the others have theirs

cdef epoll_event _events[EVENTS_MAX]


cdef class Poller:
    """The plain sockets of one node. `gather_max_s` is the most that input may be left to gather."""

    def __init__(self, Turn turn not None, double gather_max_s):
        self.turn = turn
        self.gathering = Gathering(gather_max_s)
        self.links = set()
        self.descriptor = epoll_create1(EPOLL_CLOEXEC)
        if self.descriptor < 0:
            raise OSError(errno, os.strerror(errno))
        sleep_exactly()
        turn.loop.add_reader(self.descriptor, self.ready)

    def close(self):
        """No socket is looked at any more."""
        if self.descriptor >= 0:
            self.turn.loop.remove_reader(self.descriptor)
            c_close(self.descriptor)
            self.descriptor = -1

    def ready(self):
        """One turn: read what has come, then write."""
        cdef SocketLink link
        cdef int count, index
        cdef double wait_s = self.gathering.wait_s(monotonic_s())
        cdef double began_s
        if wait_s > 0:
            with nogil:
                sleep_s(wait_s)
        began_s = monotonic_s()
        count = epoll_wait(self.descriptor, _events, EVENTS_MAX, 0)
        for index in range(count):
            link = <SocketLink>_events[index].data.ptr
            try:
                link.happened(_events[index].events)
            except Exception as error:
                link.failed(error)
        self.turn.finish()
        self.gathering.ended(began_s, monotonic_s(), self.turn.hub.counters.packets_received())

    cdef int watch(self, SocketLink link, int operation) except -1:
        cdef epoll_event event
        event.events = (0 if link.is_paused else EPOLLIN) | (EPOLLOUT if link.is_blocked else 0)
        event.data.ptr = <void*>link
        if epoll_ctl(self.descriptor, operation, link.descriptor, &event) < 0:
            raise OSError(errno, os.strerror(errno))
        return 0


cdef class SocketLink(Link):
    """A connection that owns its socket."""

    def __init__(self, Poller poller not None, int descriptor, str peer not None, open_lane=None):
        Link.__init__(self, poller.turn, open_lane)
        self.poller = poller
        self.descriptor = descriptor
        poller.watch(self, EPOLL_CTL_ADD)
        poller.links.add(self)
        self.begin(peer)

    # ---- called by the poller ------------------------------------------------------------------------

    cdef int happened(self, unsigned int events) except -1:
        if self.descriptor < 0:  # closed by what another socket has brought in this turn
            return 0
        if events & EPOLLOUT:
            self.writable()
        if events & (EPOLLHUP | EPOLLERR) and (self.is_paused or self.is_closing):
            return self.gone(None)  # otherwise reading finds out
        if events & (EPOLLIN | EPOLLHUP | EPOLLERR):
            return self.read()
        return 0

    cdef int read(self) except -1:
        cdef Py_ssize_t size = 0
        cdef ssize_t count
        cdef unsigned char* space
        cdef int reads_left = READS_MAX
        while reads_left and not self.is_paused and not self.is_closing:
            space = self.connection.receive_space(&size)
            count = recv(self.descriptor, space, size, 0)
            if count > 0:
                reads_left -= 1
                self.connection.received(count, monotonic_s())
                if count < size:
                    break
                self.turn.finish()  # more is there, and would be read before what this brought is written
            elif count == 0:
                return self.gone(None)
            elif errno == EAGAIN:
                break
            elif errno != EINTR:
                return self.gone(OSError(errno, os.strerror(errno)))
        return 0

    cdef int writable(self) except -1:
        self.is_blocked = False
        if self.is_closing:
            return self.write_rest()
        self.poller.watch(self, EPOLL_CTL_MOD)
        self.flush()
        if not self.is_blocked and not self.is_closing:
            self.connection.output_drained()
        return 0

    cdef int gone(self, error) except -1:
        """The socket is of no use any more."""
        if self.descriptor >= 0:
            c_close(self.descriptor)  # the kernel takes it out of the epoll
            self.descriptor = -1
            self.turn.loop.call_soon(self.poller.links.discard, self)  # this turn may still have an event of it
            self.lost(error)
        return 0

    # ---- called by the connection --------------------------------------------------------------------

    def close(self):
        if self.is_closing:
            return
        self.flush()
        self.is_closing = True
        self.write_rest()
        if self.descriptor >= 0:
            self.linger()

    cdef int write_rest(self) except -1:
        """Close the socket once the client has been sent everything."""
        cdef ByteBuffer out = self.connection.leaving
        if not self.is_blocked:
            self.write_out(out)
        if out.size() == 0:
            return self.gone(None)
        self.is_blocked = self.is_paused = True
        return self.poller.watch(self, EPOLL_CTL_MOD)

    def give_up(self):
        self.gone(None)

    def broken(self):
        self.turn.loop.call_soon(self.give_up)  # not in the middle of a delivery

    def pause_reading(self):
        self._read_or_not(True)

    def resume_reading(self):
        self._read_or_not(False)

    def _read_or_not(self, bint is_paused):
        if self.is_paused != is_paused and self.descriptor >= 0:
            self.is_paused = is_paused
            self.poller.watch(self, EPOLL_CTL_MOD)

    # ---- output --------------------------------------------------------------------------------------

    cdef int flush(self) except -1:
        cdef ByteBuffer out = self.connection.leaving
        cdef bint is_awaited
        if self.is_closing or self.is_blocked:
            return 0
        is_awaited = self.connection.awaits_room()
        self.write_out(out)
        if self.is_closing:
            return 0
        if out.size():
            self.is_blocked = True
            return self.poller.watch(self, EPOLL_CTL_MOD)
        if is_awaited:
            self.connection.output_drained()
        return 0
