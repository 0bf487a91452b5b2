"""Growing, shrinking and checking the tree of levels; its layout and its lookups are in graph.pxd."""

from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memset

cdef extern from *:
    """
    #include <stdlib.h>
    #include <string.h>
    #if defined(__linux__)
    #include <sys/mman.h>
    #endif

    /* Zeroed memory that starts at a cache line; in huge pages where the system has them, since most of a
       search in a large trie is waiting for memory. */
    static void *braid_take_zeroed(size_t bytes) {
        const size_t huge_page = (size_t)2 << 20;
        void *memory = NULL;
        if (posix_memalign(&memory, bytes < huge_page ? 64 : huge_page, bytes) != 0)
            return NULL;
    #if defined(MADV_HUGEPAGE)
        if (bytes >= huge_page)
            (void)madvise(memory, bytes & ~(huge_page - 1), MADV_HUGEPAGE);
    #endif
        return memset(memory, 0, bytes);
    }
    """
    void* take_zeroed "braid_take_zeroed"(size_t bytes) noexcept

cdef enum:
    NODES_MIN = 64
    CHUNKS_MAX = 65535
    EDGES_MAX_BITS = 31
    EDGES_MIN_BITS = 6


cdef int graph_open(Graph* graph, SipKey key, uint32_t hash_mask, bint linked) except -1:
    memset(graph, 0, sizeof(Graph))
    graph.key = key
    graph.hash_mask = hash_mask
    graph.linked = linked
    graph.edges_capacity = 1 << EDGES_MIN_BITS
    graph.edge_shift = 32 - EDGES_MIN_BITS
    graph.edges = <Edge*>take_zeroed(sizeof(Edge) << EDGES_MIN_BITS)
    if graph.edges == NULL:
        raise MemoryError
    try:
        grow_nodes(graph)
    except MemoryError:
        graph_close(graph)
        raise
    graph.nodes_end = ROOT + 1
    return 0


cdef void graph_close(Graph* graph) noexcept:
    cdef uint32_t node, chunk
    if graph.long_label_bytes:
        for node in range(graph.nodes_end):
            if node_at(graph, node).length > LABEL_INLINE_BYTES:
                free(<void*>label_bytes(node_at(graph, node)))
    for chunk in range(graph.chunk_count):
        free_chunk(&graph.chunks[chunk])
    free(graph.chunks)
    free(graph.edges)
    memset(graph, 0, sizeof(Graph))


cdef int grow_nodes(Graph* graph) except -1:
    """Doubles the first chunk up to its full size, then adds chunks: nothing large is ever copied."""
    cdef Chunk* chunks
    if graph.nodes_capacity % CHUNK_NODES != 0:
        grow_chunk(graph, &graph.chunks[0], graph.nodes_capacity, graph.nodes_capacity)
        return 0
    if graph.chunk_count == CHUNKS_MAX:
        raise MemoryError("the trie has no more node ids")
    chunks = <Chunk*>realloc(graph.chunks, (graph.chunk_count + 1) * sizeof(Chunk))
    if chunks == NULL:
        raise MemoryError
    graph.chunks = chunks
    memset(&chunks[graph.chunk_count], 0, sizeof(Chunk))
    grow_chunk(graph, &chunks[graph.chunk_count], 0, CHUNK_NODES if graph.chunk_count > 0 else NODES_MIN)
    graph.chunk_count += 1
    return 0


cdef int grow_chunk(Graph* graph, Chunk* chunk, uint32_t old, uint32_t added) except -1:
    """Gives the chunk place for `added` nodes more than its `old` ones."""
    cdef Chunk larger
    cdef size_t capacity = old + added
    larger.nodes = <Node*>take_zeroed(capacity * sizeof(Node))
    larger.child_counts = <uint32_t*>take_zeroed(capacity * sizeof(uint32_t))
    larger.links = <Links*>take_zeroed(capacity * sizeof(Links)) if graph.linked else NULL
    if larger.nodes == NULL or larger.child_counts == NULL or (graph.linked and larger.links == NULL):
        free_chunk(&larger)
        raise MemoryError
    if old > 0:
        memcpy(larger.nodes, chunk.nodes, old * sizeof(Node))
        memcpy(larger.child_counts, chunk.child_counts, old * sizeof(uint32_t))
        if graph.linked:
            memcpy(larger.links, chunk.links, old * sizeof(Links))
    free_chunk(chunk)
    chunk[0] = larger
    graph.nodes_capacity += added
    return 0


cdef void free_chunk(Chunk* chunk) noexcept:
    free(chunk.nodes)
    free(chunk.child_counts)
    free(chunk.links)


cdef uint32_t take_node(Graph* graph, uint32_t parent) except 0:
    cdef uint32_t node = graph.nodes_free
    if node != 0:
        graph.nodes_free = node_at(graph, node).parent
    else:
        if graph.nodes_end == graph.nodes_capacity:
            grow_nodes(graph)
        node = graph.nodes_end
        graph.nodes_end += 1
    memset(node_at(graph, node), 0, sizeof(Node))
    node_at(graph, node).parent = parent
    graph.node_count += 1
    return node


