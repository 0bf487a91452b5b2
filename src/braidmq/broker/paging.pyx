"""Keeps the memory of waiting deliveries within its bound: what waits for absent clients and peers goes to disk.

When the bound is passed, sessions whose clients are away and peers give up all that they have in memory, those
first that began to wait first. Their deliveries become pages, which the store writes before the turn that says so;
from then on the log needs them no longer. When the client is back, page after page is read, off the event
loop, and noted again, before it is sent: so a delivery is either in the log or in a page, never in both, and
the rest of the core knows nothing of pages.

Shared groups have pages of their own (`sharing.pages`); when it is their turn is decided here. Cost: a delivery is
written once more when it goes and once more when it comes; nothing for clients that are here.
"""

from functools import partial

from braidmq.broker.backlog cimport Backlog, Page, Ring, Waiting
from braidmq.broker.counters cimport DROP_DAMAGED, DROP_NOT_AUTHORIZED, DROP_QUEUE_FULL
from braidmq.broker.hub cimport Hub
from braidmq.messages.message cimport Message
from braidmq.broker.queued cimport QueuedReceiver
from braidmq.broker.receiver cimport Target
from braidmq.broker.router cimport Router
from braidmq.store.encoding cimport Named

from braidmq.store.records import PAGED, UNPAGED

cdef enum:
    PAGE_BYTES = 64 * 1024     # of messages, as they are counted; a page ends when it has as many
    PAGE_MESSAGES = 512

cdef Page NO_PAGE = Page(0, 0, 0, 0, 0, 0, 0)


