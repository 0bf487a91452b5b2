"""What of a shared group waits on disk: its pages are written, read and given up here.

When the memory of waiting messages is over its bound, the group's tail becomes pages (see `queue`); the store
writes them before the turn that says so, and from then on the log needs their messages no longer. When the lanes
run low while a member is there, the first page is read, off the event loop, and its messages are noted again
before they go on. So a message that was promised is in the log or in a page, never in both, whenever a crash comes.

Pages of a group that doesn't last are not noted: a crash ends them with it. QoS 0 goes to disk with the others, to
keep its place in the order, and is left out of pages that a restart has found: it may have been sent before.
"""

from functools import partial

from libc.math cimport INFINITY

from braidmq.broker.counters cimport DROP_DAMAGED
from braidmq.broker.hub cimport Hub
from braidmq.broker.sharing.queue cimport Entry, GroupPage
from braidmq.messages.message cimport Message
from braidmq.store.encoding cimport Encoder

from braidmq.store.records import GROUP_PAGED, GROUP_QUEUED, GROUP_UNPAGED

cdef enum:
    PAGE_BYTES = 64 * 1024     # of messages, as they are counted; a page ends when it has as many
    PAGE_MESSAGES = 512


cdef class GroupPages:
    """`group` is the GroupReceiver whose pages these are, `pages` the store's Pages."""

    def __init__(self, group not None, Hub hub not None, pages not None):
        self.group = group
        self.hub = hub
        self.pages = pages
        self.queue = group.core.queue
        self.queue.is_pageable = True

    # ---- out -----------------------------------------------------------------------------------------

    def page_out(self):
        """Put what waits behind the lanes on disk, in pages that are full."""
        cdef Encoder encoder = self.pages.encoder
        cdef Entry entry
        while self.is_worth_a_page():
            entries = self.queue.take_tail(PAGE_MESSAGES, PAGE_BYTES)
            encoder.begin_file()
            for entry in entries:
                encoder.append((GROUP_QUEUED, self.group.name, self.group.filter, entry.sequence, entry.message))
            place = self.pages.write(encoder.take())
            cost = sum([(<Entry>entry).size_bytes for entry in entries])
            page = GroupPage(entries[0].sequence, entries[len(entries) - 1].sequence, cost, *place, len(entries))
            self.queue.add_page(page)
            self.note(page)

    cdef bint is_worth_a_page(self):
        """Whether the tail fills one, or memory is so short that a small one is better than none."""
        if not self.queue.tail:
            return False
        return (len(self.queue.tail) >= PAGE_MESSAGES or self.queue.tail_bytes() >= PAGE_BYTES
                or self.hub.queue_memory_bytes > 2 * self.hub.queue_memory_bytes_max)

    def note(self, GroupPage page not None):
        if self.group.is_lasting:
            self.hub.promises.journal.append((GROUP_PAGED, self.group.name, self.group.filter, *page.details()))

    def note_all(self):
        """The group lasts from now on."""
        for page in self.queue.pages:
            self.note(page)

    def restore(self, details):
        """Take over a page that a restart has found."""
        page = GroupPage(*details)
        self.restored_to = page.last
        self.group.core.waited_on_disk(page)

    # ---- in ------------------------------------------------------------------------------------------

    def fetch(self):
        """Have the first page read, unless that is under way."""
        cdef GroupPage page
        if not self.is_fetching:
            page = self.queue.pages[0]
            self.is_fetching = True
            self.pages.fetch(page.file, page.offset, page.size, partial(self._fetched, page))

    def _fetched(self, GroupPage page, records):
        """A page was read; None: it can't be."""
        self.is_fetching = False
        if len(self.group.core.policy) == 0 and not self.group.core.is_aside:
            return  # it goes on when somebody is there
        if not self.queue.pages or self.queue.pages[0] is not page:
            self.group.unpaged([])  # it was given up meanwhile
            return
        self.queue.remove_page()
        self.give_up(page)
        if records is None:
            self.hub.counters.drop(DROP_DAMAGED, page.count)
        self.group.unpaged([self.entry_of(sequence, message) for _, _, _, sequence, message in records or ()
                            if message.qos or sequence > self.restored_to])

    cdef Entry entry_of(self, long long sequence, Message message):
        return Entry(message, message.publisher, message.topic, message.qos, message.cost(),
                     message.expires_at_s or INFINITY, sequence)

    def give_up(self, GroupPage page not None):
        """What was the first page is no longer needed."""
        self.pages.free(page.file, page.size)
        if self.group.is_lasting:
            self.hub.promises.journal.append((GROUP_UNPAGED, self.group.name, self.group.filter))

    # ---- in and out again ----------------------------------------------------------------------------

    def tidy(self):
        """Have those pages written anew that stand in files of which little is needed."""
        cdef GroupPage page
        for page in self.queue.pages:
            if self.pages.is_sparse(page.file):
                self.pages.fetch(page.file, page.offset, page.size,
                                 partial(self._fetched_to_tidy, page, page.file, page.offset))

    def _fetched_to_tidy(self, GroupPage page, file, offset, records):
        """Write a page anew, if it is still there and nobody is about to read it."""
        cdef Encoder encoder = self.pages.encoder
        if records is None or (page.file, page.offset) != (file, offset) or page not in self.queue.pages or (
                self.is_fetching and self.queue.pages[0] is page):
            return
        encoder.begin_file()
        for record in records:
            encoder.append(record)
        self.pages.free(page.file, page.size)
        page.file, page.offset, page.size = self.pages.write(encoder.take())
        self.note(page)

    def check(self):
        """Assert what must hold between any two events (for tests)."""
        if self.queue.pages and self.queue.count == self.queue.behind_count:
            assert self.is_fetching or not len(self.group.core.policy), "what is on disk waits in vain"
