"""Drives a broker with publishers and subscribers from one thread, and measures what the subscribers get.

The loop runs in C without the GIL: epoll, one scratch read buffer, frames found by their length alone, no
Python object for a message. Each message carries its publisher, a sequence number and the time it was (or,
when paced, should have been) sent, so a subscriber can tell loss, doubles, order and latency.

Invariant: a publisher is in the ready ring at most once, and leaves it when its window, its socket or its pace
holds it up; the event that lets it go on puts it back. A turn makes a bounded number of writes and one read
per readable connection, so reading and writing cannot starve each other.
"""
import resource

cimport cython
from libc.stdint cimport UINT64_MAX, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from braidmq.load.fleet cimport Fleet, Publisher, Subscriber, Template
from braidmq.load.link cimport (
    PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, PUBREL_FLAGS, Link, flush, frame_bytes, keep_tail, make_room,
    put_ack, receive, room_came, two_bytes,
)
from braidmq.load.system cimport (
    EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, epoll_event, epoll_wait, now_ns,
)

from braidmq.load import case as cases

cdef enum:
    EVENTS_MAX = 512
    WRITES_PER_TURN = 32       # between two looks at the sockets
    SEQUENCE_BITS = 40         # of the stamp's first eight bytes; the publisher's number has the rest
    SMALLEST_FAILURE = 0x80    # reason codes from here on say no
    STALL_NS = 500_000_000
    WAIT_MAX_MS = 5


