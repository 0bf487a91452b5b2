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

Rejected: a dict in each node (five times the memory and over ten times the time, see bench/topics_bench.py)
and regular expressions.
"""

from cpython.list cimport PyList_Append
from cpython.object cimport PyObject
from cpython.sequence cimport PySequence_Fast_ITEMS
from libc.stdlib cimport free, realloc

from braidmq.topics.graph cimport (
    ROOT, Graph, Node, edge_hash, find_candidate, find_child, is_child, level_end, make_level, node_at,
    prefetch,
)

cdef enum:
    CONFIRMED = 0xFFFFFFFF
    FRONTIER_MIN = 32


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


cdef class FilterTrie(PathMap):
    """Maps filters (validated, UTF-8, without `$share/group/`) to values. See PathMap for its arguments."""

    def __cinit__(self, bytes seed=None, *, int hash_bits=32):
        self.reserve(FRONTIER_MIN)

    def __dealloc__(self):
        free(self.frontier)
        free(self.next_frontier)
        free(self.slots)

    def match(self, bytes topic not None):
        """The values of all filters that match `topic`, in no particular order."""
        cdef list result = []
        self.match_into(topic, len(topic), result)
        return result

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
        cdef PyObject** values = PySequence_Fast_ITEMS(self.values)
        cdef Py_ssize_t i
        for i in range(self.slot_count):
            prefetch(values[self.slots[i]])
        for i in range(self.slot_count):
            PyList_Append(result, <object>values[self.slots[i]])
        return 0

    cdef size_t scratch_bytes(self) noexcept:
        return 2 * self.frontier_capacity * sizeof(Reached) + self.slots_capacity * sizeof(uint32_t)

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