cdef class Pager:
    """Pages deliveries out and in; the hub has one if its store can."""

    def __init__(self, Hub hub not None, Router router not None, pages not None):
        self.hub = hub
        self.router = router
        self.pages = pages
        self.encoder = pages.encoder
        hub.queue_memory_bytes_max = pages.memory_bytes_max

    # ---- out -----------------------------------------------------------------------------------------

    def relieve(self):
        """Page out until the memory of waiting deliveries is within its bound, or nothing is left to do."""
        cdef dict pageable = self.hub.pageable
        while self.hub.queue_memory_bytes > self.hub.queue_memory_bytes_max and pageable:
            owner = next(iter(pageable))
            del pageable[owner]
            if isinstance(owner, QueuedReceiver):
                self.page_out(<QueuedReceiver>owner)
            else:
                owner.page_out()    # a shared group

    def page_out_now(self, QueuedReceiver owner not None):
        """Put what waits for one owner on disk, whether memory is short or not."""
        self.page_out(owner)

    cdef int page_out(self, QueuedReceiver owner) except -1:
        cdef Backlog backlog = owner.queue
        cdef Ring tail
        if backlog is None or not owner.is_remembered:
            return 0
        tail = backlog.tail
        if owner.pages_all():
            self.page_out_ring(owner, backlog, backlog.head)
        if tail is not None:
            self.page_out_ring(owner, backlog, tail)
        return 0

    cdef int page_out_ring(self, QueuedReceiver owner, Backlog backlog, Ring ring) except -1:
        while ring.count:
            self.page_out_some(owner, backlog, ring)
        return 0

    cdef int page_out_some(self, QueuedReceiver owner, Backlog backlog, Ring ring) except -1:
        """Make one page of the oldest deliveries in the ring."""
        cdef Named named = Named(0, 0)
        cdef Page page
        cdef Waiting* waiting
        self.encoder.begin_file()
        page.first = ring.at(0).sequence
        page.cost = page.count = 0
        while ring.count and page.cost < PAGE_BYTES and page.count < PAGE_MESSAGES:
            waiting = ring.at(0)
            self.encoder.queued(owner.client_id, &named, waiting.sequence, <Message>waiting.message, waiting.qos,
                                waiting.retain, (<Target>waiting.target).identifiers, None)
            page.last = waiting.sequence
            page.cost += (<Message>waiting.message).cost()
            page.count += 1
            backlog.take_first(ring)
        page.file, page.offset, page.size = self.pages.write(self.encoder.take())
        backlog.add_page(page)
        return self.note_page(owner, &page)

    # ---- in ------------------------------------------------------------------------------------------

    def fetch(self, QueuedReceiver owner not None):
        """Have the owner's first page read, unless that is under way."""
        cdef Backlog backlog = owner.queue
        cdef Page page
        if backlog is None or backlog.is_fetching or not backlog.page_count():
            return
        page = backlog.pages[backlog.page_begin]
        backlog.is_fetching = True
        self.pages.fetch(page.file, page.offset, page.size,
                         partial(self._fetched, owner, backlog, page.file, page.offset))

    def _fetched(self, QueuedReceiver owner, Backlog backlog, unsigned int file, unsigned int offset, list records):
        """A page was read; None: it can't be."""
        cdef Page page
        if owner.queue is not backlog:
            return  # the owner has ended
        backlog.is_fetching = False
        if owner.outlet is None:
            return  # it goes on with the next connection
        page = backlog.pages[backlog.page_begin] if backlog.page_count() else NO_PAGE
        if page.file != file or page.offset != offset or page.count == 0:
            owner.pump_more()  # it was given up meanwhile
            return
        backlog.remove_page()
        self.pages.free(file, page.size)
        owner.queue_bytes -= page.cost
        if owner.is_remembered:
            self.hub.promises.journal.append((UNPAGED, owner.client_id))
        if records is None:
            self.hub.counters.drop(DROP_DAMAGED, page.count)
        else:
            self.put_back(owner, backlog, records)
        backlog.join_tail()
        if backlog.count == 0:
            owner.queue = None
        owner.pump_more()

    cdef int put_back(self, QueuedReceiver owner, Backlog backlog, list records) except -1:
        """What a page held waits in memory again, as far as it is wanted and may still be read."""
        cdef Message message
        cdef Target target
        cdef int qos
        cdef bint retain
        cdef bytes identifiers
        cdef dict targets = {}
        for _, _, sequence, message, qos, retain, identifiers, _ in records:
            if sequence <= owner.settled_up_to:
                continue
            if self.router.may_read is not None and not owner.may_get(message.topic, self.router.may_read):
                self.hub.drop_message(DROP_NOT_AUTHORIZED, message, owner.client_id)
                continue
            target = targets.get(identifiers)
            if target is None:
                target = targets[identifiers] = Target(owner, qos, False, identifiers)
            if owner.is_remembered:
                self.hub.promises.journal.queued(owner.client_id, &owner.named, sequence, message, qos, retain,
                                                 identifiers, None)
            backlog.add_to(backlog.head, message, target, qos, retain, sequence)
            owner.queue_bytes += message.cost()
        return 0

    def drop_page(self, QueuedReceiver owner not None):
        """Give up what has waited longest, which is on disk: the queue is full."""
        self.hub.counters.drop(DROP_QUEUE_FULL, owner.queue.pages[owner.queue.page_begin].count)
        self.pass_page(owner)

    def pass_page(self, QueuedReceiver owner not None):
        """The first page needs no delivery any more. Nothing is in memory before it."""
        cdef Page page = owner.queue.remove_page()
        self.pages.free(page.file, page.size)
        owner.queue_bytes -= page.cost
        if owner.is_remembered:
            self.hub.promises.journal.append((UNPAGED, owner.client_id))
        owner.trim_queue()

    def give_up(self, list pages not None):
        """Nobody is left to whom these pages, as in a State, belong."""
        for _, _, _, file, _, size, _ in pages:
            self.pages.free(file, size)

    def read(self, unsigned int file, unsigned int offset, unsigned int size, then):
        """Call `then`, later, with the records of a page, which stays where it is; None if it can't be read."""
        self.pages.fetch(file, offset, size, then)

    # ---- in and out again ----------------------------------------------------------------------------

    def tidy(self, QueuedReceiver owner not None):
        """Have those of an owner's pages written anew that stand in files of which little is needed."""
        cdef Backlog backlog = owner.queue
        cdef Py_ssize_t index
        cdef Page page
        if backlog is None:
            return
        for index in range(backlog.page_begin, backlog.page_end):
            page = backlog.pages[index]
            if self.pages.is_sparse(page.file):
                self.pages.fetch(page.file, page.offset, page.size,
                                 partial(self._fetched_to_tidy, owner, backlog, page.file, page.offset))

    def _fetched_to_tidy(self, QueuedReceiver owner, Backlog backlog, unsigned int file, unsigned int offset,
                         list records):
        """Write a page anew, if it is still there and nobody is about to read it."""
        cdef Py_ssize_t index = backlog.page_begin + backlog.is_fetching
        if owner.queue is not backlog or records is None or not owner.is_remembered:
            return
        while index < backlog.page_end and (backlog.pages[index].file != file or backlog.pages[index].offset != offset):
            index += 1
        if index < backlog.page_end:
            self.move_page(owner, &backlog.pages[index], records)

    cdef int move_page(self, QueuedReceiver owner, Page* page, list records) except -1:
        cdef Named named = Named(0, 0)
        self.encoder.begin_file()
        for _, _, sequence, message, qos, retain, identifiers, _ in records:
            self.encoder.queued(owner.client_id, &named, sequence, message, qos, retain, identifiers, None)
        self.pages.free(page.file, page.size)
        page.file, page.offset, page.size = self.pages.write(self.encoder.take())
        return self.note_page(owner, page)

    cdef int note_page(self, QueuedReceiver owner, Page* page) except -1:
        self.hub.promises.journal.append((PAGED, owner.client_id, page.first, page.last, page.cost, page.file,
                                          page.offset, page.size, page.count))
        return 0

    def free(self, QueuedReceiver owner not None):
        """The owner's pages are no longer needed."""
        cdef Backlog backlog = owner.queue
        cdef Page page
        while backlog is not None and backlog.page_count():
            page = backlog.remove_page()
            self.pages.free(page.file, page.size)
