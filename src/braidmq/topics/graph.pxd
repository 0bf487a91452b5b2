"""The tree of levels under FilterTrie and TopicTree: nodes in arrays, literal edges in one hash table.

Invariant: an edge (parent, level) is found from its keyed hash, but followed only when the child names that
parent and has those very bytes; so colliding hashes cost time and never give a wrong node. Cost: 36 bytes a
node (48 when linked) and 11 to 21 an edge; a lookup touches one cache line of the table and one of the nodes.
Nodes are never moved once there are 65,536 of them; the table is, when it doubles or halves.
"""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy

from braidmq.topics.siphash cimport SipKey, read_tail, siphash

cdef extern from *:
    """
    #if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    #error "labels are compared as little-endian numbers"
    #endif
    #if defined(__GNUC__) || defined(__clang__)
    #define braid_prefetch(address) __builtin_prefetch(address)
    #else
    #define braid_prefetch(address) ((void)(address))
    #endif
    """
    void prefetch "braid_prefetch"(const void* address) noexcept nogil

cdef enum:
    ROOT = 0
    LABEL_INLINE_BYTES = 10
    CHUNK_BITS = 16
    CHUNK_NODES = 1 << CHUNK_BITS


cdef struct Node:                           # 32 bytes: two to a cache line
    uint32_t parent                         # id of the node above; of a free node: the next free one
    uint32_t plus                           # id of the child reached by `+`, or 0
    uint32_t value                          # slot of the filter that ends here, or 0
    uint32_t rest_value                     # slot of the filter that ends here with one more level, `#`, or 0
    uint8_t[LABEL_INLINE_BYTES] label       # the level's bytes; their address when they are too many
    uint16_t length                         # how many bytes the level has
    uint32_t literals                       # a bit for each literal child, chosen by its level's hash: where
                                            # it is 0 there is none; it may stay 1 while others are left


cdef struct Edge:
    uint32_t hash                           # keyed hash of (parent, level); its top bits say where it lives
    uint32_t child                          # node id, or 0 where the place is empty


cdef struct Links:                          # a node's literal children and sisters; 0 where there is none
    uint32_t first_child
    uint32_t next
    uint32_t previous


cdef struct Chunk:
    Node* nodes
    uint32_t* child_counts                  # literal children of each node; apart, since no search needs it
    Links* links                            # only in a linked graph


cdef struct Graph:
    Chunk* chunks                           # the nodes by id, 65,536 to a chunk; the root is node 0
    uint32_t chunk_count
    uint32_t nodes_end                      # ids from here on were never used
    uint32_t nodes_capacity
    uint32_t nodes_free                     # first of the chain of free nodes, or 0
    uint32_t node_count                     # nodes in use, root left out
    Edge* edges                             # open addressing, linear probing
    uint32_t edges_capacity                 # a power of two
    uint32_t edge_count
    int edge_shift                          # hash >> edge_shift is an edge's home
    bint linked                             # whether the children of a node can be listed
    uint32_t hash_mask                      # all ones, except in tests that want collisions
    SipKey key
    size_t long_label_bytes


cdef struct Level:                          # one level of a topic or filter, ready to be looked up
    const uint8_t* data
    Py_ssize_t length
    uint64_t hash
    uint32_t bit                            # the one it has in its parent's `literals`
    uint16_t tail                           # a short level's bytes 8 and 9, and
    uint64_t head                           # bytes 0 to 7, with zeros after its end, to compare it at once


cdef inline Node* node_at(const Graph* graph, uint32_t node) noexcept nogil:
    return &graph.chunks[node >> CHUNK_BITS].nodes[node & (CHUNK_NODES - 1)]


cdef inline uint32_t* child_count_at(const Graph* graph, uint32_t node) noexcept nogil:
    return &graph.chunks[node >> CHUNK_BITS].child_counts[node & (CHUNK_NODES - 1)]


cdef inline Links* links_at(const Graph* graph, uint32_t node) noexcept nogil:
    return &graph.chunks[node >> CHUNK_BITS].links[node & (CHUNK_NODES - 1)]


