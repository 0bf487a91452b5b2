"""The tree of levels under FilterTrie: nodes in one array, literal edges in one hash table.

Invariant: an edge (parent, level) is found from its keyed hash, but followed only when the child names that
parent and has those very bytes; so colliding hashes cost time and never give a wrong node. Cost: 32 bytes a
node and about 13 an edge; a lookup touches one cache line of the table and one of the nodes.
"""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy

from braidmq.topics.siphash cimport SipKey, siphash

cdef extern from *:
    """
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


cdef struct Node:                           # 32 bytes: two to a cache line
    uint32_t parent                         # id of the node above; of a free node: the next free one
    uint32_t plus                           # id of the child reached by `+`, or 0
    uint32_t value                          # slot of the filter that ends here, or 0
    uint32_t rest_value                     # slot of the filter that ends here with one more level, `#`, or 0
    uint8_t[LABEL_INLINE_BYTES] label       # the level's bytes; their address when they are too many
    uint16_t length                         # how many bytes the level has
    uint32_t children                       # how many literal children it has in the edge table


cdef struct Edge:
    uint32_t hash                           # keyed hash of (parent, level); its top bits say where it lives
    uint32_t child                          # node id, or 0 where the place is empty


cdef struct Graph:
    Node* nodes                             # by id; the root is node 0
    uint32_t nodes_end                      # ids from here on were never used
    uint32_t nodes_capacity
    uint32_t nodes_free                     # first of the chain of free nodes, or 0
    uint32_t node_count                     # nodes in use, root left out
    Edge* edges                             # open addressing, linear probing
    uint32_t edges_capacity                 # a power of two
    uint32_t edge_count
    int edge_shift                          # hash >> edge_shift is an edge's home
    uint32_t hash_mask                      # all ones, except in tests that want collisions
    SipKey key
    size_t long_label_bytes


cdef struct Level:                          # one level of a topic or filter, ready to be looked up
    const uint8_t* data
    Py_ssize_t length
    uint64_t hash


cdef inline Py_ssize_t level_end(const uint8_t* text, Py_ssize_t start, Py_ssize_t length) noexcept nogil:
    """Where the level that starts at `start` ends: at the next slash or at the end of the text."""
    cdef const uint8_t* slash = <const uint8_t*>memchr(text + start, c'/', length - start)
    return length if slash == NULL else slash - text


cdef inline Level make_level(const Graph* graph, const uint8_t* data, Py_ssize_t length) noexcept nogil:
    cdef Level level
    level.data = data
    level.length = length
    level.hash = siphash(data, length, graph.key)
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
    return (node.parent == parent and node.length == level.length
            and memcmp(label_bytes(node), level.data, level.length) == 0)


cdef inline uint32_t find_child(const Graph* graph, uint32_t parent, const Level* level,
                                uint32_t hash) noexcept nogil:
    """The literal child of `parent` at `level`, or 0. `hash` is their edge_hash."""
    cdef uint32_t last = graph.edges_capacity - 1
    cdef uint32_t place = hash >> graph.edge_shift
    cdef const Edge* edge = &graph.edges[place]
    while edge.child != 0:
        if edge.hash == hash and is_child(&graph.nodes[edge.child], parent, level):
            return edge.child
        place = (place + 1) & last
        edge = &graph.edges[place]
    return 0


cdef int graph_open(Graph* graph, SipKey key, uint32_t hash_mask) except -1
cdef void graph_close(Graph* graph) noexcept
cdef uint32_t add_child(Graph* graph, uint32_t parent, const Level* level) except 0
cdef uint32_t add_plus(Graph* graph, uint32_t parent) except 0
cdef void prune(Graph* graph, uint32_t node) noexcept
cdef size_t graph_memory_bytes(const Graph* graph) noexcept
cdef int graph_check(const Graph* graph) except -1
