"""All the connections of one load: sets up what the generator's loop works on, and takes it down again.

Owns every buffer and descriptor; each is allocated here, before the first message, but for the two that a
connection gets when it first needs them. Costs a few microseconds a connection, besides the handshake.
"""
from random import Random

from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from braidmq.load.checker cimport Checker
from braidmq.load.histogram cimport Histogram
from braidmq.load.link cimport READ_BYTES, Link
from braidmq.load.system cimport (
    EPOLL_CTL_ADD, EPOLLIN, MSG_NOSIGNAL, close, epoll_create1, send, unblock, watch,
)

from braidmq.load import case as cases
from braidmq.load.handshake import Wish, dial, publish_template

cdef enum:
    FOREIGN_BYTES = 4096  # a broker may add properties to a message, or send a packet of its own


cdef class Fleet:
    def __cinit__(self, case):
        self.case = case
        self.poller = -1
        self.publisher_count = case.publishers
        self.subscriber_count = len(case.subscriptions)
        self.link_count = self.publisher_count + self.subscriber_count + case.idle
        self.topic_count = len(case.topics)
        self.links = <Link *>calloc(self.link_count + 1, sizeof(Link))
        self.publishers = <Publisher *>calloc(self.publisher_count + 1, sizeof(Publisher))
        self.subscribers = <Subscriber *>calloc(self.subscriber_count + 1, sizeof(Subscriber))
        self.templates = <Template *>calloc(self.topic_count, sizeof(Template))
        self.ring = <uint32_t *>calloc(self.publisher_count + 1, sizeof(uint32_t))
        if not (self.links and self.publishers and self.subscribers and self.templates and self.ring):
            raise MemoryError
        for number in range(self.link_count):
            self.links[number].fd = -1
        self.qos, self.batch, self.check_every = case.qos, case.batch, case.check_every
        self.messages, self.random_topics, self.spin = case.messages, case.random_topics, case.spin
        self.unsent = self.messages * self.publisher_count
        self.has_properties = case.version == 5
        self.interval_ns = 1e9 / case.rate_per_s if case.rate_per_s else 0.0
        self.latencies = Histogram()
        self._prepare_templates()
        self._prepare_checks()

    def _prepare_templates(self):
        cdef Template *template
        fan_outs = cases.fan_out(self.case.topics, self.case.subscriptions)
        for number, topic in enumerate(self.case.topics):
            whole, id_at, payload_at = publish_template(
                topic, self.case.qos, self.case.payload_bytes, self.case.version)
            template = &self.templates[number]
            template.frame = <uint8_t *>calloc(1, len(whole))
            if template.frame is NULL:
                raise MemoryError
            memcpy(template.frame, <const uint8_t *>whole, len(whole))
            template.frame_bytes, template.id_at, template.payload_at = len(whole), id_at, payload_at
            template.fan_out = fan_outs[number]
            self.tail_room = max(self.tail_room, <size_t>len(whole))
        self.widest_fan_out = max(fan_outs)
        self.tail_room += FOREIGN_BYTES
        self.scratch = <uint8_t *>calloc(1, self.tail_room + READ_BYTES)
        if self.scratch is NULL:
            raise MemoryError

    def _prepare_checks(self):
        numbers = cases.streams(self.case.subscriptions)
        for subscriber, stream in enumerate(numbers):
            self.subscribers[subscriber].stream = stream
            self.subscribers[subscriber].until_check = self.check_every
        kept = max(numbers, default=-1) + 1 if self.check_every == 1 else 0
        self.checker = Checker(self.subscriber_count, kept, self.publisher_count)

    def __dealloc__(self):
        self.hang_up()
        for number in range(self.topic_count if self.templates else 0):
            free(self.templates[number].frame)
        for number in range(self.publisher_count if self.publishers else 0):
            free(self.publishers[number].free_ids)
            free(self.publishers[number].fan_outs)
        for number in range(self.link_count if self.links else 0):
            free(self.links[number].tail)
            free(self.links[number].out)
        free(self.templates)
        free(self.publishers)
        free(self.subscribers)
        free(self.links)
        free(self.ring)
        free(self.scratch)

    def hang_up(self):
        cdef const char *disconnect = b"\xe0\x00"
        for number in range(self.link_count if self.links else 0):
            if self.links[number].fd >= 0:
                send(self.links[number].fd, disconnect, 2, MSG_NOSIGNAL)
                close(self.links[number].fd)
                self.links[number].fd = -1
        if self.poller >= 0:
            close(self.poller)
            self.poller = -1

    def connect(self):
        """Open every connection, subscribers first: no message may find them missing."""
        case, prefix = self.case, self.case.client_prefix
        cdef uint32_t first_idle = self.publisher_count + self.subscriber_count
        self.poller = epoll_create1(0)
        if self.poller < 0:
            raise OSError("the load generator needs epoll, so Linux")
        subscribers = [Wish(f"{prefix}-s-{n}", subscription, case.subscriber_qos, 0, case.session_expiry_s)
                       for n, subscription in enumerate(case.subscriptions)]
        publishers = [Wish(f"{prefix}-p-{n}", None, 0, case.send_buffer_bytes, case.session_expiry_s)
                      for n in range(case.publishers)]
        self._adopt(self.publisher_count, self._dial(subscribers, case.subscriber_port or case.port))
        self._adopt(first_idle, self._dial([Wish(f"{prefix}-i-{n}") for n in range(case.idle)], case.port))
        dialled = self._dial(publishers, case.port)
        self._adopt(0, dialled)
        for number, one in enumerate(dialled):
            self.equip(number, min(case.window, one.receive_maximum))

    def _dial(self, wishes, port):
        case = self.case
        return dial((case.host, port), wishes, case.version, case.receive_maximum)

    def _adopt(self, uint32_t first, dialled):
        cdef Link *link
        for number, one in enumerate(dialled, first):
            link = &self.links[number]
            link.fd = one.connection.detach()
            link.number = number
            unblock(link.fd)
            watch(self.poller, EPOLL_CTL_ADD, link.fd, EPOLLIN, number)

    cdef int equip(self, uint32_t number, uint32_t window) except -1:
        """Give a publisher its random numbers, its window and the packet ids to fill it."""
        cdef Publisher *publisher = &self.publishers[number]
        cdef uint32_t position
        publisher.random_state = Random(f"{self.case.seed}/{number}").getrandbits(64) | 1
        publisher.window = window if self.qos else self.case.window
        if not self.qos:
            return 0
        publisher.free_ids = <uint16_t *>calloc(window, sizeof(uint16_t))
        publisher.fan_outs = <uint32_t *>calloc(window + 1, sizeof(uint32_t))
        if not (publisher.free_ids and publisher.fan_outs):
            raise MemoryError
        for position in range(window):
            publisher.free_ids[position] = window - position
        return 0
