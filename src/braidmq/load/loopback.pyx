"""The cheapest thing that looks like a broker: passes the bytes of publishers to all subscribers, unread.

It tells how much the generator itself can move, which no broker measured with it can exceed. It answers
CONNECT and SUBSCRIBE, which must come alone in a read, and knows no frames after that; so only one publisher
at a time gives whole frames, and only at QoS 0. Sends block: a slow subscriber stops it, as it should.
"""
from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport calloc, free

from braidmq.load.link cimport READ_BYTES, frame_bytes
from braidmq.load.system cimport (
    EPOLL_CTL_ADD, EPOLLIN, MSG_NOSIGNAL, accept, close, epoll_create1, epoll_event, epoll_wait, recv, send, watch,
)

cdef enum:
    CONNECTIONS_MAX = 16384
    EVENTS_MAX = 64
    STRANGER = 0             # until CONNECT; then, until its next packet, what it is known by is its version
    VERSION_5 = 5
    SUBSCRIBER = 6
    PUBLISHER = 7
    CONNECT_BYTE = 0x10
    SUBSCRIBE_BYTE = 0x82
    VERSION_AT = 6           # in CONNECT's body, after the protocol name "MQTT"


cdef bint send_all(int fd, const uint8_t *data, size_t size) noexcept nogil:
    cdef ssize_t taken
    while size:
        taken = send(fd, data, size, MSG_NOSIGNAL)
        if taken <= 0:
            return False
        data += taken
        size -= taken
    return True


cdef class Relay:
    cdef int poller, listener
    cdef uint8_t *roles          # by descriptor
    cdef int *subscribers        # descriptors
    cdef uint32_t subscriber_count
    cdef uint8_t *buffer

    def __cinit__(self, int listener):
        self.listener = listener
        self.roles = <uint8_t *>calloc(CONNECTIONS_MAX, 1)
        self.subscribers = <int *>calloc(CONNECTIONS_MAX, sizeof(int))
        self.buffer = <uint8_t *>calloc(1, READ_BYTES)
        self.poller = epoll_create1(0)
        if not (self.roles and self.subscribers and self.buffer) or self.poller < 0:
            raise MemoryError("no memory, or no epoll")
        watch(self.poller, EPOLL_CTL_ADD, listener, EPOLLIN, listener)

    def __dealloc__(self):
        if self.poller >= 0:
            close(self.poller)
        free(self.roles)
        free(self.subscribers)
        free(self.buffer)

    cdef void welcome(self) noexcept nogil:
        cdef int fd = accept(self.listener, NULL, NULL)
        if fd >= CONNECTIONS_MAX:
            close(fd)
        elif fd >= 0:
            self.roles[fd] = STRANGER
            watch(self.poller, EPOLL_CTL_ADD, fd, EPOLLIN, fd)

    cdef void forget(self, int fd) noexcept nogil:
        cdef uint32_t position
        close(fd)
        for position in range(self.subscriber_count):
            if self.subscribers[position] == fd:
                self.subscriber_count -= 1
                self.subscribers[position] = self.subscribers[self.subscriber_count]
                return

    cdef void answer_connect(self, int fd) noexcept nogil:
        cdef uint8_t connack[5]
        cdef uint32_t header_bytes = 0
        frame_bytes(self.buffer, self.buffer + 8, &header_bytes)
        self.roles[fd] = self.buffer[header_bytes + VERSION_AT]
        connack[0] = 0x20
        connack[1] = 3 if self.roles[fd] == VERSION_5 else 2
        connack[2] = connack[3] = connack[4] = 0
        send_all(fd, connack, connack[1] + 2)

    cdef void answer_subscribe(self, int fd, ssize_t got) noexcept nogil:
        cdef uint8_t suback[6]
        cdef uint32_t header_bytes = 0
        frame_bytes(self.buffer, self.buffer + got, &header_bytes)
        suback[0] = 0x90
        suback[1] = 4 if self.roles[fd] == VERSION_5 else 3
        suback[2] = self.buffer[header_bytes]
        suback[3] = self.buffer[header_bytes + 1]
        suback[4] = 0
        suback[suback[1] + 1] = self.buffer[got - 1]  # the QoS asked for is the packet's last byte
        self.roles[fd] = SUBSCRIBER
        self.subscribers[self.subscriber_count] = fd
        self.subscriber_count += 1
        send_all(fd, suback, suback[1] + 2)

    cdef void on_readable(self, int fd) noexcept nogil:
        cdef uint32_t position
        cdef ssize_t got = recv(fd, self.buffer, READ_BYTES, 0)
        if got <= 0:
            self.forget(fd)
        elif self.roles[fd] == SUBSCRIBER:
            pass
        elif self.roles[fd] == STRANGER and self.buffer[0] == CONNECT_BYTE and got >= 12:
            self.answer_connect(fd)
        elif self.roles[fd] != PUBLISHER and self.buffer[0] == SUBSCRIBE_BYTE and got >= 5:
            self.answer_subscribe(fd, got)
        else:
            self.roles[fd] = PUBLISHER
            for position in range(self.subscriber_count):
                send_all(self.subscribers[position], self.buffer, got)

    cdef void turn(self) noexcept nogil:
        cdef epoll_event events[EVENTS_MAX]
        cdef int position, count = epoll_wait(self.poller, events, EVENTS_MAX, 100)
        for position in range(count):
            if events[position].data.u32 == <uint32_t>self.listener:
                self.welcome()
            else:
                self.on_readable(events[position].data.u32)

    def serve(self):
        """Until a signal ends it."""
        while True:
            with nogil:
                self.turn()


def serve(listener):
    """Relay what comes in on a listening socket, until a signal ends it."""
    Relay(listener.fileno()).serve()
