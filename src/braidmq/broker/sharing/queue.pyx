"""GroupQueue: the messages that wait in a shared group, the oldest in lanes, those behind them on disk.

A lane is a first-in first-out queue under any hashable name. A group whose messages may go to any member
has one lane; a group that keeps the order of keys has one per member, so that a member without room holds
up its own keys only.

What does not fit into the lanes waits behind them, if the store has pages: in `pages`, and behind those in `tail`.
It is in no lane: whose it is is asked when it gets there. Who has the disk takes from the tail (`take_tail`), adds
pages, and removes the first one when it has been read.

Invariant: inside a lane the entries are in order of `sequence`, also after some came back from a member; no
lane is empty; sequences grow from the lanes (and what members have) over the pages to the tail; `count` and
`size_bytes` are those of all that waits. Bounds are asked for (`is_over`), not
enforced: who adds decides what gives way. Cost: add, first, take O(1); put_back O(entries put back, and
those waiting that are older than the youngest of them); take_oldest, take_newest O(lanes); take_all,
take_expired O(messages in memory), or O(1) if none of them ever expires.

Its memory counts towards the bound of the node: a message once, however many wait for it, and what an entry and
a lane take besides.
"""

cimport cython
from libc.math cimport INFINITY

from collections import deque
from itertools import chain
from operator import attrgetter

from braidmq.broker.hub cimport Hub
from braidmq.messages.message cimport Message

cdef enum:
    ENTRY_BYTES = 112     # an Entry, and its place in a lane
    LANE_BYTES = 768      # a deque with its first block
    STUB_BYTES = 256      # a GroupPage
    LOW_BYTES = 64 * 1024    # in the lanes: below it the next page is wanted, though memory may be short

_sequence = attrgetter("sequence")


cdef list expired_of(object entries, double now):
    cdef Entry entry
    return [entry for entry in entries if entry.expires_at_s <= now]


cdef object left_of(object entries, double now):
    cdef Entry entry
    return deque([entry for entry in entries if entry.expires_at_s > now])


@cython.no_gc  # a million of them may wait, and a collection would look at each; none is in a cycle
cdef class Entry:
    def __init__(self, object message, object publisher, object topic, int qos, Py_ssize_t size_bytes,
                 double expires_at_s, long long sequence):
        self.message = message
        self.publisher = publisher
        self.topic = topic
        self.qos = qos
        self.size_bytes = size_bytes
        self.expires_at_s = expires_at_s
        self.sequence = sequence

    def __repr__(self):
        return f"<Entry {self.sequence} {self.topic!r}>"


cdef class GroupPage:
    """Messages of a group that wait on disk; where, is the caller's."""

    def __init__(self, long long first, long long last, Py_ssize_t cost, file, offset, size, Py_ssize_t count):
        self.first = first
        self.last = last
        self.cost = cost
        self.file = file
        self.offset = offset
        self.size = size
        self.count = count

    def details(self):
        """As in a GROUP_PAGED record."""
        return (self.first, self.last, self.cost, self.file, self.offset, self.size, self.count)


