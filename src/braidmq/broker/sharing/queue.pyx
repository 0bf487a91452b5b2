"""GroupQueue: the messages that wait in a shared group, in lanes.

A lane is a first-in first-out queue under any hashable name. A group whose messages may go to any member
has one lane; a group that keeps the order of keys has one per member, so that a member without room holds
up its own keys only.

Invariant: inside a lane the entries are in order of `sequence`, also after some came back from a member; no
lane is empty; `count` and `size_bytes` are those of all lanes. Bounds are asked for (`is_over`), not
enforced: who adds decides what gives way. Cost: add, first, take O(1); put_back O(entries put back, and
those waiting that are older than the youngest of them); take_oldest, take_newest O(lanes); take_all,
take_expired O(messages).

Its memory counts towards the bound of the node: a message once, however many wait for it, and what an entry and
a lane take besides.
"""

from collections import deque
from operator import attrgetter

from braidmq.broker.hub cimport Hub
from braidmq.messages.message cimport Message

cdef enum:
    ENTRY_BYTES = 112     # an Entry, and its place in a lane
    LANE_BYTES = 768      # a deque with its first block

_sequence = attrgetter("sequence")


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


cdef class GroupQueue:
    def __init__(self, Py_ssize_t messages_max, Py_ssize_t bytes_max, Hub hub=None):
        """With a hub, all messages are `Message`s."""
        self.messages_max = messages_max
        self.bytes_max = bytes_max
        self.hub = hub
        self.by_lane = {}

    def __len__(self):
        return self.count

    def __iter__(self):
        """All entries in order of publication; for operators and tests."""
        return iter(sorted((entry for lane in self.by_lane.values() for entry in lane), key=_sequence))

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
        cdef Entry entry, oldest = None
        for lane in self.by_lane:
            entry = self.first(lane)
            if oldest is None or entry.sequence < oldest.sequence:
                oldest, oldest_lane = entry, lane
        return self.take(oldest_lane)

    cpdef Entry take_newest(self):
        cdef Entry entry, newest = None
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
        if self.hub is not None:
            message = <Message>entry.message
            self.hub.queue_memory_bytes += ENTRY_BYTES + (message.cost() if message.holders == 0 else 0)
            message.holders += 1

    cdef void counted_out(self, Entry entry):
        cdef Message message
        self.count -= 1
        self.size_bytes -= entry.size_bytes
        if self.hub is not None:
            message = <Message>entry.message
            message.holders -= 1
            self.hub.queue_memory_bytes -= ENTRY_BYTES + (message.cost() if message.holders == 0 else 0)

    cdef bint has_memory(self) noexcept:
        """Whether the node has room for what waits."""
        return self.hub is None or (
            self.hub.queue_memory_bytes <= self.hub.queue_memory_bytes_max and not self.hub.is_tight())

    cpdef bint is_over(self):
        return self.count > self.messages_max or self.size_bytes > self.bytes_max

    cpdef list lanes(self):
        return list(self.by_lane)

    def take_all(self):
        """Empties the queue; the entries in order of publication."""
        cdef Entry entry
        entries = list(self)
        for entry in entries:
            self.counted_out(entry)
        for lane in self.lanes():
            self.close_lane(lane)
        return entries

    def take_expired(self, double now):
        expired = []
        for lane in self.lanes():
            waiting = self.by_lane[lane]
            expired += [entry for entry in waiting if entry.expires_at_s <= now]
            left = deque([entry for entry in waiting if entry.expires_at_s > now])
            if left:
                self.by_lane[lane] = left
            else:
                self.close_lane(lane)
        for entry in expired:
            self.counted_out(entry)
        return sorted(expired, key=_sequence)

    def check(self):
        """Asserts the invariant."""
        lanes = self.by_lane.values()
        assert all(lanes), "a lane is empty"
        for lane in lanes:
            order = [entry.sequence for entry in lane]
            assert order == sorted(order), "a lane is out of order"
        assert self.count == sum(map(len, lanes))
        assert self.size_bytes == sum(entry.size_bytes for lane in lanes for entry in lane)
