"""One connection of the generator: its buffers, and frames found in bytes. All inline, for use without the GIL.

Reading goes through one scratch buffer for all connections; only an incomplete frame is kept per connection,
and put in front of the next read. Writing goes from one contiguous buffer, in one call.
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport malloc, realloc
from libc.string cimport memcpy

from braidmq.load.system cimport (
    EPOLL_CTL_DEL, EPOLL_CTL_MOD, EPOLLIN, EPOLLOUT, MSG_NOSIGNAL, recv, send, watch, would_block,
)

cdef enum:
    READ_BYTES = 256 * 1024
    PUBLISH = 3
    PUBACK = 4
    PUBREC = 5
    PUBREL = 6
    PUBCOMP = 7
    PUBREL_FLAGS = 2

cdef struct Link:
    int fd
    uint32_t number          # what epoll reports it as
    bint broken
    bint awaiting_room       # the kernel's send buffer is full and epoll watches for room
    uint8_t *tail            # the beginning of a frame whose end has not come; NULL until needed
    size_t tail_bytes
    uint8_t *out             # to be sent: [out_sent, out_bytes) of out_room
    size_t out_bytes
    size_t out_sent
    size_t out_room


cdef inline void break_link(Link *link, int poller) noexcept nogil:
    watch(poller, EPOLL_CTL_DEL, link.fd, 0, link.number)
    link.broken = True
    link.out_bytes = link.out_sent = 0


cdef inline bint make_room(Link *link, size_t more) noexcept nogil:
    cdef size_t room = link.out_bytes + more
    cdef uint8_t *grown
    if room <= link.out_room:
        return True
    grown = <uint8_t *>realloc(link.out, room * 2)
    if grown is NULL:
        return False
    link.out = grown
    link.out_room = room * 2
    return True


cdef inline void put_ack(Link *link, uint8_t first_byte, uint16_t packet_id) noexcept nogil:
    """Any of the four-byte acknowledgements; success needs no reason code in MQTT 5."""
    cdef uint8_t *at
    if not make_room(link, 4):
        return
    at = link.out + link.out_bytes
    at[0] = first_byte
    at[1] = 2
    at[2] = packet_id >> 8
    at[3] = packet_id & 0xFF
    link.out_bytes += 4


cdef inline void flush(Link *link, int poller) noexcept nogil:
    """One write of all there is; what the kernel doesn't take waits for room."""
    cdef ssize_t taken
    if link.broken or link.awaiting_room or link.out_sent == link.out_bytes:
        return
    taken = send(link.fd, link.out + link.out_sent, link.out_bytes - link.out_sent, MSG_NOSIGNAL)
    if taken < 0 and not would_block():
        break_link(link, poller)
        return
    link.out_sent += max(taken, 0)
    if link.out_sent == link.out_bytes:
        link.out_sent = link.out_bytes = 0
    else:
        link.awaiting_room = True
        watch(poller, EPOLL_CTL_MOD, link.fd, EPOLLIN | EPOLLOUT, link.number)


cdef inline void room_came(Link *link, int poller) noexcept nogil:
    link.awaiting_room = False
    watch(poller, EPOLL_CTL_MOD, link.fd, EPOLLIN, link.number)
    flush(link, poller)


cdef inline ssize_t receive(Link *link, int poller, uint8_t *scratch, size_t tail_room) noexcept nogil:
    """Read to scratch + tail_room, with the kept tail in front of it; how much came."""
    cdef ssize_t got = recv(link.fd, scratch + tail_room, READ_BYTES, 0)
    if got > 0:
        if link.tail_bytes:
            memcpy(scratch + tail_room - link.tail_bytes, link.tail, link.tail_bytes)
    elif got == 0 or not would_block():
        break_link(link, poller)
    return got


cdef inline void keep_tail(Link *link, int poller, const uint8_t *at, size_t size, size_t room) noexcept nogil:
    if size and link.tail is NULL:
        link.tail = <uint8_t *>malloc(room)
    if size > room or (size and link.tail is NULL):
        break_link(link, poller)
        return
    if size:
        memcpy(link.tail, at, size)
    link.tail_bytes = size


cdef inline size_t frame_bytes(const uint8_t *at, const uint8_t *end, uint32_t *header_bytes) noexcept nogil:
    """Size of the whole frame that starts here; 0 when its header is not complete yet."""
    cdef size_t length
    cdef uint32_t shift = 0
    if end - at < 2:
        return 0
    if at[1] < 0x80:
        header_bytes[0] = 2
        return 2 + at[1]
    length = 0
    header_bytes[0] = 1
    while at + header_bytes[0] < end and shift <= 21:
        length |= <size_t>(at[header_bytes[0]] & 0x7F) << shift
        shift += 7
        header_bytes[0] += 1
        if at[header_bytes[0] - 1] < 0x80:
            return header_bytes[0] + length
    return 0


cdef inline uint16_t two_bytes(const uint8_t *at) noexcept nogil:
    return <uint16_t>((at[0] << 8) | at[1])