cdef void release_node(Graph* graph, uint32_t node) noexcept:
    cdef Node* freed = node_at(graph, node)
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
    cdef Edge* edges = NULL if bits > EDGES_MAX_BITS else <Edge*>take_zeroed(sizeof(Edge) << bits)
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
        set_label(graph, node_at(graph, edge.child), level)
    except MemoryError:
        release_node(graph, edge.child)
        raise
    place_edge(graph, edge)
    graph.edge_count += 1
    if graph.linked:
        link(graph, edge.child, parent)
    node_at(graph, parent).literals |= level.bit
    child_count_at(graph, parent)[0] += 1
    return edge.child


cdef void link(Graph* graph, uint32_t child, uint32_t parent) noexcept:
    cdef uint32_t sister = links_at(graph, parent).first_child
    links_at(graph, child).next = sister
    links_at(graph, child).previous = 0
    links_at(graph, parent).first_child = child
    if sister != 0:
        links_at(graph, sister).previous = child


cdef void unlink(Graph* graph, uint32_t child, uint32_t parent) noexcept:
    cdef Links* gone = links_at(graph, child)
    if gone.next != 0:
        links_at(graph, gone.next).previous = gone.previous
    if gone.previous != 0:
        links_at(graph, gone.previous).next = gone.next
    else:
        links_at(graph, parent).first_child = gone.next


cdef uint32_t add_plus(Graph* graph, uint32_t parent) except 0:
    """Makes the `+` child of `parent`, which must not exist."""
    cdef uint32_t child = take_node(graph, parent)
    node_at(graph, parent).plus = child
    return child


cdef uint32_t edge_place(const Graph* graph, uint32_t child) noexcept:
    """Where the edge to the literal child is."""
    cdef const Node* node = node_at(graph, child)
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
    return node.value == 0 and node.rest_value == 0 and node.plus == 0 and node.literals == 0


cdef void prune(Graph* graph, uint32_t node) noexcept:
    """Removes `node` and the nodes above it as far as they hold nothing and lead nowhere."""
    cdef uint32_t parent
    while node != ROOT and is_bare(node_at(graph, node)):
        parent = node_at(graph, node).parent
        if node_at(graph, parent).plus == node:
            node_at(graph, parent).plus = 0
        else:
            remove_edge(graph, node)
            if graph.linked:
                unlink(graph, node, parent)
            child_count_at(graph, parent)[0] -= 1
            if child_count_at(graph, parent)[0] == 0:
                node_at(graph, parent).literals = 0
        release_node(graph, node)
        node = parent
    if graph.edge_shift < 32 - EDGES_MIN_BITS and graph.edge_count < graph.edges_capacity // 8:
        resize_edges(graph, 31 - graph.edge_shift)


cdef void unpin(Graph* graph, uint32_t node) noexcept:
    """Takes a pin back; a node that was held by nothing else goes."""
    child_count_at(graph, node)[0] -= 1
    if child_count_at(graph, node)[0] == 0:
        node_at(graph, node).literals = 0
    prune(graph, node)


cdef size_t graph_memory_bytes(const Graph* graph) noexcept:
    cdef size_t node_bytes = sizeof(Node) + sizeof(uint32_t) + (sizeof(Links) if graph.linked else 0)
    return (graph.nodes_capacity * node_bytes
            + <size_t>graph.edges_capacity * sizeof(Edge) + graph.long_label_bytes)


cdef int check_links(const Graph* graph, uint32_t node) except -1:
    cdef uint32_t previous = 0, child = links_at(graph, node).first_child, count = 0
    while child != 0:
        assert node_at(graph, child).parent == node and links_at(graph, child).previous == previous
        previous, child = child, links_at(graph, child).next
        count += 1
    assert count == child_count_at(graph, node)[0], "some child is not in the list of children"
    return 0


cdef int check_node(const Graph* graph, uint32_t node) except -1:
    cdef const Node* checked = node_at(graph, node)
    cdef Level level
    assert not is_bare(checked), f"node {node} should have been pruned"
    assert (checked.literals == 0) == (child_count_at(graph, node)[0] == 0)
    if graph.linked:
        check_links(graph, node)
    if node_at(graph, checked.parent).plus == node:
        return 0
    level = make_level(graph, label_bytes(checked), checked.length)
    assert node_at(graph, checked.parent).literals & level.bit
    assert find_child(graph, checked.parent, &level, edge_hash(graph, checked.parent, &level)) == node
    return 0


cdef int graph_check(const Graph* graph) except -1:
    cdef uint32_t node = graph.nodes_free
    cdef size_t children = 0
    cdef set free_nodes = set()
    while node != 0:
        assert node not in free_nodes, "the chain of free nodes has a loop"
        free_nodes.add(node)
        node = node_at(graph, node).parent
    assert graph.node_count + len(free_nodes) + 1 == graph.nodes_end <= graph.nodes_capacity
    for node in range(graph.nodes_end):
        if node not in free_nodes:
            children += child_count_at(graph, node)[0]
            if node != ROOT:
                check_node(graph, node)
    assert children == graph.edge_count < graph.edges_capacity, "there are more edges than children, or fewer"
    return 0
