"""FilterTrie: an exact map from topic filters to values that answers "which filters match this topic?".

Shape: one node a level. Literal children are found in one hash table for the whole trie, the `+` child is a
field of its parent, and a filter that ends in `#` is a second value of the node before the `#`.

Search: level by level, all nodes that match so far at once (no recursion, no backtracking). The memory that
the next level needs is asked for before any of it is read, and a node found by its hash is compared with the
topic only when it has arrived; so a trie too large for the caches waits for memory once a level and not twice
a node. With a million filters that makes a match 1.6 times as fast.

Cost of a match: the topic's bytes, plus one lookup for each stored node whose path matches the topic's first
levels. `+` can make that 2**levels paths, never more than the nodes there are. The hash is keyed with a seed
that clients don't know, so they can't choose levels that collide; equal hashes are told apart by comparing
bytes.

Rejected: a dict in each node (ten times the memory, see bench/topics_bench.py) and regular expressions.
"""

import os
import sys

from cpython.list cimport PyList_Append, PyList_GET_ITEM
from libc.stdint cimport uint8_t
from libc.stdlib cimport free, realloc

from braidmq.topics.graph cimport (
    ROOT, Node, add_child, add_plus, edge_hash, find_candidate, find_child, graph_check, graph_close,
    graph_memory_bytes, graph_open, is_child, label_bytes, level_end, make_level, node_at, prefetch, prune,
)
from braidmq.topics.siphash cimport sip_key

cdef enum:
    CONFIRMED = 0xFFFFFFFF
    FRONTIER_MIN = 32
    LEVEL_BYTES_MAX = 65535


cdef void* grown(void* memory, size_t bytes) except NULL:
    cdef void* result = realloc(memory, bytes)
    if result == NULL:
        raise MemoryError
    return result


cdef inline const Node* confirmed(const Graph* graph, Reached* reached, const Level* before,
                                  const Level* level) noexcept:
    """The node that was reached, now that it had time to arrive from memory; NULL when its edge only had the
    hash of what was looked for, and nothing else has."""
    cdef const Node* node = node_at(graph, reached.node)
    if reached.parent == CONFIRMED or is_child(node, reached.parent, before):
        return node
    reached.node = find_child(graph, reached.parent, before, edge_hash(graph, reached.parent, before))
    if reached.node == 0:
        return NULL
    if level != NULL:
        reached.hash = edge_hash(graph, reached.node, level)
    return node_at(graph, reached.node)