@cython.final
cdef class Generator(Fleet):
    """The loop over a fleet."""

    # --- the ready ring -------------------------------------------------------------------------------------

    cdef void wake(self, uint32_t number) noexcept nogil:
        cdef Publisher *publisher = &self.publishers[number]
        if publisher.ready:
            return
        publisher.ready = True
        self.ring[(self.ring_head + self.ring_size) % self.publisher_count] = number
        self.ring_size += 1

    cdef uint32_t next_ready(self) noexcept nogil:
        cdef uint32_t number = self.ring[self.ring_head]
        self.ring_head = (self.ring_head + 1) % self.publisher_count
        self.ring_size -= 1
        self.publishers[number].ready = False
        return number

    cdef void wake_all(self) noexcept nogil:
        cdef uint32_t number
        for number in range(self.publisher_count):
            self.wake(number)

    cdef void wake_those_due(self, uint64_t now) noexcept nogil:
        cdef uint64_t slots = <uint64_t>(<double>(now - self.first_ns) / self.interval_ns) + 1
        if slots - self.slots_passed >= self.publisher_count:
            self.wake_all()
        else:
            while self.slots_passed < slots:
                self.wake(self.slots_passed % self.publisher_count)
                self.slots_passed += 1
        self.slots_passed = slots

    # --- sending --------------------------------------------------------------------------------------------

    cdef uint64_t planned_ns(self, uint32_t number) noexcept nogil:
        """When the publisher's next message is due: the fleet's slots go round the publishers."""
        cdef uint64_t slot = self.publishers[number].next_sequence * self.publisher_count + number
        return self.first_ns + <uint64_t>(<double>slot * self.interval_ns)

    cdef bint may_send(self, uint32_t number, uint64_t now) noexcept nogil:
        cdef Publisher *publisher = &self.publishers[number]
        if not self.sending or (self.messages and publisher.next_sequence >= self.messages):
            return False
        if publisher.window:
            if self.qos and publisher.in_flight >= publisher.window:
                return False
            if not self.qos and publisher.in_flight > (publisher.window - 1) * <uint64_t>self.widest_fan_out:
                return False
        return not self.interval_ns or self.planned_ns(number) <= now

    cdef Template *pick_template(self, uint32_t number) noexcept nogil:
        cdef Publisher *publisher = &self.publishers[number]
        cdef uint64_t mixed
        if not self.random_topics:
            return &self.templates[number % self.topic_count]
        mixed = publisher.random_state
        mixed ^= mixed >> 12
        mixed ^= mixed << 25
        mixed ^= mixed >> 27
        publisher.random_state = mixed
        mixed *= 0x2545F4914F6CDD1DULL
        return &self.templates[((mixed >> 32) * self.topic_count) >> 32]

    cdef bint put_message(self, uint32_t number, uint64_t stamp_ns) noexcept nogil:
        cdef Publisher *publisher = &self.publishers[number]
        cdef Link *link = &self.links[number]
        cdef Template *template = self.pick_template(number)
        cdef uint64_t stamp[2]
        cdef uint8_t *at
        if not make_room(link, template.frame_bytes):
            return False
        at = link.out + link.out_bytes
        link.out_bytes += template.frame_bytes
        if self.qos or self.random_topics or link.out_bytes > publisher.primed_bytes:
            memcpy(at, template.frame, template.frame_bytes)
            publisher.primed_bytes = link.out_bytes
        stamp[0] = <uint64_t>number << SEQUENCE_BITS | publisher.next_sequence
        stamp[1] = stamp_ns
        memcpy(at + template.payload_at, stamp, sizeof(stamp))
        self.account(publisher, template, at)
        return True

    cdef void account(self, Publisher *publisher, Template *template, uint8_t *frame) noexcept nogil:
        cdef uint16_t packet_id
        publisher.next_sequence += 1
        self.sent += 1
        self.expected += template.fan_out
        if self.messages:
            self.unsent -= 1
        if self.qos:
            packet_id = publisher.free_ids[publisher.window - publisher.in_flight - 1]
            publisher.fan_outs[packet_id] = template.fan_out
            frame[template.id_at] = packet_id >> 8
            frame[template.id_at + 1] = packet_id & 0xFF
            self.unacknowledged += 1
            publisher.in_flight += 1
        elif publisher.window:
            publisher.in_flight += template.fan_out

    cdef void pump(self, uint64_t now) noexcept nogil:
        """Let the ready publishers write, each once in its turn."""
        cdef uint32_t writes = 0, number, count
        cdef Link *link
        while self.ring_size and writes < WRITES_PER_TURN:
            number = self.next_ready()
            link = &self.links[number]
            if link.broken or link.awaiting_room:
                continue
            count = 0
            while count < self.batch and self.may_send(number, now):
                if not self.put_message(number, self.planned_ns(number) if self.interval_ns else now):
                    break
                count += 1
            flush(link, self.poller)
            writes += 1
            if not link.awaiting_room and self.may_send(number, now):
                self.wake(number)

    # --- receiving ------------------------------------------------------------------------------------------

    cdef void on_readable(self, uint32_t number) noexcept nogil:
        cdef Link *link = &self.links[number]
        cdef ssize_t got = receive(link, self.poller, self.scratch, self.tail_room)
        cdef const uint8_t *at
        cdef const uint8_t *end
        cdef size_t size
        cdef uint32_t header_bytes = 0
        cdef uint64_t now
        if got <= 0:
            return
        now = now_ns()
        at = self.scratch + self.tail_room - link.tail_bytes
        end = self.scratch + self.tail_room + got
        while True:
            size = frame_bytes(at, end, &header_bytes)
            if not size or size > <size_t>(end - at):
                break
            if number < self.publisher_count:
                self.take_ack(number, at, header_bytes, size)
            elif number < self.publisher_count + self.subscriber_count:
                self.take_delivery(number - self.publisher_count, at, header_bytes, size, now)
            at += size
        keep_tail(link, self.poller, at, end - at, self.tail_room)
        self.last_progress_ns = now
        if number < self.publisher_count:
            self.wake(number)
        else:
            flush(link, self.poller)

    cdef void take_delivery(
        self, uint32_t number, const uint8_t *frame, uint32_t header_bytes, size_t size, uint64_t now
    ) noexcept nogil:
        cdef Subscriber *subscriber = &self.subscribers[number]
        cdef Link *link = &self.links[self.publisher_count + number]
        cdef const uint8_t *packet_id
        if frame[0] >> 4 == PUBREL:
            put_ack(link, PUBCOMP << 4, two_bytes(frame + header_bytes))
        if frame[0] >> 4 != PUBLISH:
            return
        self.delivered += 1
        if frame[0] & 6:
            packet_id = frame + header_bytes + 2 + two_bytes(frame + header_bytes)
            put_ack(link, (PUBACK if frame[0] & 2 else PUBREC) << 4, two_bytes(packet_id))
        subscriber.until_check -= 1
        if not subscriber.until_check:
            subscriber.until_check = self.check_every
            self.look_into(number, frame, header_bytes, size, now)

    cdef void look_into(
        self, uint32_t number, const uint8_t *frame, uint32_t header_bytes, size_t size, uint64_t now
    ) noexcept nogil:
        """Read the stamp and judge it."""
        cdef const uint8_t *at = frame + header_bytes + 2 + two_bytes(frame + header_bytes)
        cdef uint32_t properties_header = 0
        cdef uint64_t stamp[2]
        cdef uint64_t publisher, sequence
        if frame[0] & 6:
            at += 2
        if self.has_properties:  # their length is written as a frame's is, one byte further on
            at += frame_bytes(at - 1, frame + size, &properties_header) - 1
        if at + sizeof(stamp) > frame + size:
            self.reject()
            return
        memcpy(stamp, at, sizeof(stamp))
        publisher = stamp[0] >> SEQUENCE_BITS
        sequence = stamp[0] & ((<uint64_t>1 << SEQUENCE_BITS) - 1)
        if publisher >= self.publisher_count or sequence >= self.publishers[publisher].next_sequence:
            self.reject()
            return
        if self.steady_from_ns <= stamp[1] < self.steady_to_ns:
            self.latencies.add(now - stamp[1] if now > stamp[1] else 0)
        if self.check_every > 1:
            self.checker.sample(number, publisher, sequence)
            return
        self.checker.see(number, self.subscribers[number].stream, publisher, sequence)
        if not self.qos and self.publishers[publisher].window:
            self.publishers[publisher].in_flight -= self.publishers[publisher].in_flight > 0
            self.wake(publisher)

    cdef void reject(self) noexcept nogil:
        """A delivery that is none of this run's."""
        self.foreign += 1
        self.delivered -= 1

    cdef void take_ack(
        self, uint32_t number, const uint8_t *frame, uint32_t header_bytes, size_t size
    ) noexcept nogil:
        cdef uint8_t kind = frame[0] >> 4
        cdef bint failed = size > header_bytes + 2 and frame[header_bytes + 2] >= SMALLEST_FAILURE
        cdef uint16_t packet_id
        if kind not in (PUBACK, PUBREC, PUBCOMP) or size < header_bytes + 2 or not self.qos:
            return
        packet_id = two_bytes(frame + header_bytes)
        if kind == PUBREC and not failed:
            put_ack(&self.links[number], PUBREL << 4 | PUBREL_FLAGS, packet_id)
        else:
            self.release(number, packet_id, failed)

    cdef void release(self, uint32_t number, uint16_t packet_id, bint failed) noexcept nogil:
        """The message's flow is over: its packet id is free again."""
        cdef Publisher *publisher = &self.publishers[number]
        if not publisher.in_flight or not 0 < packet_id <= publisher.window:
            self.foreign += 1
            return
        publisher.in_flight -= 1
        publisher.free_ids[publisher.window - publisher.in_flight - 1] = packet_id
        self.unacknowledged -= 1
        if failed:
            self.refused += 1
            self.expected -= publisher.fan_outs[packet_id]
        else:
            self.acknowledged += 1

    # --- the loop -------------------------------------------------------------------------------------------

    cdef bint settled(self) noexcept nogil:
        return not self.unacknowledged and self.delivered >= self.expected + self.checker.duplicates

    cdef void forgive_if_stalled(self, uint64_t now) noexcept nogil:
        """A broker that drops messages would hold a QoS 0 window shut for good."""
        cdef uint32_t number
        if self.qos or not self.sending or self.ring_size or now < self.last_progress_ns + STALL_NS:
            return
        self.last_progress_ns = now
        for number in range(self.publisher_count):
            if self.publishers[number].in_flight:
                self.publishers[number].in_flight = 0
                self.stalls += 1
                self.wake(number)

    cdef int wait_ms(self, uint64_t now, uint64_t until) noexcept nogil:
        cdef uint64_t next_ns = until
        if self.ring_size or self.spin:
            return 0
        if self.sending and self.interval_ns:
            next_ns = min(until, self.first_ns + <uint64_t>(<double>self.slots_passed * self.interval_ns))
        return min(<int>((next_ns - min(now, next_ns)) // 1_000_000), WAIT_MAX_MS)

    cdef void drive(self, uint64_t until, uint64_t quiet_ns) noexcept nogil:
        """Turn the loop until the time; or, when there is no more to send, until what was sent is settled."""
        cdef epoll_event events[EVENTS_MAX]
        cdef uint64_t before, now = now_ns()
        cdef uint32_t number, happened
        cdef int count, position
        while now < until:
            if self.sending and self.messages and not self.unsent:
                self.sending = False
                self.last_progress_ns = now
            if not self.sending and (self.settled() or now > self.last_progress_ns + quiet_ns):
                return
            before = now
            count = epoll_wait(self.poller, events, EVENTS_MAX, self.wait_ms(now, until))
            now = now_ns()
            if count <= 0 and not self.ring_size:
                self.idle_ns += now - before
            for position in range(count):
                number, happened = events[position].data.u32, events[position].events
                if happened & EPOLLOUT:
                    room_came(&self.links[number], self.poller)
                    if number < self.publisher_count:
                        self.wake(number)
                if happened & (EPOLLIN | EPOLLERR | EPOLLHUP) and not self.links[number].broken:
                    self.on_readable(number)
            if self.sending and self.interval_ns:
                self.wake_those_due(now)
            self.pump(now)
            self.forgive_if_stalled(now)

    # --- what run() needs of it -----------------------------------------------------------------------------

    def start(self):
        self.sending = True
        self.first_ns = self.last_progress_ns = now_ns()
        if not self.interval_ns:
            self.wake_all()

    def measure(self, double seconds):
        """The steady interval: the latencies of what is sent in it count, whenever it arrives."""
        self.steady_from_ns, self.steady_to_ns = now_ns(), UINT64_MAX
        counts = self.snapshot()
        self.go_on(seconds)
        self.steady_to_ns = now_ns()
        return counts, self.snapshot()

    def go_on(self, double seconds):
        """False when it ended before its time: all was sent, and is settled or lost."""
        cdef uint64_t until = now_ns() + <uint64_t>(seconds * 1e9)
        cdef uint64_t quiet_ns = <uint64_t>(<double>self.case.quiet_s * 1e9)
        with nogil:
            self.drive(until, quiet_ns)
        return now_ns() >= until

    def drain(self, double seconds_max):
        """Stop sending and take what still comes; False when it was still coming at the end."""
        self.sending = False
        self.last_progress_ns = now_ns()
        return not self.go_on(seconds_max)

    def snapshot(self):
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return {"at_ns": now_ns(), "sent": self.sent, "delivered": self.delivered, "idle_ns": self.idle_ns,
                "cpu_s": usage.ru_utime + usage.ru_stime}

    def totals(self):
        broken = sum([self.links[number].broken for number in range(self.link_count)])
        windows = [self.publishers[number].window for number in range(self.publisher_count)]
        return {"sent": self.sent, "acknowledged": self.acknowledged, "refused": self.refused,
                "delivered": self.delivered, "expected": self.expected, "duplicates": self.checker.duplicates,
                "order_faults": self.checker.order_faults, "foreign": self.foreign, "stalls": self.stalls,
                "broken_links": broken, "window": min(windows, default=0)}

    def latency(self):
        histogram = self.latencies
        p50, p99, p999 = (histogram.quantile(share) / 1000 for share in (0.5, 0.99, 0.999))
        return cases.Latency(count=histogram.count, mean_us=histogram.mean / 1000, p50_us=p50, p99_us=p99,
                             p999_us=p999, max_us=histogram.maximum / 1000)


def run(case, probe=None):
    """Drive the load and return its Result; the probe is called around the phases, and its answers are kept."""
    case.check()
    probes = {}

    def look(moment):
        if probe is not None:
            probes[moment] = probe()

    fleet = Generator(case)
    try:
        look("before")
        fleet.connect()
        look("connected")
        fleet.start()
        fleet.go_on(case.ramp_s)
        look("begin")
        begin, end = fleet.measure(case.steady_s)
        look("end")
        drained = fleet.drain(case.drain_max_s)
        look("drained")
    finally:
        fleet.hang_up()
    return result(fleet, begin, end, drained, probes)


def result(fleet, begin, end, drained, probes):
    steady_ns = max(1, end["at_ns"] - begin["at_ns"])
    return cases.Result(
        **fleet.totals(), drained=drained, probes=probes, latency=fleet.latency(), steady_s=steady_ns / 1e9,
        steady_delivered=end["delivered"] - begin["delivered"], steady_sent=end["sent"] - begin["sent"],
        generator_cpu_s=end["cpu_s"] - begin["cpu_s"],
        generator_busy=1 - (end["idle_ns"] - begin["idle_ns"]) / steady_ns,
    )
