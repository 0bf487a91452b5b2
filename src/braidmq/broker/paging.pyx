"""Keeps the memory of waiting deliveries within its bound: what waits for absent clients goes to disk.

When the bound is passed, sessions whose clients are away give up all that they have in memory, those first
that began to wait first. Their deliveries become pages, which the store writes before the turn that says so;
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
from braidmq.broker.router cimport Router
from braidmq.broker.receiver cimport Target
from braidmq.broker.session cimport Session
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
            if isinstance(owner, Session):
                self.page_out(<Session>owner)
            else:
                owner.page_out()    # a shared group

    cdef int page_out(self, Session session) except -1:
        cdef Backlog backlog = session.queue
        cdef Ring tail
        if backlog is None or not session.is_remembered:
            return 0
        tail = backlog.tail
        if session.outlet is None:
            self.page_out_ring(session, backlog, backlog.head)
        if tail is not None:
            self.page_out_ring(session, backlog, tail)
        return 0

    cdef int page_out_ring(self, Session session, Backlog backlog, Ring ring) except -1:
        while ring.count:
            self.page_out_some(session, backlog, ring)
        return 0

    cdef int page_out_some(self, Session session, Backlog backlog, Ring ring) except -1:
        """Make one page of the oldest deliveries in the ring."""
        cdef Named named = Named(0, 0)
        cdef Page page
        cdef Waiting* waiting
        self.encoder.begin_file()
        page.first = ring.at(0).sequence
        page.cost = page.count = 0
        while ring.count and page.cost < PAGE_BYTES and page.count < PAGE_MESSAGES:
            waiting = ring.at(0)
            self.encoder.queued(session.client_id, &named, waiting.sequence, <Message>waiting.message, waiting.qos,
                                waiting.retain, (<Target>waiting.target).identifiers, None)
            page.last = waiting.sequence
            page.cost += (<Message>waiting.message).cost()
            page.count += 1
            backlog.take_first(ring)
        page.file, page.offset, page.size = self.pages.write(self.encoder.take())
        backlog.add_page(page)
        return self.note_page(session, &page)

    # ---- in ------------------------------------------------------------------------------------------

    def fetch(self, Session session not None):
        """Have the session's first page read, unless that is under way."""
        cdef Backlog backlog = session.queue
        cdef Page page
        if backlog is None or backlog.is_fetching or not backlog.page_count():
            return
        page = backlog.pages[backlog.page_begin]
        backlog.is_fetching = True
        self.pages.fetch(page.file, page.offset, page.size,
                         partial(self._fetched, session, backlog, page.file, page.offset))

    def _fetched(self, Session session, Backlog backlog, unsigned int file, unsigned int offset, list records):
        """A page was read; None: it can't be."""
        cdef Page page
        if session.queue is not backlog:
            return  # the session has ended
        backlog.is_fetching = False
        if session.outlet is None:
            return  # it goes on with the next connection
        page = backlog.pages[backlog.page_begin] if backlog.page_count() else NO_PAGE
        if page.file != file or page.offset != offset or page.count == 0:
            session.pump()  # it was given up meanwhile
            return
        backlog.remove_page()
        self.pages.free(file, page.size)
        session.queue_bytes -= page.cost
        if session.is_remembered:
            self.hub.promises.journal.append((UNPAGED, session.client_id))
        if records is None:
            self.hub.counters.drop(DROP_DAMAGED, page.count)
        else:
            self.put_back(session, backlog, records)
        backlog.join_tail()
        if backlog.count == 0:
            session.queue = None
        session.pump()

    cdef int put_back(self, Session session, Backlog backlog, list records) except -1:
        """What a page held waits in memory again, as far as the client may still read it."""
        cdef Message message
        cdef Target target
        cdef int qos
        cdef bint retain
        cdef bytes identifiers
        cdef dict targets = {}
        for _, _, sequence, message, qos, retain, identifiers, _ in records:
            if self.router.may_read is not None and not self.router.may_read(session, message.topic):
                self.hub.drop_message(DROP_NOT_AUTHORIZED, message, session.client_id)
                continue
            target = targets.get(identifiers)
            if target is None:
                target = targets[identifiers] = Target(session, qos, False, identifiers)
            if session.is_remembered:
                self.hub.promises.journal.queued(session.client_id, &session.named, sequence, message, qos, retain,
                                                 identifiers, None)
            backlog.add_to(backlog.head, message, target, qos, retain, sequence)
            session.queue_bytes += message.cost()
        return 0

    def drop_page(self, Session session not None):
        """Give up what has waited longest, which is on disk: the session's queue is full."""
        cdef Backlog backlog = session.queue
        cdef Page page = backlog.remove_page()
        self.pages.free(page.file, page.size)
        session.queue_bytes -= page.cost
        if session.is_remembered:
            self.hub.promises.journal.append((UNPAGED, session.client_id))
        self.hub.counters.drop(DROP_QUEUE_FULL, page.count)
        backlog.join_tail()
        if backlog.count == 0:
            session.queue = None

    def give_up(self, list pages not None):
        """Nobody is left to whom these pages, as in a State, belong."""
        for _, _, _, file, _, size, _ in pages:
            self.pages.free(file, size)

    def read(self, unsigned int file, unsigned int offset, unsigned int size, then):
        """Call `then`, later, with the records of a page, which stays where it is; None if it can't be read."""
        self.pages.fetch(file, offset, size, then)

    # ---- in and out again ----------------------------------------------------------------------------

    def tidy(self, Session session not None):
        """Have those of a session's pages written anew that stand in files of which little is needed."""
        cdef Backlog backlog = session.queue
        cdef Py_ssize_t index
        cdef Page page
        if backlog is None:
            return
        for index in range(backlog.page_begin, backlog.page_end):
            page = backlog.pages[index]
            if self.pages.is_sparse(page.file):
                self.pages.fetch(page.file, page.offset, page.size,
                                 partial(self._fetched_to_tidy, session, backlog, page.file, page.offset))

    def _fetched_to_tidy(self, Session session, Backlog backlog, unsigned int file, unsigned int offset, list records):
        """Write a page anew, if it is still there and nobody is about to read it."""
        cdef Py_ssize_t index = backlog.page_begin + backlog.is_fetching
        if session.queue is not backlog or records is None or not session.is_remembered:
            return
        while index < backlog.page_end and (backlog.pages[index].file != file or backlog.pages[index].offset != offset):
            index += 1
        if index < backlog.page_end:
            self.move_page(session, &backlog.pages[index], records)

    cdef int move_page(self, Session session, Page* page, list records) except -1:
        cdef Named named = Named(0, 0)
        self.encoder.begin_file()
        for _, _, sequence, message, qos, retain, identifiers, _ in records:
            self.encoder.queued(session.client_id, &named, sequence, message, qos, retain, identifiers, None)
        self.pages.free(page.file, page.size)
        page.file, page.offset, page.size = self.pages.write(self.encoder.take())
        return self.note_page(session, page)

    cdef int note_page(self, Session session, Page* page) except -1:
        self.hub.promises.journal.append((PAGED, session.client_id, page.first, page.last, page.cost, page.file,
                                          page.offset, page.size, page.count))
        return 0

    def free(self, Session session not None):
        """The session's pages are no longer needed."""
        cdef Backlog backlog = session.queue
        cdef Page page
        while backlog is not None and backlog.page_count():
            page = backlog.remove_page()
            self.pages.free(page.file, page.size)
