"""Between the event loop and the broker core: bytes in, bytes out, nothing decided.

`Turn` lets all connections gather output during one turn of the loop and writes it at its end. A `Link` is what
one connection reads from and writes to. A `TransportLink` has a transport of the event loop. Where that is a bare
TCP socket, output is written with one system call; what the kernel does not take at once goes through the
transport, which then says when there is room. Plain TCP on Linux needs no transport: see `sockets`.
"""

from libc.errno cimport EAGAIN, EINTR, errno

from braidmq.broker.lane cimport Lane
from braidmq.broker.outlet cimport DirectWriter
from braidmq.timing.stopwatch cimport Stopwatch
from braidmq.wire.buffer cimport ByteBuffer

cdef extern from "<sys/socket.h>" nogil:
    ssize_t c_send "send"(int descriptor, const void* data, size_t size, int flags)

cdef extern from *:
    """
    #include <sys/socket.h>
    #ifndef MSG_NOSIGNAL
    #define MSG_NOSIGNAL 0
    #endif
    """
    enum:
        MSG_NOSIGNAL

cdef enum:
    LARGE_READ_BYTES = 16 * 1024
    # Given to the transport when the kernel takes no more: enough to keep the socket busy until it calls back.
    HANDED_OVER_BYTES = 64 * 1024


def clock_s():
    """Seconds on the monotonic clock: the one place where the broker's time is read."""
    return monotonic_s()


cdef class RunningStopwatch(Stopwatch):
    """The same clock, for who wants to know how long something has taken."""

    cpdef double read_s(self):
        return monotonic_s()


cdef class Turn:
    """One turn of the loop: input comes in, then all output leaves together."""

    def __init__(self, broker, loop):
        self.broker = broker
        self.hub = broker.hub
        self.loop = loop
        self.wake_up_at_s = 0.0

    def begun(self):
        """Something has happened: finish the turn before the loop waits again."""
        if not self.is_scheduled:
            self.is_scheduled = True
            self.loop.call_soon(self._finish_as_scheduled)

    def _finish_as_scheduled(self):
        # Only here: a turn that was finished before leaves its call in the loop, and must not be given another.
        self.is_scheduled = False
        self.finish()

    def finish(self):
        cdef Lane connection
        cdef list dirty
        self.hub.end_turn()
        dirty = self.hub.dirty[:]
        self.hub.dirty.clear()
        for connection in dirty:
            connection.is_dirty = False
            try:
                (<Link?>connection.shell).flush()
            except Exception as error:
                connection.shell.failed(error)
        if self.hub.dirty:  # room was made, and used: the next turn writes it, after the others' input
            self.begun()
        if self.broker.timers.next_at_s != self.wake_up_at_s:
            self._set_wake_up()

    def _set_wake_up(self):
        if self.wake_up is not None:
            self.wake_up.cancel()
        self.wake_up_at_s = self.broker.timers.next_at_s
        delay_s = max(0.0, self.wake_up_at_s - monotonic_s())
        self.wake_up = self.loop.call_later(delay_s, self._advance)

    def _advance(self):
        self.broker.advance(monotonic_s())
        self.wake_up_at_s = 0.0
        self.finish()

    def stop(self):
        """No timer fires any more."""
        if self.wake_up is not None:
            self.wake_up.cancel()


