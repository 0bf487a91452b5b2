"""Growing, shrinking and checking the tree of levels; its layout and its lookups are in graph.pxd."""

from libc.stdlib cimport free, malloc
from libc.string cimport memset

cdef extern from *:
    """
    #include <stdlib.h>
    #include <string.h>

    /* Zeroed memory that starts at a cache line. */
    static void *braid_take_zeroed(size_t bytes) {
        void *memory = NULL;
        if (posix_memalign(&memory, 64, bytes) != 0)
            return NULL;
        return memset(memory, 0, bytes);
    }
    """
    void* take_zeroed "braid_take_zeroed"(size_t bytes) noexcept

cdef enum:
    NODES_MIN = 64
    EDGES_MIN_BITS = 6


cdef int graph_open(Graph* graph, SipKey key, uint32_t hash_mask) except -1:
    memset(graph, 0, sizeof(Graph))
    graph.key = key
    graph.hash_mask = hash_mask
    graph.nodes = <Node*>take_zeroed(NODES_MIN * sizeof(Node))
    graph.edges = <Edge*>take_zeroed(sizeof(Edge) << EDGES_MIN_BITS)
    if graph.nodes == NULL or graph.edges == NULL:
        graph_close(graph)
        raise MemoryError
    graph.nodes_capacity = NODES_MIN
    graph.nodes_end = ROOT + 1
    graph.edges_capacity = 1 << EDGES_MIN_BITS
    graph.edge_shift = 32 - EDGES_MIN_BITS
    return 0


cdef void graph_close(Graph* graph) noexcept:
    cdef uint32_t node
    if graph.nodes != NULL and graph.long_label_bytes:
        for node in range(graph.nodes_end):
            if graph.nodes[node].length > LABEL_INLINE_BYTES:
                free(<void*>label_bytes(&graph.nodes[node]))
    free(graph.nodes)
    free(graph.edges)
    memset(graph, 0, sizeof(Graph))


cdef int grow_nodes(Graph* graph) except -1:
    cdef size_t capacity = <size_t>graph.nodes_capacity * 2
    cdef Node* nodes
    if capacity > 0xFFFFFFFF:
        raise MemoryError("the trie has no more node ids")
    nodes = <Node*>take_zeroed(capacity * sizeof(Node))
    if nodes == NULL:
        raise MemoryError
    memcpy(nodes, graph.nodes, graph.nodes_capacity * sizeof(Node))
    free(graph.nodes)
    graph.nodes = nodes
    graph.nodes_capacity = <uint32_t>capacity
    return 0


cdef uint32_t take_node(Graph* graph, uint32_t parent) except 0:
    cdef uint32_t node = graph.nodes_free
    if node != 0:
        graph.nodes_free = graph.nodes[node].parent
    else:
        if graph.nodes_end == graph.nodes_capacity:
            grow_nodes(graph)
        node = graph.nodes_end
        graph.nodes_end += 1
    memset(&graph.nodes[node], 0, sizeof(Node))
    graph.nodes[node].parent = parent
    graph.node_count += 1
    return node


cdef void release_node(Graph* graph, uint32_t node) noexcept:
    cdef Node* freed = &graph.nodes[node]
    if freed.length > LABEL_INLINE_BYTES:
        free(<void*>label_bytes(freed))
        graph.long_label_bytes -= freed.length
    memset(freed, 0, sizeof(Node))
    freed.parent = graph.nodes_free
    graph.nodes_free = node
    graph.node_count -= 1


cdef int set_label(Graph* graph, Node* node, const Level* level) except -1:
    cdef uint8_t* far
    if level.length > LABEL_INLINE_BYTES:
        far = <uint8_t*>malloc(level.length)
        if far == NULL:
            raise MemoryError
        memcpy(far, level.data, level.length)
        memcpy(node.label, &far, sizeof(far))
        graph.long_label_bytes += level.length
    else:
        memcpy(node.label, level.data, level.length)
    node.length = <uint16_t>level.length
    return 0


cdef void place_edge(Graph* graph, Edge edge) noexcept:
    cdef uint32_t last = graph.edges_capacity - 1
    cdef uint32_t place = edge.hash >> graph.edge_shift
    while graph.edges[place].child != 0:
        place = (place + 1) & last
    graph.edges[place] = edge


cdef bint resize_edges(Graph* graph, int bits) noexcept:
    """Moves the edges to a table of 2**bits places; False when there is no memory for it. Homes are in the
    order of the hashes in either table, so both are walked from front to back and this is quick."""
    cdef Edge* old = graph.edges
    cdef uint32_t old_capacity = graph.edges_capacity, place
    cdef Edge* edges = <Edge*>take_zeroed(sizeof(Edge) << bits)
    if edges == NULL:
        return False
    graph.edges = edges
    graph.edges_capacity = <uint32_t>1 << bits
    graph.edge_shift = 32 - bits
    for place in range(old_capacity):
        if old[place].child != 0:
            place_edge(graph, old[place])
    free(old)
    return True


