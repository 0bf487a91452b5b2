"""The deliveries that wait for one client, in order: the oldest in memory, then pages on disk, then the newest.

Invariant: sequences grow from `head` over `pages` to `tail`; there is a tail only behind pages. A delivery in
memory costs 32 bytes, and its message once for all who wait for it; a page of up to some hundred deliveries
costs 48 bytes. What is in memory is counted in the hub, so that somebody can see to its bound (`paging`).
Rejected: a deque of objects, which takes three times the memory and as long to fill and empty, and 600 bytes
for a single delivery.
"""

from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memmove

from braidmq.broker.hub cimport Hub
from braidmq.messages.message cimport Message

cdef enum:
    SMALLEST_CAPACITY = 4
    DELIVERY_BYTES = sizeof(Waiting)


cdef class Delivery:
    """A delivery that waits, for those who only look."""

    cdef readonly Message message
    cdef readonly object target
    cdef readonly int qos
    cdef readonly bint retain
    cdef readonly unsigned long long sequence


cdef class Ring:
    """Deliveries in memory, in order."""

    def __dealloc__(self):
        while self.count:
            self.remove_first()
        free(self.slots)

    cdef int grow(self) except -1:
        cdef Py_ssize_t capacity = self.capacity * 2 if self.capacity else SMALLEST_CAPACITY
        cdef Waiting* larger = <Waiting*>realloc(self.slots, capacity * sizeof(Waiting))
        if larger == NULL:
            raise MemoryError
        if self.begin:  # those that had wrapped around go on behind the former end
            memcpy(larger + self.capacity, larger, self.begin * sizeof(Waiting))
        self.slots = larger
        self.capacity = capacity
        return 0

    cdef int add(self, Message message, object target, int qos, bint retain, unsigned long long sequence) except -1:
        cdef Waiting* slot
        if self.count == self.capacity:
            self.grow()
        slot = self.at(self.count)
        Py_INCREF(message)
        Py_INCREF(target)
        slot.message = <void*>message
        slot.target = <void*>target
        slot.sequence = sequence
        slot.qos = qos
        slot.retain = retain
        self.count += 1
        return 0

    cdef void remove_first(self) noexcept:
        cdef Waiting* slot = self.at(0)
        self.begin = (self.begin + 1) & (self.capacity - 1)
        self.count -= 1
        Py_DECREF(<object>slot.message)
        Py_DECREF(<object>slot.target)


cdef class Backlog:
    def __init__(self, Hub hub not None):
        self.hub = hub
        self.head = Ring.__new__(Ring)

    def __dealloc__(self):
        free(self.pages)

    cdef int add(self, Message message, object target, int qos, bint retain, unsigned long long sequence) except -1:
        """Put a new delivery behind all others."""
        return self.add_to(self.tail if self.tail is not None else self.head, message, target, qos, retain, sequence)

    cdef int add_to(self, Ring ring, Message message, object target, int qos, bint retain,
                    unsigned long long sequence) except -1:
        ring.add(message, target, qos, retain, sequence)
        self.count += 1
        self.memory_bytes += message.cost()
        self.hub.queue_memory_bytes += DELIVERY_BYTES
        if message.holders == 0:
            self.hub.queue_memory_bytes += message.cost()
        message.holders += 1
        return 0

    cdef int take_first(self, Ring ring) except -1:
        """The first delivery of the ring waits no longer, or not in memory."""
        cdef Message message = <Message>ring.at(0).message
        ring.remove_first()
        self.count -= 1
        self.memory_bytes -= message.cost()
        self.hub.queue_memory_bytes -= DELIVERY_BYTES
        message.holders -= 1
        if message.holders == 0:
            self.hub.queue_memory_bytes -= message.cost()
        return 0

    # ---- pages ---------------------------------------------------------------------------------------

    cdef int add_page(self, Page page) except -1:
        """Put a page where its sequences belong; mostly, that is behind all others."""
        cdef Page* larger
        cdef Py_ssize_t capacity, index
        if self.page_end == self.page_capacity:
            if self.page_begin:
                memmove(self.pages, self.pages + self.page_begin, self.page_count() * sizeof(Page))
                self.page_end -= self.page_begin
                self.page_begin = 0
            else:
                capacity = max(1, self.page_capacity * 2)
                larger = <Page*>realloc(self.pages, capacity * sizeof(Page))
                if larger == NULL:
                    raise MemoryError
                self.pages = larger
                self.page_capacity = capacity
        index = self.page_end
        while index > self.page_begin and page.first < self.pages[index - 1].first:
            self.pages[index] = self.pages[index - 1]
            index -= 1
        self.pages[index] = page
        self.page_end += 1
        self.count += page.count
        if self.tail is None:
            self.tail = Ring.__new__(Ring)
        return 0

    cdef Page remove_page(self) noexcept:
        """The first page is no longer needed."""
        cdef Page page = self.pages[self.page_begin]
        self.page_begin += 1
        self.count -= page.count
        return page

    cdef void join_tail(self) noexcept:
        """If no page is left, what stood behind them is the next."""
        if self.tail is not None and self.page_count() == 0 and self.head.count == 0:
            self.head = self.tail
            self.tail = None

    # ---- to look at ----------------------------------------------------------------------------------

    def __len__(self):
        return self.count

    def __iter__(self):
        """The deliveries in memory."""
        cdef Ring ring
        cdef Delivery delivery
        cdef Waiting* slot
        for ring in (self.head, self.tail):
            for index in range(ring.count if ring is not None else 0):
                slot = ring.at(index)
                delivery = Delivery.__new__(Delivery)
                delivery.message = <Message>slot.message
                delivery.target = <object>slot.target
                delivery.qos = slot.qos
                delivery.retain = slot.retain != 0
                delivery.sequence = slot.sequence
                yield delivery

    def paged(self):
        """The pages: (first, last, cost, file, offset, size, count) of each, as in a PAGED record."""
        cdef Py_ssize_t index
        cdef Page page
        found = []
        for index in range(self.page_begin, self.page_end):
            page = self.pages[index]
            found.append((page.first, page.last, page.cost, page.file, page.offset, page.size, page.count))
        return found

    def check(self):
        """Assert the invariants (for tests)."""
        sequences = [delivery.sequence for delivery in self]
        pages = self.paged()
        assert self.memory_bytes == sum([(<Message>delivery.message).cost() for delivery in self])
        assert self.count == len(sequences) + sum(page[6] for page in pages) > 0
        assert sequences == sorted(set(sequences))
        assert (self.tail is None) == (not pages and not self.tail)
        for page, following in zip(pages, pages[1:]):
            assert page[1] < following[0]
        for sequence in sequences[:self.head.count] if pages else ():
            assert sequence < pages[0][0]
        for sequence in sequences[self.head.count:] if pages else ():
            assert sequence > pages[len(pages) - 1][1]
