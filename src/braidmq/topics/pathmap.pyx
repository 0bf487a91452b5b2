"""PathMap: an exact map from slash-separated paths to values, the common part of FilterTrie and TopicTree.

Its keys are bytes; a level that is just `+` and a last level that is just `#` have places of their own in the
tree of levels (see graph.pxd), which is what FilterTrie needs. Cost of get, set and pop: linear in the path.
What is removed is pruned, its nodes and slots are used again, and an empty map gives all memory back.
"""

import os
import sys

from libc.stdint cimport uint8_t

from braidmq.topics.graph cimport (
    ROOT, Level, Node, add_child, add_plus, edge_hash, find_child, graph_check, graph_close,
    graph_memory_bytes, graph_open, label_bytes, level_end, make_level, node_at, prune,
)
from braidmq.topics.siphash cimport sip_key

cdef enum:
    LEVEL_BYTES_MAX = 65535


cdef class PathMap:
    """`seed` is the 16-byte key of the hash, by default a random one. `hash_bits` below 32 is for tests: it
    makes hashes collide."""

    def __cinit__(self, bytes seed=None, *, int hash_bits=32):
        if not 0 <= hash_bits <= 32:
            raise ValueError("hash_bits must be from 0 to 32")
        graph_open(&self.graph, sip_key(os.urandom(16) if seed is None else seed),
                   <uint32_t>(((<uint64_t>1 << hash_bits) - 1) << (32 - hash_bits)), False)
        self.values = [None]
        self.free_slots = []

    def __dealloc__(self):
        graph_close(&self.graph)

    def __len__(self):
        return len(self.values) - 1 - len(self.free_slots)

    def __contains__(self, path):
        cdef uint32_t owner
        cdef uint32_t* slot
        if not isinstance(path, bytes):
            return False
        slot = self.find_slot(path, &owner)
        return slot != NULL and slot[0] != 0

    def get(self, bytes path not None):
        """The value of `path`, or None."""
        cdef uint32_t owner
        cdef uint32_t* slot = self.find_slot(path, &owner)
        return None if slot == NULL or slot[0] == 0 else self.values[slot[0]]

    def set(self, bytes path not None, value):
        """Inserts `path`, or replaces its value."""
        cdef uint32_t owner = ROOT
        cdef uint32_t* slot = self.make_slot(path, &owner)
        if slot[0] != 0:
            self.values[slot[0]] = value
            return
        try:
            slot[0] = self.take_slot(value)
        except MemoryError:
            prune(&self.graph, owner)
            raise
        self.changes += 1

    def pop(self, bytes path not None):
        """Removes `path` and returns its value, or None when it isn't there."""
        cdef uint32_t owner, taken
        cdef uint32_t* slot = self.find_slot(path, &owner)
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

    def clear(self):
        """Removes everything and gives the memory back."""
        cdef Graph empty
        graph_open(&empty, self.graph.key, self.graph.hash_mask, self.graph.linked)
        graph_close(&self.graph)
        self.graph = empty
        # Held until the end, because dropping the values may run code that uses this map.
        cdef list _values = self.values
        self.values = [None]
        self.free_slots = []
        self.clears += 1
        self.changes += 1

    def items(self):
        """Iterates over (path, value), in no particular order; the map must not change meanwhile."""
        cdef uint32_t node = ROOT
        cdef uint64_t changes = self.changes
        while node < self.graph.nodes_end:
            if node_at(&self.graph, node).value != 0:
                yield self.path_of(node, False), self.values[node_at(&self.graph, node).value]
            if changes == self.changes and node_at(&self.graph, node).rest_value != 0:
                yield self.path_of(node, True), self.values[node_at(&self.graph, node).rest_value]
            if changes != self.changes:
                raise RuntimeError("the map changed during iteration")
            node += 1

    @property
    def node_count(self):
        """How many nodes there are, the root left out."""
        return self.graph.node_count

    @property
    def memory_bytes(self):
        """Memory of the map and its table of values, without the values."""
        return (graph_memory_bytes(&self.graph) + sys.getsizeof(self.values) + sys.getsizeof(self.free_slots)
                + self.scratch_bytes())

    def check(self):
        """Asserts the invariants; for tests, it looks at everything."""
        cdef uint32_t node, slot
        cdef set used = set()
        graph_check(&self.graph)
        for node in range(self.graph.nodes_end):
            for slot in (node_at(&self.graph, node).value, node_at(&self.graph, node).rest_value):
                assert slot == 0 or slot not in used, "two paths share a slot"
                used.add(slot)
        used.discard(0)
        assert used.isdisjoint(self.free_slots), "a slot is both free and used"
        assert len(used) == len(self), "a slot is neither free nor used"
        assert used.union(self.free_slots, [0]) == set(range(len(self.values)))

    cdef size_t scratch_bytes(self) noexcept:
        """Memory that the searches of a subclass keep."""
        return 0

    cdef uint32_t* find_slot(self, bytes path, uint32_t* owner) except? NULL:
        """Where the path's slot number is kept, and in which node; NULL when there is no such node."""
        cdef const uint8_t* text = path
        cdef Py_ssize_t length = len(path), start = 0, end
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

    cdef uint32_t* make_slot(self, bytes path, uint32_t* owner) except NULL:
        """As find_slot, but makes the nodes that are missing. On an error it leaves the map as it was."""
        cdef const uint8_t* text = path
        cdef Py_ssize_t length = len(path), start = 0, end
        try:
            while start <= length:
                end = level_end(text, start, length)
                if end - start == 1 and text[start] == c'#':
                    if end != length:
                        raise ValueError("a path goes on after #")
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
        """The path that ends in `node`, or in the `#` after it."""
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