cdef uint32_t add_child(Graph* graph, uint32_t parent, const Level* level) except 0:
    """Makes the literal child of `parent` at `level`, which must not exist."""
    cdef Edge edge
    if graph.edge_count >= graph.edges_capacity // 4 * 3 and not resize_edges(graph, 33 - graph.edge_shift):
        raise MemoryError
    edge.hash = edge_hash(graph, parent, level)
    edge.child = take_node(graph, parent)
    try:
        set_label(graph, &graph.nodes[edge.child], level)
    except MemoryError:
        release_node(graph, edge.child)
        raise
    place_edge(graph, edge)
    graph.edge_count += 1
    graph.nodes[parent].children += 1
    return edge.child


cdef uint32_t add_plus(Graph* graph, uint32_t parent) except 0:
    """Makes the `+` child of `parent`, which must not exist."""
    cdef uint32_t child = take_node(graph, parent)
    graph.nodes[parent].plus = child
    return child


cdef uint32_t edge_place(const Graph* graph, uint32_t child) noexcept:
    """Where the edge to the literal child is."""
    cdef const Node* node = &graph.nodes[child]
    cdef Level level = make_level(graph, label_bytes(node), node.length)
    cdef uint32_t place = edge_hash(graph, node.parent, &level) >> graph.edge_shift
    while graph.edges[place].child != child:
        place = (place + 1) & (graph.edges_capacity - 1)
    return place


cdef void remove_edge(Graph* graph, uint32_t child) noexcept:
    """Closes the gap by moving back whatever was pushed past it, so that probes still end at the first empty
    place and no tombstones pile up."""
    cdef uint32_t last = graph.edges_capacity - 1
    cdef uint32_t gap = edge_place(graph, child)
    cdef uint32_t place = gap, home
    while True:
        place = (place + 1) & last
        if graph.edges[place].child == 0:
            break
        home = graph.edges[place].hash >> graph.edge_shift
        if ((place - home) & last) >= ((place - gap) & last):
            graph.edges[gap] = graph.edges[place]
            gap = place
    graph.edges[gap].child = 0
    graph.edge_count -= 1


cdef bint is_bare(const Node* node) noexcept:
    return node.value == 0 and node.rest_value == 0 and node.plus == 0 and node.children == 0


cdef void prune(Graph* graph, uint32_t node) noexcept:
    """Removes `node` and the nodes above it as far as they hold nothing and lead nowhere."""
    cdef uint32_t parent
    while node != ROOT and is_bare(&graph.nodes[node]):
        parent = graph.nodes[node].parent
        if graph.nodes[parent].plus == node:
            graph.nodes[parent].plus = 0
        else:
            remove_edge(graph, node)
            graph.nodes[parent].children -= 1
        release_node(graph, node)
        node = parent
    if graph.edge_shift < 32 - EDGES_MIN_BITS and graph.edge_count < graph.edges_capacity // 8:
        resize_edges(graph, 31 - graph.edge_shift)


cdef size_t graph_memory_bytes(const Graph* graph) noexcept:
    return (<size_t>graph.nodes_capacity * sizeof(Node) + <size_t>graph.edges_capacity * sizeof(Edge)
            + graph.long_label_bytes)


cdef int check_node(const Graph* graph, uint32_t node) except -1:
    cdef const Node* checked = &graph.nodes[node]
    cdef Level level
    assert not is_bare(checked), f"node {node} should have been pruned"
    if graph.nodes[checked.parent].plus == node:
        return 0
    level = make_level(graph, label_bytes(checked), checked.length)
    assert find_child(graph, checked.parent, &level, edge_hash(graph, checked.parent, &level)) == node
    return 0


cdef int graph_check(const Graph* graph) except -1:
    cdef uint32_t node = graph.nodes_free
    cdef size_t children = 0
    cdef set free_nodes = set()
    while node != 0:
        assert node not in free_nodes, "the chain of free nodes has a loop"
        free_nodes.add(node)
        node = graph.nodes[node].parent
    assert graph.node_count + len(free_nodes) + 1 == graph.nodes_end <= graph.nodes_capacity
    for node in range(graph.nodes_end):
        if node not in free_nodes:
            children += graph.nodes[node].children
            if node != ROOT:
                check_node(graph, node)
    assert children == graph.edge_count < graph.edges_capacity, "children and edges are not the same in number"
    return 0
