"""A receiver for whom deliveries wait: what a session and a peer have in common.

The queue is bounded by its owner, noted for the store delivery by delivery (QUEUED, then SETTLED), and may go to
disk: the `Pager` knows owners of queues, and no more of them than is here.
"""

from braidmq.broker.backlog cimport Backlog, Page, Ring
from braidmq.broker.counters cimport Drop
from braidmq.broker.hub cimport Hub
from braidmq.broker.receiver cimport Target
from braidmq.messages.message cimport Message


cdef class QueuedReceiver(Receiver):
    def __init__(self, Hub hub not None, str client_id not None):
        self.hub = hub
        self.client_id = client_id

    # ---- the queue -----------------------------------------------------------------------------------

    cdef int wait(self, Message message, Target target, int qos, bint retain, unsigned long long sequence) except -1:
        """Put a delivery behind all others that wait."""
        if self.queue is None:
            self.queue = Backlog(self.hub)
        self.queue.add(message, target, qos, retain, sequence)
        self.queue_bytes += message.cost()
        return self.note_pageable()

    cdef int take_first(self) except -1:
        """The first delivery that waits in memory does so no longer."""
        self.queue_bytes -= (<Message>self.queue.head.at(0).message).cost()
        self.queue.take_first(self.queue.head)
        return self.trim_queue()

    cdef int trim_queue(self) except -1:
        """Something was taken from the queue's head."""
        if self.queue.head.count == 0:
            self.queue.join_tail()
            if self.queue.count == 0:
                self.queue = None
        return 0

    cdef int give_up_queue(self, Drop reason) except -1:
        """Nothing waits any more. The store is told by whoever ends the queue."""
        for delivery in self.queue or ():
            self.hub.drop_message(reason, delivery.message, self.client_id)
        self.hub.counters.drop(reason, self.empty_queue())
        return 0

    cdef Py_ssize_t empty_queue(self) except -1:
        """The same, and nothing is dropped: how many have waited on disk."""
        cdef Ring ring
        cdef Py_ssize_t on_disk
        if self.queue is None:
            return 0
        for ring in (self.queue.head, self.queue.tail):
            while ring is not None and ring.count:
                self.queue.take_first(ring)
        on_disk = self.queue.count
        if on_disk:
            self.hub.pager.free(self)
        self.hub.pageable.pop(self, None)
        self.queue = None
        self.queue_bytes = 0
        return on_disk

    cdef int pump_more(self) except -1:
        """Send what waits, as far as there is room."""
        raise NotImplementedError

    # ---- disk ----------------------------------------------------------------------------------------

    cdef bint pages_all(self) noexcept:
        """Whether all that waits may go to disk; else it is what stands behind the pages."""
        return self.outlet is None

    cdef int note_pageable(self) except -1:
        """Something waits in memory that might as well wait on disk."""
        if self.queue is not None and self.hub.pager is not None and (
            self.pages_all() or self.queue.tail is not None
        ):
            self.hub.pageable[self] = None
        return 0

    # ---- for the store -------------------------------------------------------------------------------

    cdef int note_queued(self, Message message, Target target, int qos, bint retain,
                         unsigned long long sequence) except -1:
        if self.is_remembered:
            self.hub.promises.journal.queued(self.client_id, &self.named, sequence, message, qos, retain,
                                             target.identifiers, target.group)
        return 0

    cdef int settle(self, unsigned long long sequence) except -1:
        if self.is_remembered:
            self.hub.promises.journal.settled(self.client_id, &self.named, sequence)
        return 0

    # ---- after a restart -----------------------------------------------------------------------------

    def restore_queued(self, Message message not None, Target target not None, int qos, bint retain,
                       unsigned long long sequence):
        """Put back a delivery that waited; they come in order of their sequence. Nothing is noted."""
        if self.queue is None:
            self.queue = Backlog(self.hub)
        if self.queue.page_count() and sequence < self.queue.pages[self.queue.page_begin].first:
            self.queue.add_to(self.queue.head, message, target, qos, retain, sequence)
        else:
            self.queue.add(message, target, qos, retain, sequence)
        self.queue_bytes += message.cost()
        self.last_sequence = max(self.last_sequence, sequence)
        self.note_pageable()

    def restore_page(self, unsigned long long first, unsigned long long last, unsigned long long cost,
                     unsigned int file, unsigned int offset, unsigned int size, unsigned int count):
        """Put back deliveries that wait on disk. Pages come before what waits in memory."""
        if self.queue is None:
            self.queue = Backlog(self.hub)
        self.queue.add_page(Page(first, last, cost, file, offset, size, count))
        self.queue_bytes += cost
        self.last_sequence = max(self.last_sequence, last)

    @property
    def queued(self):
        """Deliveries that wait, in memory and on disk."""
        return self.queue.count if self.queue is not None else 0

    def check(self):
        """Assert the queue's invariants (for tests)."""
        if self.queue is not None:
            self.queue.check()
        in_memory = sum([(<Message>waiting.message).cost() for waiting in self.queue or ()])
        on_disk = sum([page[2] for page in self.queue.paged()]) if self.queue is not None else 0
        assert self.queue_bytes == in_memory + on_disk
