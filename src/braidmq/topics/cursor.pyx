"""TopicCursor: the topics that match a filter, a few at a time, while the tree changes.

Purpose: to replay retained messages at a reader's pace without a list of them, which a small packet could make
large. The walk goes down before it goes on, and keeps no more than the node where it stands; that node is pinned,
so it stays even if its topic is removed meanwhile. What was there all the time is found once; what is added
meanwhile may be found or not. Cost: O(levels) memory; each node is visited once, as in TopicTree.find.
"""

cimport cython
from libc.stdlib cimport free, malloc

from braidmq.topics.graph cimport (
    ROOT, Graph, Level, Node, edge_hash, find_child, label_bytes, level_end, links_at, make_level, node_at, pin, unpin,
)
from braidmq.topics.tree cimport TopicTree


cdef inline bint is_plus(const Level* level) noexcept:
    return level.length == 1 and level.data[0] == c'+'


@cython.no_gc_clear
cdef class TopicCursor:
    """Walks over the topics of a tree that match `filter` (validated)."""

    def __cinit__(self, TopicTree tree not None, bytes filter not None):
        cdef const unsigned char* text = filter
        cdef Py_ssize_t length = len(filter), start = 0, end
        self.tree = tree
        self.filter = filter
        self.clears = tree.clears
        self.node = ROOT
        self.levels = <Level*>malloc((filter.count(b"/") + 1) * sizeof(Level))
        if self.levels == NULL:
            raise MemoryError
        while start <= length:
            end = level_end(text, start, length)
            if end - start == 1 and text[start] == c'#':
                self.with_rest = True
                break
            self.levels[self.level_count] = make_level(&tree.graph, text + start, end - start)
            self.level_count += 1
            start = end + 1

    def __dealloc__(self):
        self.let_go()
        free(self.levels)

    def take(self, int visits_max):
        """The values of the next topics, after a visit to no more than so many nodes; None when that was all."""
        cdef list found = []
        cdef uint32_t before = self.node
        cdef const Node* here
        cdef int visits = 0
        if self.is_over or self.clears != self.tree.clears:
            return None
        while visits < visits_max:
            if not self.step():
                self.is_over = True
                break
            visits += 1
            here = node_at(&self.tree.graph, self.node)
            if here.value != 0 and (self.depth == self.level_count or (
                self.with_rest and self.depth > self.level_count
            )):
                found.append(self.tree.values[here.value])
        if self.node != ROOT:
            pin(&self.tree.graph, self.node)
        if before != ROOT:
            unpin(&self.tree.graph, before)
        return found

    cdef void let_go(self) noexcept:
        if self.tree is not None and self.node != ROOT and self.clears == self.tree.clears:
            unpin(&self.tree.graph, self.node)
        self.node = ROOT

    cdef bint step(self) noexcept:
        """Goes to the next node: below this one, beside it, or beside one above it. False: there is none."""
        cdef uint32_t further = self.first_child()
        if further != 0:
            self.node = further
            self.depth += 1
            return True
        while self.depth > 0:
            further = self.next_sister()
            if further != 0:
                self.node = further
                return True
            self.node = node_at(&self.tree.graph, self.node).parent
            self.depth -= 1
        return False

    cdef bint is_free(self, int depth) noexcept:
        """Whether the filter takes any level there."""
        return depth >= self.level_count or is_plus(&self.levels[depth])

    cdef uint32_t first_child(self) noexcept:
        cdef const Graph* graph = &self.tree.graph
        cdef const Level* level
        if self.depth >= self.level_count and not self.with_rest:
            return 0
        if self.is_free(self.depth):
            return self.shown(links_at(graph, self.node).first_child, self.depth)
        level = &self.levels[self.depth]
        if not node_at(graph, self.node).literals & level.bit:
            return 0
        return find_child(graph, self.node, level, edge_hash(graph, self.node, level))

    cdef uint32_t next_sister(self) noexcept:
        if not self.is_free(self.depth - 1):
            return 0
        return self.shown(links_at(&self.tree.graph, self.node).next, self.depth - 1)

    cdef uint32_t shown(self, uint32_t node, int depth) noexcept:
        """The node or the first sister of it that a wildcard reaches: not a first level with a $ [MQTT-4.7.2-1]."""
        cdef const Node* here
        while depth == 0 and node != 0:
            here = node_at(&self.tree.graph, node)
            if here.length == 0 or label_bytes(here)[0] != c'$':
                break
            node = links_at(&self.tree.graph, node).next
        return node