cdef class GroupQueue:
    def __init__(self, object settings, Hub hub=None):
        """With a hub, all messages are `Message`s."""
        self.configure(settings)
        self.hub = hub
        self.by_lane = {}
        self.tail = deque()
        self.pages = deque()

    def configure(self, settings):
        self.messages_max = settings.messages_max
        self.bytes_max = settings.bytes_max
        self.memory_bytes_max = settings.memory_bytes_max

    def __len__(self):
        return self.count

    def __iter__(self):
        """All entries in memory, in order of publication; for operators and tests."""
        in_lanes = sorted((entry for lane in self.by_lane.values() for entry in lane), key=_sequence)
        return chain(in_lanes, list(self.tail))

    cpdef void add(self, object lane, Entry entry):
        self.open_lane(lane).append(entry)
        self.counted_in(entry)

    cpdef void put_back(self, object lane, list entries):
        """Entries that were taken come back to their place in the order, which is in front as a rule."""
        cdef object waiting
        cdef list front = sorted(entries, key=_sequence)
        cdef Entry entry
        if not front:
            return
        waiting = self.open_lane(lane)
        youngest = front[len(front) - 1].sequence
        while waiting and waiting[0].sequence < youngest:
            front.append(waiting.popleft())
        waiting.extendleft(reversed(sorted(front, key=_sequence)))
        for entry in entries:
            self.counted_in(entry)

    cpdef Entry first(self, object lane):
        cdef object waiting = self.by_lane.get(lane)
        return None if waiting is None else waiting[0]

    cpdef Entry take(self, object lane):
        cdef object waiting = self.by_lane[lane]
        cdef Entry entry = waiting.popleft()
        if not waiting:
            self.close_lane(lane)
        self.counted_out(entry)
        return entry

    cpdef Entry last(self, object lane):
        cdef object waiting = self.by_lane.get(lane)
        return None if waiting is None else waiting[len(waiting) - 1]

    cpdef Entry take_oldest(self):
        """Of those in memory; there must be one, and nothing on disk before it."""
        cdef Entry entry, oldest = None
        if not self.by_lane:
            return self.take_first_behind()
        for lane in self.by_lane:
            entry = self.first(lane)
            if oldest is None or entry.sequence < oldest.sequence:
                oldest, oldest_lane = entry, lane
        return self.take(oldest_lane)

    cpdef Entry take_newest(self):
        """Of those in memory; there must be one, and nothing on disk behind it."""
        cdef Entry entry, newest = None
        if self.tail:
            return self.take_last_behind()
        for lane in self.by_lane:
            entry = self.last(lane)
            if newest is None or entry.sequence > newest.sequence:
                newest, newest_lane = entry, lane
        return self.take_last(newest_lane)

    cdef Entry take_last(self, object lane):
        cdef object waiting = self.by_lane[lane]
        cdef Entry entry = waiting.pop()
        if not waiting:
            self.close_lane(lane)
        self.counted_out(entry)
        return entry

    cdef object open_lane(self, object lane):
        """The entries of the lane, which is made if there is none."""
        cdef object waiting = self.by_lane.get(lane)
        if waiting is None:
            waiting = self.by_lane[lane] = deque()
            if self.hub is not None:
                self.hub.queue_memory_bytes += LANE_BYTES
        return waiting

    cdef void close_lane(self, object lane):
        del self.by_lane[lane]
        if self.hub is not None:
            self.hub.queue_memory_bytes -= LANE_BYTES

    cdef void counted_in(self, Entry entry):
        cdef Message message
        self.count += 1
        self.size_bytes += entry.size_bytes
        if entry.expires_at_s != INFINITY:
            self.expiring_count += 1
        if self.hub is not None:
            message = <Message>entry.message
            self.hub.queue_memory_bytes += ENTRY_BYTES + (message.cost() if message.holders == 0 else 0)
            message.holders += 1

    cdef void counted_out(self, Entry entry):
        cdef Message message
        self.count -= 1
        self.size_bytes -= entry.size_bytes
        if entry.expires_at_s != INFINITY:
            self.expiring_count -= 1
        if self.hub is not None:
            message = <Message>entry.message
            message.holders -= 1
            self.hub.queue_memory_bytes -= ENTRY_BYTES + (message.cost() if message.holders == 0 else 0)

    # ---- behind the lanes ----------------------------------------------------------------------------

    cdef bint goes_behind(self, Entry entry) noexcept:
        """Whether a new entry has to wait behind the lanes."""
        return self.is_pageable and self.count > 0 and (
            self.behind_count > 0 or self.size_bytes + entry.size_bytes > self.memory_bytes_max or self.is_short())

    cpdef void add_behind(self, Entry entry):
        self.tail.append(entry)
        self.counted_in(entry)
        self.behind_count += 1
        self.behind_bytes += entry.size_bytes

    cdef Entry take_first_behind(self):
        return self.counted_out_behind(self.tail.popleft())

    cdef Entry take_last_behind(self):
        return self.counted_out_behind(self.tail.pop())

    cdef Entry counted_out_behind(self, Entry entry):
        self.counted_out(entry)
        self.behind_count -= 1
        self.behind_bytes -= entry.size_bytes
        return entry

    cdef bint may_follow(self):
        """Whether the first of the tail is the next for the lanes, and those have room."""
        if not self.tail or self.pages:
            return False
        return not self.by_lane or (self.in_lanes_bytes() < self.memory_bytes_max and not self.is_short())

    def wants_page(self):
        """Whether the first page had better be read: the lanes run low."""
        if not self.pages:
            return False
        low_bytes = LOW_BYTES if self.is_short() else max(LOW_BYTES, self.memory_bytes_max // 2)
        return not self.by_lane or self.in_lanes_bytes() < min(low_bytes, self.memory_bytes_max)

    def take_tail(self, Py_ssize_t count_max, Py_ssize_t bytes_max):
        """The first entries of the tail, to be put on disk: so many, or the first of them that have so many bytes."""
        cdef list taken = []
        cdef Py_ssize_t size_bytes = 0
        while self.tail and len(taken) < count_max and size_bytes < bytes_max:
            taken.append(self.take_first_behind())
            size_bytes += (<Entry>taken[len(taken) - 1]).size_bytes
        return taken

    def add_page(self, GroupPage page not None):
        """A page that holds what waits behind all pages so far, and before the tail."""
        self.pages.append(page)
        self.count_page(page, 1)

    cpdef GroupPage remove_page(self):
        """The first page; what it holds waits here no longer, or comes back."""
        cdef GroupPage page = self.pages.popleft()
        self.count_page(page, -1)
        return page

    cdef void count_page(self, GroupPage page, int sign):
        self.count += sign * page.count
        self.size_bytes += sign * page.cost
        self.behind_count += sign * page.count
        self.behind_bytes += sign * page.cost
        self.paged_bytes += sign * page.cost
        if self.hub is not None:
            self.hub.queue_memory_bytes += sign * STUB_BYTES

    # ---- bounds --------------------------------------------------------------------------------------

    cdef bint is_short(self) noexcept:
        """Whether more waits in the memory of the node than should."""
        return self.hub is not None and self.hub.queue_memory_bytes > self.hub.queue_memory_bytes_max

    cdef bint has_memory(self) noexcept:
        """Whether the node has room for what waits; what is pageable makes room when the turn ends."""
        return self.hub is None or ((self.is_pageable or not self.is_short()) and not self.hub.is_tight())

    @property
    def bytes_limit(self):
        """How many bytes may wait, wherever they do."""
        return self.limit_bytes()

    cpdef bint is_over(self):
        return self.count > self.messages_max or self.size_bytes > self.limit_bytes()

    cpdef list lanes(self):
        return list(self.by_lane)

    def take_all(self):
        """Empties the lanes; the entries in order of publication."""
        cdef Entry entry
        entries = sorted((entry for lane in self.by_lane.values() for entry in lane), key=_sequence)
        for entry in entries:
            self.counted_out(entry)
        for lane in self.lanes():
            self.close_lane(lane)
        return entries

    def take_those(self, set sequences not None):
        """The entries of these numbers, of those in the lanes. O(messages in the lanes)."""
        taken = []
        for lane in self.lanes():
            waiting = self.by_lane[lane]
            taken += [entry for entry in waiting if entry.sequence in sequences]
            left = deque([entry for entry in waiting if entry.sequence not in sequences])
            if left:
                self.by_lane[lane] = left
            else:
                self.close_lane(lane)
        for entry in taken:
            self.counted_out(entry)
        return sorted(taken, key=_sequence)

    def take_expired(self, double now):
        """Those in memory; on disk they are found when they are read."""
        cdef list behind, here, expired = []
        if not self.expiring_count:
            return expired
        behind = expired_of(self.tail, now)
        if behind:
            self.tail = left_of(self.tail, now)
            for entry in behind:
                self.counted_out_behind(entry)
        for lane in self.lanes():
            here = expired_of(self.by_lane[lane], now)
            if not here:
                continue
            expired += here
            self.by_lane[lane] = left_of(self.by_lane[lane], now)
            if not self.by_lane[lane]:
                self.close_lane(lane)
        for entry in expired:
            self.counted_out(entry)
        return sorted(expired, key=_sequence) + behind

    def check(self):
        """Asserts the invariant."""
        lanes = self.by_lane.values()
        assert all(lanes), "a lane is empty"
        for lane in lanes:
            order = [entry.sequence for entry in lane]
            assert order == sorted(order), "a lane is out of order"
        pages = list(self.pages)
        tail = [entry.sequence for entry in self.tail]
        order = [number for page in pages for number in (page.first, page.last)] + tail
        assert order == sorted(order), "what is behind is out of order"
        assert not order or all(entry.sequence < order[0] for lane in lanes for entry in lane)
        assert self.is_pageable or not order
        assert self.behind_count == len(tail) + sum(page.count for page in pages)
        assert self.tail_bytes() == sum(entry.size_bytes for entry in self.tail)
        assert self.paged_bytes == sum(page.cost for page in pages)
        assert self.count == sum(map(len, lanes)) + self.behind_count
        assert self.expiring_count == sum(entry.expires_at_s != INFINITY for entry in self)
        assert self.in_lanes_bytes() == sum(entry.size_bytes for lane in lanes for entry in lane)