cdef class Link(DirectWriter):
    """What one connection reads from and writes to; the broker core knows it as the connection's shell."""

    def __init__(self, Turn turn not None, open_lane=None):
        self.turn = turn
        self.open_lane = open_lane if open_lane is not None else turn.broker.open
        self.descriptor = -1

    def begin(self, str peer not None):
        """Whoever connects from `peer` is there."""
        self.connection = self.open_lane(self, peer, monotonic_s())
        self.turn.open_links += 1
        if self.descriptor >= 0:
            self.connection.direct = self
        self.turn.begun()

    def lost(self, error):
        """Nothing can be read or written any more."""
        self.is_closing = True
        self.turn.broker.lingering.pop(self, None)
        self.turn.open_links -= 1
        self.turn.broker.turn(monotonic_s())
        self.connection.lost("the network connection is gone" if error is None else str(error))
        self.connection.leaving.release()
        self.turn.begun()

    def linger(self):
        """The client has some time to read what was written; less if somebody needs the socket."""
        self.turn.broker.lingering[self] = None
        self.turn.loop.call_later(LINGER_S, self.give_up)

    def give_up(self):
        """Close now, whatever is left to be read."""
        raise NotImplementedError

    def failed(self, error):
        """What nobody has foreseen: this connection ends, and the others go on."""
        self.turn.loop.call_exception_handler({"message": "a connection has failed", "exception": error})
        self.turn.loop.call_soon(self.give_up)

    def defer(self, action):
        self.turn.loop.call_soon(self._deferred, action)

    def _deferred(self, action):
        self.turn.broker.turn(monotonic_s())
        action()
        self.turn.begun()

    def broken(self):
        """Writing has failed: `lost` is to be called soon."""
        raise NotImplementedError

    cdef int flush(self) except -1:
        """Write what the connection has, as far as the kernel takes it."""
        raise NotImplementedError

    cdef int write_out(self, ByteBuffer out) except -1:
        """Write by system calls of our own, as much as the kernel takes."""
        cdef Py_ssize_t sent = 1
        while out.size() and sent:
            sent = self.send_some(out.start(), out.size())
            out.consume(sent)
        return 0

    cdef Py_ssize_t write_now(self, const unsigned char* data, Py_ssize_t size) except -1:
        if self.is_blocked or self.is_closing:
            return 0
        return self.send_some(data, size)

    cdef Py_ssize_t send_some(self, const unsigned char* data, Py_ssize_t size) except -1:
        """How much the kernel took; 0 also when it is `broken`."""
        cdef ssize_t sent
        while True:
            sent = c_send(self.descriptor, data, size, MSG_NOSIGNAL)
            if sent >= 0:
                self.connection.hub.counters.bytes_sent += sent
                return sent
            if errno == EAGAIN:
                return 0
            if errno != EINTR:
                self.is_closing = True
                self.broken()
                return 0


cdef class TransportLink(Link):
    """A connection that the event loop reads, over TLS, WebSocket, or where there is no epoll."""

    # ---- called by the event loop --------------------------------------------------------------------

    def made(self, transport, str peer not None, int descriptor):
        self.transport = transport
        self.descriptor = descriptor
        transport.set_write_buffer_limits(0, 0)
        self.begin(peer)

    def get_buffer(self, hint):
        return self.connection.receive_buffer()

    def buffer_updated(self, Py_ssize_t count):
        self.connection.received(count, monotonic_s())
        if count < LARGE_READ_BYTES:
            self.turn.begun()
        else:
            self.turn.finish()  # more is there to be read, and would be before the turn ends

    def resume_writing(self):
        self.is_blocked = False
        self.connection.backlog_bytes = 0
        self.flush()
        if not self.is_blocked and not self.is_closing:
            self.connection.output_drained()
        self.turn.begun()

    # ---- called by the connection --------------------------------------------------------------------

    def close(self):
        if self.is_closing:
            return
        self.flush()
        self.is_closing = True
        if self.connection.leaving.size():
            self.transport.write(self.connection.leaving.take())
        self.transport.close()
        if self.transport.get_write_buffer_size():
            self.linger()

    def give_up(self):
        self.transport.abort()

    def pause_reading(self):
        if not self.is_closing:
            self.transport.pause_reading()

    def resume_reading(self):
        if not self.is_closing:
            self.transport.resume_reading()

    def broken(self):
        self.transport.abort()  # it finds the broken connection by itself, and says so

    # ---- output --------------------------------------------------------------------------------------

    cdef int flush(self) except -1:
        cdef ByteBuffer out = self.connection.leaving
        cdef bint is_awaited = self.connection.awaits_room()
        while out.size() and not self.is_blocked and not self.is_closing:
            if self.descriptor >= 0:
                self.write_out(out)
            if out.size() and not self.is_closing:
                self.hand_over(out)
        if is_awaited and not self.is_blocked and not self.is_closing:
            self.connection.output_drained()
        return 0

    cdef int hand_over(self, ByteBuffer out) except -1:
        cdef Py_ssize_t size = min(out.size(), HANDED_OVER_BYTES)
        cdef bytes part = (<char*>out.start())[:size]
        self.connection.hub.counters.bytes_sent += size
        out.consume(size)
        self.transport.write(part)
        size = self.transport.get_write_buffer_size()
        self.is_blocked = size > 0
        self.connection.backlog_bytes = size
        return 0


LINGER_S = 5.0  # how long a closed connection may take to read what was written to it