cdef class FilterTrie:
    """Maps filters (validated, UTF-8, without `$share`) to values.

    `seed` is the 16-byte key of the hash, by default a random one. `hash_bits` below 32 is for tests: it
    makes hashes collide.
    """

    def __cinit__(self, bytes seed=None, *, int hash_bits=32):
        if not 0 <= hash_bits <= 32:
            raise ValueError("hash_bits must be from 0 to 32")
        graph_open(&self.graph, sip_key(os.urandom(16) if seed is None else seed),
                   <uint32_t>(((<uint64_t>1 << hash_bits) - 1) << (32 - hash_bits)))
        self.values = [None]
        self.free_slots = []
        self.reserve(FRONTIER_MIN)

    def __dealloc__(self):
        graph_close(&self.graph)
        free(self.frontier)
        free(self.next_frontier)
        free(self.slots)

    def __len__(self):
        return len(self.values) - 1 - len(self.free_slots)

    def __contains__(self, filter):
        cdef uint32_t owner
        cdef uint32_t* slot
        if not isinstance(filter, bytes):
            return False
        slot = self.find_slot(filter, &owner)
        return slot != NULL and slot[0] != 0

    def get(self, bytes filter not None):
        """The value of `filter`, or None."""
        cdef uint32_t owner
        cdef uint32_t* slot = self.find_slot(filter, &owner)
        return None if slot == NULL or slot[0] == 0 else self.values[slot[0]]

    def set(self, bytes filter not None, value):
        """Inserts `filter`, or replaces its value."""
        cdef uint32_t owner = ROOT
        cdef uint32_t* slot = self.make_slot(filter, &owner)
        if slot[0] != 0:
            self.values[slot[0]] = value
            return
        try:
            slot[0] = self.take_slot(value)
        except MemoryError:
            prune(&self.graph, owner)
            raise
        self.changes += 1

    def pop(self, bytes filter not None):
        """Removes `filter` and returns its value, or None when it isn't there."""
        cdef uint32_t owner, taken
        cdef uint32_t* slot = self.find_slot(filter, &owner)
        if slot == NULL or slot[0] == 0:
            return None
        taken = slot[0]
        self.free_slots.append(taken)
        slot[0] = 0
        prune(&self.graph, owner)
        self.changes += 1
        value = self.values[taken]
        self.values[taken] = None
        if len(self) == 0:
            self.clear()
        return value

    def match(self, bytes topic not None):
        """The values of all filters that match `topic`, in no particular order."""
        cdef list result = []
        self.match_into(topic, len(topic), result)
        return result

    def clear(self):
        """Removes everything and gives the memory back."""
        cdef Graph empty
        graph_open(&empty, self.graph.key, self.graph.hash_mask)
        graph_close(&self.graph)
        self.graph = empty
        # Held until the end, because dropping the values may run code that uses this trie.
        cdef list values = self.values
        self.values = [None]
        self.free_slots = []
        self.changes += 1

    def items(self):
        """Iterates over (filter, value), in no particular order; the trie must not change meanwhile."""
        cdef uint32_t node = ROOT
        cdef uint64_t changes = self.changes
        while node < self.graph.nodes_end:
            if node_at(&self.graph, node).value != 0:
                yield self.path_of(node, False), self.values[node_at(&self.graph, node).value]
            if changes == self.changes and node_at(&self.graph, node).rest_value != 0:
                yield self.path_of(node, True), self.values[node_at(&self.graph, node).rest_value]
            if changes != self.changes:
                raise RuntimeError("the trie changed during iteration")
            node += 1

    @property
    def node_count(self):
        """How many nodes there are, the root left out."""
        return self.graph.node_count

    @property
    def memory_bytes(self):
        """Memory of the trie and its table of values, without the values."""
        return (graph_memory_bytes(&self.graph) + sys.getsizeof(self.values) + sys.getsizeof(self.free_slots)
                + 2 * self.frontier_capacity * sizeof(Reached) + self.slots_capacity * sizeof(uint32_t))

    def check(self):
        """Asserts the invariants; for tests, it looks at everything."""
        cdef uint32_t node, slot
        cdef set used = set()
        graph_check(&self.graph)
        for node in range(self.graph.nodes_end):
            for slot in (node_at(&self.graph, node).value, node_at(&self.graph, node).rest_value):
                assert slot == 0 or slot not in used, "two filters share a slot"
                used.add(slot)
        used.discard(0)
        assert used.isdisjoint(self.free_slots), "a slot is both free and used"
        assert len(used) == len(self), "a slot is neither free nor used"
        assert used.union(self.free_slots, [0]) == set(range(len(self.values)))

    cdef uint32_t* find_slot(self, bytes filter, uint32_t* owner) except? NULL:
        """Where the filter's slot number is kept, and in which node; NULL when there is no such node."""
        cdef const uint8_t* text = filter
        cdef Py_ssize_t length = len(filter), start = 0, end
        cdef uint32_t node = ROOT
        cdef Level level
        while start <= length:
            end = level_end(text, start, length)
            if end - start == 1 and text[start] == c'#':
                owner[0] = node
                return &node_at(&self.graph, node).rest_value if end == length else NULL
            if end - start == 1 and text[start] == c'+':
                node = node_at(&self.graph, node).plus
            else:
                level = make_level(&self.graph, text + start, end - start)
                node = find_child(&self.graph, node, &level, edge_hash(&self.graph, node, &level))
            if node == 0:
                return NULL
            start = end + 1
        owner[0] = node
        return &node_at(&self.graph, node).value

    cdef uint32_t* make_slot(self, bytes filter, uint32_t* owner) except NULL:
        """As find_slot, but makes the nodes that are missing. On an error it leaves the trie as it was."""
        cdef const uint8_t* text = filter
        cdef Py_ssize_t length = len(filter), start = 0, end
        try:
            while start <= length:
                end = level_end(text, start, length)
                if end - start == 1 and text[start] == c'#':
                    if end != length:
                        raise ValueError("a filter goes on after #")
                    return &node_at(&self.graph, owner[0]).rest_value
                owner[0] = self.make_child(owner[0], text + start, end - start)
                start = end + 1
        except (MemoryError, ValueError):
            prune(&self.graph, owner[0])
            raise
        return &node_at(&self.graph, owner[0]).value

    cdef uint32_t make_child(self, uint32_t node, const uint8_t* data, Py_ssize_t length) except 0:
        cdef uint32_t child
        cdef Level level
        if length == 1 and data[0] == c'+':
            child = node_at(&self.graph, node).plus
            return child if child != 0 else add_plus(&self.graph, node)
        if length > LEVEL_BYTES_MAX:
            raise ValueError(f"a level has at most {LEVEL_BYTES_MAX} bytes")
        level = make_level(&self.graph, data, length)
        child = find_child(&self.graph, node, &level, edge_hash(&self.graph, node, &level))
        return child if child != 0 else add_child(&self.graph, node, &level)

    cdef uint32_t take_slot(self, object value) except 0:
        cdef uint32_t slot
        if self.free_slots:
            slot = self.free_slots.pop()
            self.values[slot] = value
            return slot
        self.values.append(value)
        return <uint32_t>(len(self.values) - 1)

    cdef bytes path_of(self, uint32_t node, bint with_rest):
        """The filter that ends in `node`, or in the `#` after it."""
        cdef list levels = [b"#"] if with_rest else []
        cdef const Node* here
        while node != ROOT:
            here = node_at(&self.graph, node)
            if node_at(&self.graph, here.parent).plus == node:
                levels.append(b"+")
            else:
                levels.append((<const char*>label_bytes(here))[:here.length])
            node = here.parent
        levels.reverse()
        return b"/".join(levels)

    cdef int match_into(self, const unsigned char* topic, Py_ssize_t length, list result) except -1:
        """Appends to `result` the values of all filters that match the topic."""
        cdef Level[3] levels
        cdef Level* before = &levels[0]
        cdef Level* level = &levels[1]
        cdef Level* after = &levels[2]
        cdef Py_ssize_t end = level_end(topic, 0, length), start, count = 1
        # A topic that starts with $ is not matched by a wildcard in the first level [MQTT-4.7.2-1].
        cdef bint last = False, wildcards = length == 0 or topic[0] != c'$'
        level[0] = make_level(&self.graph, topic, end)
        self.slot_count = 0
        self.frontier[0].node = ROOT
        self.frontier[0].parent = CONFIRMED
        self.frontier[0].hash = edge_hash(&self.graph, ROOT, level)
        while count > 0 and not last:
            last = end == length
            if not last:
                start = end + 1
                end = level_end(topic, start, length)
                after[0] = make_level(&self.graph, topic + start, end - start)
            count = self.step(count, before, level, wildcards)
            self.fetch_ahead(count, NULL if last else after)
            before, level, after = level, after, before
            wildcards = True
        self.take_ends(count, before)
        return self.append_values(result)

    cdef Py_ssize_t step(self, Py_ssize_t count, const Level* before, const Level* level,
                         bint wildcards) except -1:
        """Moves the frontier of `count` nodes, reached by `before`, on by `level`; returns its new size.

        What is pushed or taken is written always and counted only if it is there: whether it is can't be
        predicted, and a mispredicted branch costs more than a store.
        """
        cdef const Node* node
        cdef Reached* here
        cdef Reached* reached
        cdef uint32_t child, wild = 0xFFFFFFFF if wildcards else 0
        cdef Py_ssize_t i
        self.reserve(count)
        reached = self.next_frontier
        for i in range(count):
            here = &self.frontier[i]
            node = confirmed(&self.graph, here, before, level)
            if node == NULL:
                continue
            self.slots[self.slot_count] = node.rest_value
            self.slot_count += node.rest_value & wild != 0
            reached.node = node.plus
            reached.parent = CONFIRMED
            reached += node.plus & wild != 0
            if node.literals & level.bit:
                child = find_candidate(&self.graph, here.hash)
                reached.node = child
                reached.parent = here.node
                reached += child != 0
        count = reached - self.next_frontier
        self.frontier, self.next_frontier = self.next_frontier, self.frontier
        return count

    cdef void fetch_ahead(self, Py_ssize_t count, const Level* level) noexcept:
        """Asks for all the memory that the next step will read, each node and the edge that it may need, so
        that a step waits for memory once."""
        cdef Reached* here
        cdef Py_ssize_t i
        for i in range(count):
            here = &self.frontier[i]
            prefetch(node_at(&self.graph, here.node))
            if level != NULL:
                here.hash = edge_hash(&self.graph, here.node, level)
                prefetch(&self.graph.edges[here.hash >> self.graph.edge_shift])

    cdef int take_ends(self, Py_ssize_t count, const Level* before) except -1:
        """Takes the filters that end where the topic ends; `a/#` matches `a` too."""
        cdef const Node* node
        cdef Py_ssize_t i
        self.reserve(count)
        for i in range(count):
            node = confirmed(&self.graph, &self.frontier[i], before, NULL)
            if node != NULL:
                self.slots[self.slot_count] = node.value
                self.slot_count += node.value != 0
                self.slots[self.slot_count] = node.rest_value
                self.slot_count += node.rest_value != 0
        return 0

    cdef int append_values(self, list result) except -1:
        cdef Py_ssize_t i
        for i in range(self.slot_count):
            prefetch(PyList_GET_ITEM(self.values, self.slots[i]))
        for i in range(self.slot_count):
            PyList_Append(result, <object>PyList_GET_ITEM(self.values, self.slots[i]))
        return 0

    cdef int reserve(self, Py_ssize_t count) except -1:
        """Makes room for what a step from `count` nodes can reach and take."""
        cdef Py_ssize_t frontier = 2 * count, slots = self.slot_count + 2 * count
        if frontier > self.frontier_capacity:
            self.frontier = <Reached*>grown(self.frontier, 2 * frontier * sizeof(Reached))
            self.next_frontier = <Reached*>grown(self.next_frontier, 2 * frontier * sizeof(Reached))
            self.frontier_capacity = 2 * frontier
        if slots > self.slots_capacity:
            self.slots = <uint32_t*>grown(self.slots, 2 * slots * sizeof(uint32_t))
            self.slots_capacity = 2 * slots
        return 0