cdef inline Py_ssize_t level_end(const uint8_t* text, Py_ssize_t start, Py_ssize_t length) noexcept nogil:
    """Where the level that starts at `start` ends: at the next slash or at the end of the text."""
    cdef const uint8_t* slash = <const uint8_t*>memchr(text + start, c'/', length - start)
    return length if slash == NULL else slash - text


cdef inline Level make_level(const Graph* graph, const uint8_t* data, Py_ssize_t length) noexcept nogil:
    cdef Level level
    level.data = data
    level.length = length
    level.hash = siphash(data, length, graph.key)
    level.bit = <uint32_t>1 << (level.hash & 31)
    level.head = level.tail = 0
    if length < 8:
        level.head = read_tail(data, length)
    elif length <= LABEL_INLINE_BYTES:
        memcpy(&level.head, data, 8)
        level.tail = <uint16_t>read_tail(data + 8, length - 8)
    return level


cdef inline uint32_t edge_hash(const Graph* graph, uint32_t parent, const Level* level) noexcept nogil:
    cdef uint64_t x = level.hash ^ <uint64_t>parent * 0x9E3779B97F4A7C15ULL
    x = (x ^ (x >> 32)) * 0xD6E8FEB86659FD93ULL
    x = (x ^ (x >> 32)) * 0xD6E8FEB86659FD93ULL
    return <uint32_t>(x >> 32) & graph.hash_mask


cdef inline const uint8_t* label_bytes(const Node* node) noexcept nogil:
    cdef const uint8_t* far
    if node.length <= LABEL_INLINE_BYTES:
        return node.label
    memcpy(&far, node.label, sizeof(far))
    return far


cdef inline bint is_child(const Node* node, uint32_t parent, const Level* level) noexcept nogil:
    cdef uint64_t head
    cdef uint16_t tail
    if node.parent != parent or node.length != level.length:
        return False
    if level.length > LABEL_INLINE_BYTES:
        return memcmp(label_bytes(node), level.data, level.length) == 0
    memcpy(&head, node.label, 8)
    memcpy(&tail, node.label + 8, 2)
    return head == level.head and tail == level.tail


cdef inline uint32_t find_candidate(const Graph* graph, uint32_t hash) noexcept nogil:
    """The first node whose edge has this hash, or 0: almost surely the child that is looked for, if it is
    there at all. Reads the edge table only."""
    cdef uint32_t last = graph.edges_capacity - 1
    cdef uint32_t place = hash >> graph.edge_shift
    while graph.edges[place].child != 0 and graph.edges[place].hash != hash:
        place = (place + 1) & last
    return graph.edges[place].child


cdef inline uint32_t find_child(const Graph* graph, uint32_t parent, const Level* level,
                                uint32_t hash) noexcept nogil:
    """The literal child of `parent` at `level`, or 0. `hash` is their edge_hash."""
    cdef uint32_t last = graph.edges_capacity - 1
    cdef uint32_t place = hash >> graph.edge_shift
    cdef const Edge* edge = &graph.edges[place]
    while edge.child != 0:
        if edge.hash == hash and is_child(node_at(graph, edge.child), parent, level):
            return edge.child
        place = (place + 1) & last
        edge = &graph.edges[place]
    return 0


cdef inline void pin(Graph* graph, uint32_t node) noexcept nogil:
    """Keeps a node from being pruned: to `prune` it has one child more, which nobody finds."""
    child_count_at(graph, node)[0] += 1
    node_at(graph, node).literals |= 1


cdef void unpin(Graph* graph, uint32_t node) noexcept
cdef int graph_open(Graph* graph, SipKey key, uint32_t hash_mask, bint linked) except -1
cdef void graph_close(Graph* graph) noexcept
cdef uint32_t add_child(Graph* graph, uint32_t parent, const Level* level) except 0
cdef uint32_t add_plus(Graph* graph, uint32_t parent) except 0
cdef void prune(Graph* graph, uint32_t node) noexcept
cdef size_t graph_memory_bytes(const Graph* graph) noexcept
cdef int graph_check(const Graph* graph) except -1
